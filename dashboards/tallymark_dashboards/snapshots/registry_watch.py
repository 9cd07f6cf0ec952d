"""The schema registry: subjects, their versions and levels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from tallymark.client.core.security.http import registry_settings
from tallymark.deployment import Deployment
from tallymark.errors import ClosedError, TallymarkError
from tallymark.serialization.errors import RegistryError
from tallymark.serialization.registry_client import RegistryClient
from tallymark.serialization.schemas import RegisteredSchema
from tallymark_dashboards.snapshots.registry_shapes import (
    RegistryState,
    SubjectState,
    SubjectVersion,
)
from tallymark_dashboards.snapshots.rhythm import Turns
from tallymark_dashboards.snapshots.shapes import Part

MAX_SUBJECTS: Final = 10_000
MAX_CHARACTERS: Final = 32 * 1024 * 1024
"""Of all texts together; what comes after is named without its text."""
_LEVELS_A_LOOK: Final = 100
_TIMEOUT_S: Final = 3.0
_NOT_SET: Final = 404
_TURN: Final = 500


class RegistryWatch:
    """Looks at the registry. :meth:`look` is for one thread, :meth:`close` for any."""

    def __init__(
        self, deployment: Deployment, now: Callable[[], int], breathe: Callable[[], None]
    ) -> None:
        self._deployment = deployment
        self._now = now
        self._breathe = breathe
        self._client: RegistryClient | None = None
        self._levels: dict[str, str] = {}
        self._turns = Turns(_LEVELS_A_LOOK)
        self.state = RegistryState(deployment.registry.url)

    def look(self, every_ms: int) -> bool:
        """Ask for everything, then renew :attr:`state`. False when the registry could not be
        asked."""
        tried, old = self._now(), self.state.subjects
        try:
            found, left_out = self._read()
            level = self._read_levels(sorted(found))
        except ClosedError:
            return False
        except (TallymarkError, RegistryError) as error:
            self._forget_client()
            failed = replace(old, tried=tried, error=str(error), every=every_ms)
            self.state = replace(self.state, subjects=failed)
            return False
        subjects: Mapping[str, SubjectState] = {
            name: SubjectState(
                name,
                tuple(versions),
                self._levels.get(name, "") or level,
                bool(self._levels.get(name)),
            )
            for name, versions in sorted(found.items())
        }
        part: Part[Mapping[str, SubjectState]] = Part(subjects, self._now(), tried, "", every_ms)
        self.state = RegistryState(self.state.url, level, part, left_out)
        return True

    def close(self) -> None:
        """Close the connections; idempotent."""
        self._forget_client()

    def _read(self) -> tuple[dict[str, list[SubjectVersion]], str]:
        found: dict[str, list[SubjectVersion]] = {}
        room, versions, more, cut = MAX_CHARACTERS, 0, 0, 0
        # Not every registry says of a version whether it is softly deleted.
        there = {(one.subject, one.version) for one in self._opened().all_versions()}
        self._breathe()
        for one in self._opened().all_versions(deleted=True):
            versions += 1
            if versions % _TURN == 0:
                self._breathe()
            if one.subject not in found and len(found) >= MAX_SUBJECTS:
                more += 1
                continue
            room -= len(one.text)
            cut += room < 0
            deleted = (one.subject, one.version) not in there
            version = _version(one, "" if room < 0 else one.text, deleted=deleted)
            found.setdefault(one.subject, []).append(version)
        for some in found.values():
            some.sort(key=lambda one: one.version)
        left_out = [f"{more:,} versions of further subjects"] if more else []
        left_out += [f"the texts of {cut:,} versions"] if cut else []
        return found, ", ".join(left_out)

    def _read_levels(self, subjects: list[str]) -> str:
        """The global level; those of the subjects' own are asked for in turns."""
        client = self._opened()
        known = set(subjects)
        self._levels = {name: one for name, one in self._levels.items() if name in known}
        for name in self._turns.take(subjects):
            try:
                self._levels[name] = str(client.config(name).get("compatibilityLevel", ""))
            except RegistryError as error:
                if error.status != _NOT_SET:
                    raise
                self._levels.pop(name, None)
            self._breathe()
        return client.level()

    def _opened(self) -> RegistryClient:
        if self._client is None:
            settings = registry_settings(self._deployment)
            self._client = RegistryClient(**settings, timeout=_TIMEOUT_S, attempts=1)
        return self._client

    def _forget_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(TallymarkError):
                client.close()


def _version(one: RegisteredSchema, text: str, *, deleted: bool) -> SubjectVersion:
    return SubjectVersion(one.version, one.schema_id, one.kind, text, one.references, deleted)
