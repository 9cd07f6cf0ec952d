"""From the commits of a table to monitoring events. Pure.

The reporter is the *table*, not the run of a load: reporters do not grow with the loads. A commit
makes a *part* of each cell that it brought rows of, numbered by the table's version, and parts add
up: so nothing has to be remembered of earlier commits, and an event that is sent again, by another
run of the load, on another day, says exactly the same and changes nothing.

The numbers of events follow from the version alone, and the last event of a commit has the last
number of its version::

    version      3                    4                    5
    numbers      3 S ... 4 S - 1      4 S ... 5 S - 1      5 S ... 6 S - 1        S = 2^20
    events                  n n n                    n              n n n n

An event covers from the end of the version that was reported before, so how far the table has come
is believed only when no report before it is missing.

Rows may change behind the table's commits. A check that counts them again replaces what was
reported of the cells that differ: the same parts, with a higher revision
(:func:`recounted_events`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from tallymark_audit.events.events import AuditEvent, CellReport, Copied, Gap
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import LAKE, CellKey, Summary, merge_blocks
from tallymark_audit.model.hashing import fingerprint
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.repeats import MAX_LEVELS, Levels, copies_in, levels_of, together
from tallymark_audit.reporters.books.tally import CELLS_PER_EVENT, MOST_RANGES, RANGES_PER_EVENT
from tallymark_audit.reporters.lake.tallies import LakeCommit, LakeTally

EVENTS_PER_VERSION: Final = 1 << 20
"""Numbers that each version has: 500 million cells."""
LONGEST_NAME: Final = 200
"""Characters of a table's name in the name of its reporter."""
PLACES_PER_EVENT: Final = 2000
"""Partitions and gaps in one event."""


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """Whose reports these are. ``table``: its name in the lake; ``table_id``: what distinguishes it
    from another one that had the name before, with ``created_at`` (ms). ``server``: the host that
    reports; ``window_ms`` is the deployment's."""

    table: str
    table_id: str
    created_at: int
    server: str
    window_ms: int

    @property
    def instance(self) -> str:
        """The table's id as 16 hex digits."""
        return hashlib.blake2b(self.table_id.encode(), digest_size=8).hexdigest()

    @property
    def reporter(self) -> str:
        """The reporter's name."""
        name = self.table
        if len(name) > LONGEST_NAME:
            digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
            name = f"{name[:LONGEST_NAME]}~{digest}"
        return f"{LAKE}-{name}@{self.instance}"


