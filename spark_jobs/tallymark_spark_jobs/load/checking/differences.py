"""What is in a table against what its commits brought, cell by cell. Pure.

A commit's tallies were counted from the log while its files were written. What another engine, a
disk or a person did to the files afterwards no commit says. So rows are counted again from the
files; a cell that differs gets new *parts*: all that is there stands in the part of the first
commit that brought rows of it, and the parts of the other ones are empty::

    commits brought     version 3: 1-50        version 7: 51-90       (in the quarantine: 91)
    in the files        1-50, 60-90, 60
    parts               version 3: 1-50, 60-90, 60 again; 91 aside    version 7: nothing
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.reporters.lake import LakeTally
from tallymark_spark_jobs.counting.intervals import levels


@dataclass(frozen=True, slots=True)
class Brought:
    """One commit's part of a cell. ``repair``: it was to bring what had been lost, so a row that an
    earlier commit has as well was not there when it was made."""

    version: int
    tally: LakeTally
    repair: bool = False


@dataclass(frozen=True, slots=True)
class CellDifference:
    """How many rows of a cell are ``missing``, how many there are beyond those that commits brought
    (``extra``), and of how many blocks the contents are others (``changed``)."""

    key: CellKey
    missing: int = 0
    extra: int = 0
    changed: int = 0


@dataclass(slots=True)
class Differences:
    """``cells``: those that are not as their commits say. ``parts``: by version, what is to be
    reported in place of what was. ``told``: the cells of which something else than their commits
    say is reported then."""

    cells: list[CellDifference] = field(default_factory=list[CellDifference])
    parts: dict[int, list[LakeTally]] = field(default_factory=dict[int, list[LakeTally]])
    told: set[CellKey] = field(default_factory=set[CellKey])


def differences(
    brought: Mapping[CellKey, Sequence[Brought]],
    found: Mapping[CellKey, LakeTally],
    newest: int,
    told: Iterable[CellKey] = (),
) -> Differences:
    """Compare. ``newest``: the last version of the table that brought rows; it is the commit of
    cells that none names. ``told``: cells of which an earlier count was reported, so that this one
    has to be, too."""
    before = set(told)
    result = Differences()
    for key in sorted({*brought, *found}):
        parts, rows = brought.get(key, ()), found.get(key)
        difference = _difference(key, parts, rows)
        if difference is not None:
            result.cells.append(difference)
        if difference is None and key not in before:
            continue
        for version, tally in _parts(key, parts, rows, newest):
            result.parts.setdefault(version, []).append(tally)
        if difference is not None or any(one.repair for one in parts):
            result.told.add(key)
    return result


def _difference(
    key: CellKey, parts: Sequence[Brought], rows: LakeTally | None
) -> CellDifference | None:
    loads = [one.tally for one in parts if not one.repair]
    repairs = [one.tally for one in parts if one.repair]
    if key.stamped:
        missing, extra = _by_sequence(loads, repairs, rows)
    else:
        count = rows.count if rows else 0
        least = sum(one.count for one in loads)
        missing = max(0, least - count)
        extra = max(0, count - least - sum(one.count for one in repairs))
    changed = 0 if missing or extra or repairs or rows is None else _changed(loads, rows)
    found = CellDifference(key, missing, extra, changed)
    return found if missing or extra or changed else None


def _by_sequence(
    loads: Iterable[LakeTally], repairs: Iterable[LakeTally], rows: LakeTally | None
) -> tuple[int, int]:
    """How many rows are missing, and how many too many. A repair of a row that a load had brought
    may have found all of them lost, or one of two copies."""
    mended = RangeSet(pair for one in repairs for pair in _pairs(one))
    owed = list(map(RangeSet, levels([pair for one in loads for pair in _pairs(one)])))
    loaded = owed[0] if owed else EMPTY
    if mended:
        owed[:1] = [loaded | mended]
    there = map(RangeSet, levels(_pairs(rows)) if rows else ())
    missing = extra = 0
    for level, (one, other) in enumerate(zip_longest(owed, there, fillvalue=EMPTY)):
        missing += (one - other).size
        extra += (other - one - (mended & loaded if level == 1 else EMPTY)).size
    return missing, extra


def _pairs(tally: LakeTally) -> list[tuple[int, int]]:
    return [*tally.ranges, *(pair for level in tally.again for pair in level)]


def _changed(loads: Iterable[LakeTally], rows: LakeTally) -> int:
    """Blocks that have as many records as they had, and other contents."""
    before: dict[int, tuple[int, int]] = {}
    for one in loads:
        for block in one.blocks:
            records, hashed = before.get(block.block, (0, 0))
            before[block.block] = records + block.records, hashed + block.hash & (1 << 64) - 1
    return sum(
        block.block in before
        and before[block.block] != (block.records, block.hash)
        and before[block.block][0] == block.records
        for block in rows.blocks
    )


def _parts(
    key: CellKey, parts: Sequence[Brought], rows: LakeTally | None, newest: int
) -> list[tuple[int, LakeTally]]:
    versions = sorted({one.version for one in parts}) or [newest]
    aside = RangeSet(pair for one in parts for pair in one.tally.quarantined)
    whole = rows or LakeTally(key)
    first = LakeTally(
        key,
        whole.count,
        whole.ranges,
        whole.bytes,
        quarantined=aside.ranges,
        quarantined_count=sum(one.tally.quarantined_count for one in parts),
        blocks=() if aside else whole.blocks,
        min_timestamp=whole.min_timestamp,
        max_timestamp=whole.max_timestamp,
        again=whole.again,
    )
    return [(versions[0], first), *((version, LakeTally(key)) for version in versions[1:])]
