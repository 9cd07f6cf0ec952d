"""The two sides of a window, one row a run: what was claimed beside what was counted. Pure.

A side has rows of ``claims`` or of ``observations`` (:mod:`tallymark_audit.store.schema.tables`),
several for one run where several reporters or partitions have a part. A message counts once on each
side, as for the judge: named ones as ranges, the others (no stamp, or more ranges than are kept) by
their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tallymark_audit.judge.states import SEVERITY, state_of
from tallymark_audit.model.ranges import EMPTY, RangeSet

Row = Mapping[str, Any]
Key = tuple[int, str, str]
"""Partition, server and instance of a run's records."""
COMPLETE: Final = "COMPLETE"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Where records of a run lie in a log, both offsets included. Unless it is ``exact``, records
    of others lie between them, so the offsets alone do not say which are of this run."""

    log: str
    first: int
    last: int
    records: int

    @property
    def exact(self) -> bool:
        """Whether every offset of the stretch holds one of the records."""
        return self.records == self.last - self.first + 1

    def __str__(self) -> str:
        offsets = f"{self.first}" if self.first == self.last else f"{self.first}–{self.last}"
        if self.exact:
            return f"{self.log}: {offsets}"
        return f"{self.log}: {self.records:,} within {offsets}"


@dataclass(frozen=True, slots=True)
class Part:
    """One side of a run: ``messages``, each once; ``copies`` beyond the first; the ``named`` ones
    as sequences, and how many have no name. ``said``: other sequences, by what they are ("failed",
    "in doubt"). ``reporters``: who said so, where it was reported."""

    messages: int = 0
    copies: int = 0
    bytes: int = 0
    named: RangeSet = EMPTY
    nameless: int = 0
    said: Mapping[str, RangeSet] | None = None
    stretches: tuple[Stretch, ...] = ()
    reporters: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()


NOTHING: Final = Part()


@dataclass(frozen=True, slots=True)
class Pair:
    """A run on both sides. ``cell``: what the verdict says of it, None where it is complete or not
    named there."""

    partition: int
    server: str
    instance: str
    claimed: Part
    counted: Part
    cell: Row | None = None

    @property
    def key(self) -> Key:
        """Its cell."""
        return self.partition, self.server, self.instance

    @property
    def difference(self) -> int:
        """Counted less claimed, each message once: below 0 where some have not arrived."""
        return self.counted.messages - self.claimed.messages

    @property
    def state(self) -> str:
        """Of the verdict; COMPLETE where both sides are equal, "" where nothing is known."""
        if self.cell is not None:
            return str(self.cell["state"])
        return COMPLETE if not self.difference else ""


def pairs(
    upstream: Sequence[Row], downstream: Sequence[Row], cells: Iterable[Row] = ()
) -> list[Pair]:
    """Every run of either side once; those that the verdict names first, the worst of them first,
    then by difference, partition and name."""
    sides = [_by_key(upstream), _by_key(downstream)]
    named = {_key(cell): cell for cell in cells}
    keys = dict.fromkeys([*sides[0], *sides[1]])
    found = [
        Pair(*key, part(sides[0].get(key, ())), part(sides[1].get(key, ())), named.get(key))
        for key in keys
    ]
    return sorted(found, key=_worst_first)


def part(rows: Sequence[Row]) -> Part:
    """One side of a run from its rows."""
    named = [_named(row) for row in rows]
    whole, once, copies = EMPTY, 0, 0
    for one in named:
        whole, once = whole | one, once + one.size
    nameless = sum(_nameless(row) for row in rows)
    copies = (
        once - whole.size + sum(_copies(row, one) for row, one in zip(rows, named, strict=True))
    )
    return Part(
        messages=whole.size + nameless,
        copies=copies,
        bytes=sum(row["bytes"] for row in rows),
        named=whole,
        nameless=nameless,
        said=_said(rows),
        stretches=tuple(one for row in rows for one in _stretch(row)),
        reporters=tuple(dict.fromkeys(row["reporter"] for row in rows if row.get("reporter"))),
        rows=tuple(rows),
    )


def sums(found: Iterable[Pair]) -> tuple[int, int, int]:
    """Claimed, counted and counted again, in messages."""
    claimed = counted = copies = 0
    for one in found:
        claimed += one.claimed.messages
        counted += one.counted.messages
        copies += one.counted.copies
    return claimed, counted, copies


def flat_ranges(flat: object) -> RangeSet:
    """Ranges of the store; none where they make no sense."""
    try:
        return RangeSet.from_list(flat)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return EMPTY


def _by_key(rows: Iterable[Row]) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(_key(row), []).append(row)
    return found


def _key(row: Row) -> Key:
    return row["partition"], row["server"], row["instance"]


def _worst_first(one: Pair) -> tuple[object, ...]:
    weight = SEVERITY[state_of(one.cell["state"])] if one.cell is not None else -1
    return -weight, -abs(one.difference), -one.counted.copies, one.key


def _is_claim(row: Row) -> bool:
    return "accepted" in row


def _named(row: Row) -> RangeSet:
    """The messages that have names: of a producer with acks=0 nothing is ever acknowledged."""
    if not _is_claim(row):
        return flat_ranges(row["ranges"]) if _has_names(row) else EMPTY
    if row["acks"] != 0:
        return flat_ranges(row["acknowledged"])
    left_out = flat_ranges(row["failed"]) | flat_ranges(row["in_doubt"])
    return flat_ranges(row["accepted"]) - left_out


def _nameless(row: Row) -> int:
    if _is_claim(row):
        return int(row["unstamped"]) + (int(row["summary"][1]) if row["summary"] else 0)
    if _has_names(row):
        return 0
    return int(row.get("share", row["count"]))


def _has_names(row: Row) -> bool:
    """Whether an observation knows its records by sequence."""
    return bool(row["instance"]) and not row["fingerprint"]


def _copies(row: Row, named: RangeSet) -> int:
    """What one row has beyond the first of each sequence."""
    if _is_claim(row):
        return int(row["duplicates"])
    if not _has_names(row):
        return 0
    return max(0, int(row["count"]) - named.size)


_ASIDE: Final = (
    ("failed", "failed"),
    ("in_doubt", "in doubt"),
    ("aborted", "aborted"),
    ("filtered", "left out on purpose"),
    ("expired", "expired"),
)


def _said(rows: Sequence[Row]) -> dict[str, RangeSet]:
    found: dict[str, RangeSet] = {}
    for row in rows:
        for column, name in _ASIDE:
            more = flat_ranges(row.get(column) or [])
            if more:
                shown = "quarantined" if (row["tier"], column) == ("lake", "failed") else name
                found[shown] = found.get(shown, EMPTY) | more
    return found


def _stretch(row: Row) -> Iterable[Stretch]:
    """Where an observation lies; of one that was counted in an earlier log of the partition only
    the end is known."""
    if _is_claim(row) or row["last_offset"] < 0:
        return ()
    log = f"{row['seen_topic']}-{row['seen_partition']}"
    return (Stretch(log, max(0, row["first_offset"]), row["last_offset"], row["count"]),)