@dataclass(frozen=True, slots=True)
class EventSize:
    """What one event may hold. Smaller ones are for clusters with small messages."""

    cells: int = CELLS_PER_EVENT
    ranges: int = RANGES_PER_EVENT

    def halved(self) -> EventSize:
        """Half of it."""
        return EventSize(max(1, self.cells // 2), max(1, self.ranges // 2))


def events_of(
    who: TableIdentity, commit: LakeCommit, after: int, size: EventSize = EventSize()
) -> list[AuditEvent]:
    """The report of a commit, in the order in which it is to be published. ``after``: the version
    of the last report before it; -1: there is none, or none is waited for. A commit that brought
    nothing has a report too, since the next one may name it as the one before. ValueError: the
    version is not higher than that."""
    if commit.version <= after:
        raise ValueError(f"version {commit.version} of {who.table} cannot follow {after}")
    cells = [_report(tally, commit) for tally in _merged(commit.tallies).values()]
    copied = tuple(
        Copied(one.topic, one.partition, who.table[:LONGEST_NAME], _hex(one.topic_id), one.offset)
        for one in commit.loaded
    )
    gaps = tuple(
        Gap(one.topic, one.partition, one.start, one.end - 1, one.reason, commit.at)
        for one in commit.gaps
        if one.start < one.end
    )
    blank = _blank(who, commit, (after + 1) * EVENTS_PER_VERSION if after >= 0 else 0)
    portions = [replace(blank, cells=tuple(some)) for some in _portions(cells, size)] or [blank]
    if max(len(gaps), len(copied)) <= PLACES_PER_EVENT:
        portions[-1] = replace(portions[-1], gaps=gaps, copied=copied)
    else:  # behind the cells: what is loaded is believed only with all that is before it
        rest = range(0, max(len(gaps), len(copied)), PLACES_PER_EVENT)
        cut = [slice(at, at + PLACES_PER_EVENT) for at in rest]
        portions += [replace(blank, gaps=gaps[some], copied=copied[some]) for some in cut]
    first = (commit.version + 1) * EVENTS_PER_VERSION - len(portions)
    return [
        replace(event, event_number=first + at, group=at + 1) for at, event in enumerate(portions)
    ]


def recounted_events(
    who: TableIdentity,
    parts: Iterable[LakeCommit],
    reported: int,
    at: int,
    size: EventSize = EventSize(),
) -> list[AuditEvent]:
    """What the rows of some cells are now. Each of ``parts`` has what is there of these cells in
    place of what that commit brought of them; an empty tally says that nothing is. ``reported``:
    the last version that has a report. ``at``: when the rows were counted, ms; of two counts of one
    cell the later one holds.

    The events have the number of that version's last one, which is known already: they say nothing
    of how far the table has come."""
    cells = [
        replace(_report(tally, part), revision=at)
        for part in parts
        for tally in _merged(part.tallies).values()
    ]
    number = (reported + 1) * EVENTS_PER_VERSION - 1
    blank = replace(_blank(who, LakeCommit(reported, at), number), event_number=number)
    return [replace(blank, cells=tuple(some)) for some in _portions(cells, size)]


def _blank(who: TableIdentity, commit: LakeCommit, covers_from: int) -> AuditEvent:
    """``closed``: between two loads nothing is awaited from the reporter; how long a load may take
    to come is a setting of the lake."""
    return AuditEvent(
        kind="lake",
        tier=LAKE,
        reporter=who.reporter,
        server=who.server[:LONGEST_NAME],
        application=who.table[:LONGEST_NAME],
        instance=who.instance,
        consumer_group=LAKE,
        event_number=commit.version * EVENTS_PER_VERSION,
        covers_from=covers_from,
        started_at=who.created_at,
        emitted_at=commit.at,
        window_ms=who.window_ms,
        complete_through=0,
        closed=True,
    )


def _merged(tallies: Iterable[LakeTally]) -> dict[CellKey, LakeTally]:
    """One tally a cell. A sequence that two of them have is there twice."""
    several: dict[CellKey, list[LakeTally]] = {}
    for tally in tallies:
        several.setdefault(tally.key, []).append(tally)
    return {key: some[0] if len(some) == 1 else _joined(some) for key, some in several.items()}


def _joined(some: list[LakeTally]) -> LakeTally:
    blocks = some[0].blocks
    seen = _rows(some[0])
    for one in some[1:]:
        seen = together(seen, _rows(one))
        blocks = merge_blocks(blocks, one.blocks)
    ranges = seen[0] if seen else EMPTY
    return LakeTally(
        key=some[0].key,
        count=sum(one.count for one in some),
        ranges=ranges.ranges,
        bytes=sum(one.bytes for one in some),
        again=tuple(level.ranges for level in seen[1:]),
        quarantined=RangeSet(pair for one in some for pair in one.quarantined).ranges,
        quarantined_count=sum(one.quarantined_count for one in some),
        blocks=blocks,
        min_timestamp=min((one.min_timestamp for one in some if one.count), default=-1),
        max_timestamp=max((one.max_timestamp for one in some if one.count), default=-1),
    )


def _rows(tally: LakeTally) -> Levels:
    """The sequences of the rows, and of those that are there again."""
    again = [RangeSet(level) for level in tally.again]
    again = again or [*levels_of(copy.sequence for copy in tally.copies)]
    return (RangeSet(tally.ranges), *again) if tally.ranges else ()


def _report(tally: LakeTally, commit: LakeCommit) -> CellReport:
    """What is in the table is acknowledged, what is in the quarantine failed. Of rows without a
    stamp only numbers are known: in a summary."""
    key, ranges = tally.key, RangeSet(tally.ranges)
    failed = RangeSet(tally.quarantined)
    summary: Summary | None = None
    if not key.stamped:
        summary = Summary(0, 0, tally.quarantined_count, 0, 0) if tally.quarantined_count else None
        ranges = failed = EMPTY
    elif len(ranges.ranges) + len(failed.ranges) > MOST_RANGES:
        summary = Summary(ranges.size, ranges.size, failed.size, 0, fingerprint(ranges))
        ranges = failed = EMPTY
    extra = max(0, tally.count - RangeSet(tally.ranges).size) if key.stamped else 0
    again = _rows(tally)[1:] if extra and summary is None else ()
    if copies_in(again) != extra:  # they are counted, and not named
        again = ()
    return CellReport(
        topic=key.topic,
        partition=key.partition,
        window_start=key.window,
        server=key.server,
        instance=key.instance,
        part=commit.version,
        count=tally.count,
        bytes=tally.bytes,
        accepted=ranges,
        acknowledged=ranges,
        failed=failed,
        again=again if len(again) <= MAX_LEVELS else (),
        duplicates=extra,
        summary=summary,
        blocks=tally.blocks,
        latency=_latency(tally, commit.at),
        min_timestamp=tally.min_timestamp,
        max_timestamp=tally.max_timestamp,
        unstamped=0 if key.stamped else tally.count,
    )


def _latency(tally: LakeTally, at: int) -> tuple[int, ...]:
    """A sketch of ms from stamp to commit, as if all rows of the cell had the time in the middle of
    their times: they differ by a window at most."""
    if not tally.count or tally.max_timestamp < 0:
        return ()
    sketch = sketches.empty()
    middle = (max(0, tally.min_timestamp) + tally.max_timestamp) // 2
    sketches.add(sketch, at - middle, tally.count)
    return tuple(sketches.to_list(sketch))


def _portions(cells: Iterable[CellReport], size: EventSize) -> Iterator[list[CellReport]]:
    some: list[CellReport] = []
    weight = 0
    for cell in cells:
        more = 2 * len(cell.accepted.ranges) + len(cell.failed.ranges) + len(cell.blocks)
        more += sum(len(level.ranges) for level in cell.again)
        if some and (len(some) >= size.cells or weight + more > size.ranges):
            yield some
            some, weight = [], 0
        some.append(cell)
        weight += more
    if some:
        yield some


def _hex(topic_id: str) -> str:
    """A topic's id as events have it: 32 hex digits."""
    return topic_id.replace("-", "").lower()
