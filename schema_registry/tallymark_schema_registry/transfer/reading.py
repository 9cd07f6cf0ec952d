"""The snapshot of a running registry.

Many versions come with each answer of ``GET /schemas``, first all and then those that are not
deleted: only some registries mark the deleted ones. Where that request is missing, or does not give
every subject, each version is asked for. Levels and modes are asked for by subject: of those that
the changes name (``GET /changes``), or of all that have a version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from tallymark.errors import UserError
from tallymark_schema_registry.catalog.subject import GLOBAL_CONTEXT
from tallymark_schema_registry.transfer.plan import context_place
from tallymark_schema_registry.transfer.remote import RemoteRegistry
from tallymark_schema_registry.transfer.snapshot import Place, Snapshot, Version

THREADS: Final = 8
"""Requests under way at once."""
_TRIES: Final = 3
_PORTION: Final = 512

Told: TypeAlias = Callable[[str], object]
"""``told(text)``: how far it is."""
A = TypeVar("A")
B = TypeVar("B")


def read_registry(registry: RemoteRegistry, told: Told | None = None) -> Snapshot:
    """All that ``registry`` holds. UserError where it changes faster than it can be read."""
    return _Reading(registry, told or (lambda text: None)).snapshot()


class _Reading:
    """One run."""

    def __init__(self, registry: RemoteRegistry, told: Told) -> None:
        self._registry = registry
        self._told = told

    def snapshot(self) -> Snapshot:
        """The versions, then the levels and modes."""
        found = Snapshot()
        with ThreadPoolExecutor(THREADS, "registry") as pool:
            for version in self._versions(pool):
                found.add(version)
            places = self._places(found)
            for place, config, mode in self._all(pool, self._settings, places, "subjects' levels"):
                if config:
                    found.configs[place] = config
                if mode:
                    found.modes[place] = mode
        return found

    def _places(self, found: Snapshot) -> list[str]:
        """Where something may be configured."""
        configured = self._registry.configured()
        if configured is None:
            contexts = map(context_place, [GLOBAL_CONTEXT, *self._registry.contexts()])
            configured = [*contexts, *found.subjects()]
        return list(dict.fromkeys(["", *configured]))

    def _settings(self, place: str) -> tuple[str, dict[str, Any], str | None]:
        return place, self._registry.config(place), self._registry.mode(place)

    def _versions(self, pool: ThreadPoolExecutor) -> Iterable[Version]:
        for _ in range(_TRIES):
            subjects = set(self._registry.subjects())
            every = self._pages(deleted=True)
            if subjects - {subject for subject, _ in every}:
                return self._crawl(pool, sorted(subjects))
            live = self._pages(deleted=False)
            if all(
                place in every and every[place].schema_id == live[place].schema_id for place in live
            ):
                return [replace(one, deleted=one.place not in live) for one in every.values()]
        raise UserError(
            "the registry changes while it is read",
            "set its mode to READONLY meanwhile: tallymark schema mode --set READONLY",
        )

    def _pages(self, *, deleted: bool) -> dict[Place, Version]:
        found: dict[Place, Version] = {}
        for page in self._registry.pages(deleted=deleted):
            found.update((one.place, one) for one in page)
            self._told(f"{len(found)} versions")
        return found

    def _crawl(self, pool: ThreadPoolExecutor, subjects: list[str]) -> Iterator[Version]:
        """Each version by a request of its own."""
        places: list[tuple[Place, bool]] = []
        for found in self._all(pool, self._numbers, subjects, "subjects"):
            places += found
        for version in self._all(pool, self._version, places, "versions"):
            if version is not None:
                yield version

    def _numbers(self, subject: str) -> list[tuple[Place, bool]]:
        live = self._registry.versions(subject, deleted=False)
        every = self._registry.versions(subject, deleted=True)
        return [((subject, number), number not in live) for number in sorted({*every, *live})]

    def _version(self, asked: tuple[Place, bool]) -> Version | None:
        (subject, number), deleted = asked
        found = self._registry.version(subject, number)
        # Some registries leave out the context that they were asked for.
        return None if found is None else replace(found, subject=subject, deleted=deleted)

    def _all(
        self, pool: ThreadPoolExecutor, ask: Callable[[A], B], given: list[A], of: str
    ) -> Iterator[B]:
        """The answers, in the order of ``given``."""
        for begin in range(0, len(given), _PORTION):
            yield from pool.map(ask, given[begin : begin + _PORTION])
            self._told(f"{min(begin + _PORTION, len(given))} of {len(given)} {of}")
