"""How many of the missing messages of a window can be repaired, why the others cannot, and what to
do next: from what the store knows, and from where the logs upstream begin if that is watched,
without asking a cluster. The plan of a repair (``tallymark audit repair``) asks the clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlalchemy import Connection, select

from tallymark.deployment import Deployment
from tallymark_audit.collector.judging.locate import OffsetRange
from tallymark_audit.judge.states import state_of
from tallymark_audit.judge.verdicts import UNDECIDED, CellVerdict, State
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.repair.gone import Gone, LogStarts, LogStartsOf, what_is_gone
from tallymark_audit.repair.items import MissingRun
from tallymark_audit.repair.next_steps import Known, Step, next_steps, whom_to_tell
from tallymark_audit.repair.refusals import left_alone, refusal
from tallymark_audit.repair.saved import Saved, what_was_saved
from tallymark_audit.store.reading.window_evidence import Evidence
from tallymark_audit.store.schema.rows import Row, cell_from_json, is_cells
from tallymark_audit.store.schema.tables import reporter_topics, reporters

MOST_READERS: Final = 20
COPIED: Final = ("mirror", "lake")
"""Hops on which messages are copied again, from the cluster upstream."""
_Counted = dict[tuple[int, str, str], list[OffsetRange]]
"""By partition, server and instance of a cell."""


@dataclass(frozen=True, slots=True)
class NotRepairable:
    """``count`` messages that cannot be repaired, and why."""

    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Repairability:
    """Of ``of`` missing messages ``repairable`` can be repaired, as far as the store knows; for
    ``unsure`` of these upstream was not searched yet; ``saved`` of them are, by their number, among
    the records that brokers have saved before they cut their logs, which the plan reads.
    ``others``: why the rest cannot, the most first. ``left``: what else is wrong with the window,
    and why it stays as it is. ``steps``: what to do, in this order. ``tell``: messages to send,
    each with its addressee. ``starts_of``: the cluster whose logs have to hold the messages yet
    ("": none); where they begin was read at ``starts_at`` (ms; 0: never)."""

    of: int = 0
    repairable: int = 0
    unsure: int = 0
    others: tuple[NotRepairable, ...] = ()
    left: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    tell: tuple[str, ...] = ()
    starts_of: str = ""
    starts_at: int = 0
    saved: int = 0

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why some cannot be repaired."""
        return tuple(one.reason for one in self.others)

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of the steps, in their order."""
        return tuple(one.command for one in self.steps if one.command)


def repairability(
    connection: Connection,
    deployment: Deployment,
    edge: Edge,
    found: Evidence,
    now: int,
    settings: str = "",
    log_starts: LogStartsOf | None = None,
) -> Repairability:
    """:func:`repairable` at ``now`` (ms), with what the settings and the store know besides.
    ``settings``: the path of the settings file, for the commands. ``log_starts``: watches where
    logs begin."""
    if not found.verdicts:
        return Repairability()
    known = Known(
        deployment.audit.window_ms,
        settings,
        now - deployment.audit.silence_ms,
        _readers_of(connection, edge, found.verdicts[0]["topic"]),
    )
    starts = None
    if log_starts is not None and edge.kind in COPIED:
        starts = log_starts(edge.upstream, found.verdicts[0]["topic"])
    return repairable(found, edge, known, starts)


def repairable(
    found: Evidence, edge: Edge, known: Known, log_starts: LogStarts | None = None
) -> Repairability:
    """What can be repaired of a window; ``edge`` is that of the evidence. ``log_starts``: where
    the logs upstream begin by now, as far as that is known. While a window is not decided nothing
    is missing."""
    if not found.verdicts:
        return Repairability()
    row, tally = found.verdicts[0], _Tally()
    saved = Saved()
    if edge.kind == "producer":
        topic = edge.downstream_topic(row["topic"])
        saved = what_was_saved(found.incidents, edge.downstream, topic, row["window"])
    decided = state_of(row["state"]) not in UNDECIDED
    if decided and is_cells(row["cells"]):
        starts = log_starts.starts if log_starts else {}
        gone = what_is_gone(found.incidents, edge.upstream, row["topic"], row["judged_at"], starts)
        counted = _counted(found.upstream)
        for raw in row["cells"]:
            if raw.get("missing_count"):
                _weigh(tally, edge, raw, counted, gone, saved)
    if decided and row["missing"] > tally.of:
        why = "their cells are not among those that are shown: see the plan"
        tally.refuse("other cells", row["missing"] - tally.of, why)
    result = Repairability(
        tally.of,
        tally.repairable,
        tally.unsure,
        tally.others(),
        tuple(_left(row)),
        saved=tally.saved,
    )
    asked = result.of > 0 and edge.kind in COPIED
    return replace(
        result,
        steps=next_steps(found, edge, known, result.repairable, result.of, saved.folders),
        tell=whom_to_tell(found, edge, known, result.of - result.repairable, result.repairable),
        starts_of=edge.upstream if asked else "",
        starts_at=log_starts.at if asked and log_starts else 0,
    )


@dataclass
class _Tally:
    """Messages; those that cannot be repaired by kind: runs, messages, those of the largest run,
    and its reason."""

    of: int = 0
    repairable: int = 0
    unsure: int = 0
    saved: int = 0
    refused: dict[str, tuple[int, int, int, str]] = field(
        default_factory=dict[str, tuple[int, int, int, str]]
    )

    def refuse(self, kind: str, count: int, why: str) -> None:
        runs, total, most, text = self.refused.get(kind, (0, 0, 0, ""))
        self.refused[kind] = (
            runs + 1,
            total + count,
            max(most, count),
            why if count > most else text,
        )
        self.of += count

    def allow(self, count: int, unsure: int) -> None:
        self.of += count
        self.repairable += count
        self.unsure += unsure

    def others(self) -> tuple[NotRepairable, ...]:
        return tuple(
            NotRepairable(total, f"{text}; and so of {runs - 1:,} more runs" if runs > 1 else text)
            for runs, total, _, text in sorted(self.refused.values(), key=lambda one: -one[1])
        )


def _weigh(
    tally: _Tally, edge: Edge, raw: Row, counted: _Counted, gone: Gone, saved: Saved
) -> None:
    """Add a cell: what brokers have saved, what upstream had deleted before it was passed on, and
    the rest."""
    cell = cell_from_json(raw)
    there = saved.take(cell.key.partition, cell.missing_count) if cell.key.stamped else 0
    if there:
        tally.allow(there, 0)
        tally.saved += there
        left = replace(cell, missing_count=cell.missing_count - there)
        if left.missing_count:
            tally.refuse("saved", left.missing_count, _of_saved(cell, there))
        return
    expired = cell.expired & cell.missing
    for missing in (cell.missing - expired, expired) if expired else (cell.missing,):
        if missing or not cell.missing:
            count = missing.size or cell.missing_count
            _weigh_part(
                tally, edge, replace(cell, missing=missing, missing_count=count), raw, counted, gone
            )


def _of_saved(cell: CellVerdict, there: int) -> str:
    return (
        f"brokers have saved {there:,} records of partition {cell.key.partition} at most, and "
        f"{cell.missing_count:,} are missing of {cell.key.server} (run {cell.key.instance}): the "
        "plan names those that are not among them"
    )


def _weigh_part(
    tally: _Tally, edge: Edge, cell: CellVerdict, raw: Row, counted: _Counted, gone: Gone
) -> None:
    key = cell.key
    within = counted.get((key.partition, key.server, key.instance), [])
    places = _places(edge, cell, raw)
    around = [*within, *(OffsetRange(*place[:3]) for place in places)]
    if why := refusal(edge, cell, around, places):
        tally.refuse(_kind(cell, around), cell.missing_count, why)
        return
    lost = RangeSet(pair for place in places for pair in _gone_of(place, gone))
    here = RangeSet(place[3:] for place in places) & cell.missing
    unsearched = cell.missing - here
    in_vain = bool(raw.get("searched")) or _all_gone(within, gone)
    lost, absent = lost & cell.missing, unsearched if in_vain else EMPTY
    if lost:
        why = f"{edge.upstream} had them when it was searched, and has lost them since"
        tally.refuse("gone", lost.size, f"{why}: {_whose(cell, lost)}")
    if absent:
        why = f"{edge.upstream} does not have them any more"
        tally.refuse("absent", absent.size, f"{why}: {_whose(cell, absent)}")
    left = here - lost | (unsearched - absent)
    if left:
        tally.allow(left.size, (left - here).size)


def _counted(rows: Sequence[Row]) -> _Counted:
    """Where upstream each cell was counted."""
    found: _Counted = {}
    for row in rows:
        if row.get("last_offset", -1) >= 0 and "seen_partition" in row:
            span = OffsetRange(
                row["seen_partition"], max(0, row["first_offset"]), row["last_offset"]
            )
            key = row["partition"], row["server"], row["instance"]
            found.setdefault(key, []).append(span)
    return found


def _places(edge: Edge, cell: CellVerdict, raw: Row) -> list[MissingRun]:
    """Where upstream its missing messages were found."""
    found = [
        MissingRun(*(place[name] for name in MissingRun._fields))
        for place in raw["located"]
        if place["cluster"] == edge.upstream
    ]
    return [one for one in found if RangeSet.single(*one[3:]) & cell.missing]


def _gone_of(place: MissingRun, gone: Gone) -> Iterator[tuple[int, int]]:
    """The sequences of a place that is not there any more; their offsets follow each other."""
    for first, last in gone.of(place.partition, place.first_offset, place.last_offset):
        move = place.first_sequence - place.first_offset
        yield first + move, min(last + move, place.last_sequence)


def _all_gone(within: Sequence[OffsetRange], gone: Gone) -> bool:
    return bool(within) and all(gone.of(*one).covers(one.first, one.last) for one in within)


def _kind(cell: CellVerdict, around: Sequence[OffsetRange]) -> str:
    """Refusals of one kind are one line."""
    if not cell.key.stamped:
        return "no stamp"
    if not cell.missing:
        return "not named"
    return "expired" if not cell.missing - cell.expired else f"located: {bool(around)}"


def _whose(cell: CellVerdict, sequences: RangeSet) -> str:
    few = str(RangeSet(sequences.ranges[:5]))
    more = ", ..." if len(sequences.ranges) > 5 else ""
    return f"sequences {few}{more} of {cell.key.server} (run {cell.key.instance})"


def _left(row: Row) -> Iterator[str]:
    cells = row["cells"] if is_cells(row["cells"]) else []
    state = state_of(row["state"])
    if row["duplicates"] and state not in UNDECIDED:
        yield f"{row['duplicates']:,} duplicates: {left_alone(State.DUPLICATION, cells)}"
    changed = sum(len(cell.get("corrupt", ())) for cell in cells)
    if changed:
        yield f"{changed:,} blocks with changed contents: {left_alone(State.CORRUPT, cells)}"


def _readers_of(connection: Connection, edge: Edge, topic: str) -> tuple[str, ...]:
    """The consumer groups that report on the topic downstream of an edge, by name."""
    r, t = reporters.c, reporter_topics.c
    query = (
        select(r.consumer_group)
        .join(reporter_topics, (t.cluster == r.cluster) & (t.reporter == r.reporter))
        .where(
            t.cluster == edge.downstream,
            t.topic == edge.downstream_topic(topic),
            r.consumer_group != "",
        )
        .distinct()
        .order_by(r.consumer_group)
        .limit(MOST_READERS)
    )
    return tuple(connection.scalars(query))
