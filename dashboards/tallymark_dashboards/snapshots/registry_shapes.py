"""What pages get of the schema registry. Immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tallymark.serialization.schemas import Reference
from tallymark_dashboards.snapshots.shapes import Part


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """One version of a subject."""

    version: int
    schema_id: int
    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class SubjectState:
    """A subject: its versions ascending, its level of compatibility ("": not known) and whether the
    level is its own or the registry's."""

    subject: str
    versions: tuple[SubjectVersion, ...]
    level: str = ""
    own_level: bool = False

    @property
    def latest(self) -> SubjectVersion | None:
        """The newest version that is not deleted."""
        there = [one for one in self.versions if not one.deleted]
        return there[-1] if there else None


def _no_subjects() -> Part[Mapping[str, SubjectState]]:
    return Part({})


@dataclass(frozen=True, slots=True)
class RegistryState:
    """The registry of the deployment; ``level`` is its global one, ``left_out`` says what the
    bounds of memory cut off ("": nothing)."""

    url: str = ""
    level: str = ""
    subjects: Part[Mapping[str, SubjectState]] = field(default_factory=_no_subjects)
    left_out: str = ""
