"""The plan of a repair: which messages, from where to where. It is made from the present verdicts.
If nothing is missing any more when it is applied, applying it does nothing.

Messages that cannot be copied are in the plan too, with the reason and with what a person can do
instead (:mod:`.refusals`). The same verdicts make the same plan, so plans can be compared as texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection

from tallymark.errors import UserError
from tallymark_audit.collector.judging.locate import OffsetRange, offset_ranges
from tallymark_audit.judge.verdicts import CellVerdict, State
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.repair.elsewhere import Elsewhere, elsewhere
from tallymark_audit.repair.items import MissingRun, RepairItem
from tallymark_audit.repair.refusals import left_alone, refusal
from tallymark_audit.repair.tails import HeldTail, from_tails
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.rows import Row, cell_from_json

MOST_VERDICTS: Final = 100_000
"""Verdicts in one plan."""
REPAIRED_STATES: Final = (State.LOSS, State.MIXED, State.DUPLICATION, State.CORRUPT)


@dataclass(frozen=True, slots=True)
class NotRepaired:
    """A window with a fault that copying does not repair, and why it is left as it is."""

    edge: str
    topic: str
    window: int
    state: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What is to be repaired (``items``), and what is not (``left``); ``made_at`` in ms."""

    made_at: int
    items: tuple[RepairItem, ...]
    left: tuple[NotRepaired, ...] = ()

    @property
    def count(self) -> int:
        """The number of messages to copy."""
        return sum(item.count for item in self.items if not item.refused)


def make_repair_plan(
    connection: Connection,
    edges: Iterable[Edge],
    now_ms: int,
    start: int | None = None,
    end: int | None = None,
    edge: str | None = None,
    topic: str | None = None,
    tails: Sequence[HeldTail] = (),
) -> RepairPlan:
    """The plan for every loss in the store, in windows from ``start`` to ``end`` (ms, excluded), on
    one edge or all, of one topic (its name on the edge) or all. Where Spark has judged, its verdict
    counts. ``tails``: what brokers have saved. UserError: there is no such edge."""
    by_name = {each.name: each for each in edges}
    if edge is not None and edge not in by_name:
        raise UserError(
            f"there is no edge {edge!r}", f"the settings make these: {', '.join(by_name)}"
        )
    rows = queries.windows(connection, edge, topic, start, end, REPAIRED_STATES, MOST_VERDICTS)
    rows = [row for row in rows if row["edge"] in by_name]
    rows.sort(key=lambda row: (row["window"], row["edge"], row["topic"]))
    items = [item for row in rows for item in _items(connection, by_name, row, tails)]
    left = [one for row in rows for one in _left(row)]
    return RepairPlan(now_ms, tuple(items), tuple(left))


def _items(
    connection: Connection, edges: Mapping[str, Edge], row: Row, tails: Sequence[HeldTail]
) -> Iterator[RepairItem]:
    edge = edges[row["edge"]]
    cells = [(cell_from_json(raw), raw) for raw in row["cells"] if raw["missing_count"]]
    for cell, raw in sorted(cells, key=lambda pair: pair[0].key):
        within, places = _where(connection, edge, cell, raw)
        for part in _parts(cell):
            others = list[Elsewhere]()
            if edge.kind == "producer" and cell.key.stamped:
                others = elsewhere(connection, edges.values(), edge.downstream, part, raw)
                for saved in _saved(edge, row, part, others, tails):
                    part = _without(part, saved.missing)
                    yield saved
                if part.missing_count <= 0:
                    continue
            why = refusal(edge, part, within, places, others)
            yield _item(edge, row, part, within, places, why)


def _saved(
    edge: Edge,
    row: Row,
    cell: CellVerdict,
    others: Sequence[Elsewhere],
    tails: Sequence[HeldTail],
) -> Iterator[RepairItem]:
    """What brokers saved before they cut it. What a cluster that is mirrored from this one holds is
    left: its mirror would copy it once more."""
    left, key = cell.missing, cell.key
    for held in others:
        left = left - held.sequences
    origin = key.instance, key.partition
    for tail, there in from_tails(tails, edge.downstream, key.topic, origin, left):
        part = replace(cell, missing=there, missing_count=there.size)
        item = _item(edge, row, part, (tail.within,), (), "")
        yield replace(item, upstream=tail.source)


def _without(cell: CellVerdict, saved: RangeSet) -> CellVerdict:
    missing = cell.missing - saved
    return replace(cell, missing=missing, missing_count=cell.missing_count - saved.size)


def _parts(cell: CellVerdict) -> Iterator[CellVerdict]:
    """The cell in two parts: what upstream had deleted before it was copied, and the rest."""
    expired = cell.expired & cell.missing
    for missing in (cell.missing - expired, expired) if expired else (cell.missing,):
        if missing or not cell.missing:
            yield replace(cell, missing=missing, missing_count=missing.size or cell.missing_count)


def _item(
    edge: Edge,
    row: Row,
    cell: CellVerdict,
    within: Sequence[OffsetRange],
    places: Sequence[MissingRun],
    refused: str,
) -> RepairItem:
    return RepairItem(
        edge=edge.name,
        upstream=edge.upstream,
        downstream=edge.downstream,
        key=cell.key,
        topic=edge.downstream_topic(cell.key.topic),
        missing=cell.missing,
        count=cell.missing_count,
        within=tuple(within),
        places=tuple(places),
        by_key=edge.mirror is not None and edge.mirror.partitions == "by-key",
        source=row["source"],
        revision=row["revision"],
        refused=refused,
    )


def _where(
    connection: Connection, edge: Edge, cell: CellVerdict, raw: Row
) -> tuple[list[OffsetRange], list[MissingRun]]:
    if edge.kind == "producer" or not cell.key.stamped:
        return [], []
    places = [
        MissingRun(*(place[name] for name in MissingRun._fields))
        for place in raw["located"]
        if place["cluster"] == edge.upstream
    ]
    within = offset_ranges(connection, edge.upstream, cell.key)
    within += [OffsetRange(*place[:3]) for place in places]
    return sorted(set(within)), sorted(set(places))


def _left(row: Row) -> Iterator[NotRepaired]:
    """The other faults of the window, one for each state."""
    for state, count in (
        (State.DUPLICATION, row["duplicates"]),
        (State.CORRUPT, sum(len(cell.get("corrupt", ())) for cell in row["cells"])),
    ):
        if count:
            reason = left_alone(state, row["cells"])
            yield NotRepaired(row["edge"], row["topic"], row["window"], str(state), count, reason)
