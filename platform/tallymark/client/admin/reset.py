"""Decides from which offset a group continues after a reset. Pure; :mod:`.offsets` requests the
facts.

As ``kafka-consumer-groups --reset-offsets``: to the earliest or latest record, to the first record
at or after a time, to an offset, by a number of records forwards or backwards, or to its present
offset. A target outside of the log is moved to the nearest end of the log, and reported as moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tallymark.errors import UserError

TargetKind = Literal["earliest", "latest", "time", "offset", "shift", "current"]


@dataclass(frozen=True, slots=True)
class OffsetTarget:
    """``value`` is milliseconds since the epoch for "time", the offset for "offset", the number of
    records (negative: backwards) for "shift"."""

    kind: TargetKind
    value: int = 0


@dataclass(frozen=True, slots=True)
class LogFacts:
    """A partition's log: its first offset, its next one, the first one at or after the requested
    time (None: no record is so late), and the offset of the group (None: it has none)."""

    start: int
    end: int
    at_time: int | None = None
    current: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The reset of one partition. ``before`` is None where the group had no offset; ``moved``
    is True when the target was outside of the log."""

    before: int | None
    after: int
    moved: bool = False

    @property
    def records(self) -> int | None:
        """By how many records the group moves forwards (negative: backwards); None where it had no
        offset."""
        return None if self.before is None else self.after - self.before


def decide(target: OffsetTarget, facts: LogFacts) -> OffsetReset:
    """The reset of one partition. UserError: ``target`` is a shift or the current offset, and the
    group has no offset."""
    wanted = _wanted(target, facts)
    after = max(facts.start, min(wanted, facts.end))
    return OffsetReset(facts.current, after, after != wanted)


def decide_all(
    target: OffsetTarget | Mapping[tuple[str, int], int],
    facts: Mapping[tuple[str, int], LogFacts],
) -> dict[tuple[str, int], OffsetReset | UserError]:
    """:func:`decide` for every partition; ``target`` may be offsets by partition."""
    decided: dict[tuple[str, int], OffsetReset | UserError] = {}
    for partition, known in facts.items():
        one = (
            target
            if isinstance(target, OffsetTarget)
            else OffsetTarget("offset", target[partition])
        )
        try:
            decided[partition] = decide(one, known)
        except UserError as error:
            topic, number = partition
            decided[partition] = UserError(f"{topic}-{number}: {error.what}", error.do)
    return decided


def _wanted(target: OffsetTarget, facts: LogFacts) -> int:
    match target.kind:
        case "earliest":
            return facts.start
        case "latest":
            return facts.end
        case "time":
            return facts.end if facts.at_time is None else facts.at_time
        case "offset":
            return target.value
        case "shift" | "current":
            if facts.current is None:
                raise UserError("the group has no offset there", "give earliest, latest or a time")
            return facts.current + (target.value if target.kind == "shift" else 0)
