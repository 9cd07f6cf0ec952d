"""Messages that a cluster has lost and that clusters mirrored from it still have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from tallymark_audit.collector.judging.locate import OffsetRange, offset_ranges
from tallymark_audit.judge.verdicts import CellVerdict
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.edges import passes
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.store.counted import facts
from tallymark_audit.store.schema.rows import Row


class Elsewhere(NamedTuple):
    """``sequences`` of a cell that ``cluster`` has in its ``topic``: ``exactly`` at these places,
    or somewhere within them."""

    cluster: str
    topic: str
    sequences: RangeSet
    places: tuple[OffsetRange, ...]
    exactly: bool


def elsewhere(
    connection: Connection, edges: Iterable[Edge], cluster: str, cell: CellVerdict, raw: Row
) -> list[Elsewhere]:
    """Where the missing messages of a cell are in the clusters that are mirrored from ``cluster``:
    as Spark has found them, else as collectors have counted them."""
    found: list[Elsewhere] = []
    left = cell.missing
    for held in (*_located(cell, raw, cluster), *_counted(connection, edges, cluster, cell)):
        if left & held.sequences:
            found.append(held._replace(sequences=left & held.sequences))
            left = left - held.sequences
    return found


def _located(cell: CellVerdict, raw: Row, cluster: str) -> Iterator[Elsewhere]:
    by_place: dict[tuple[str, str], list[Row]] = {}
    for place in raw.get("located", ()):
        if place["cluster"] != cluster:
            by_place.setdefault((place["cluster"], place["topic"]), []).append(place)
    for (name, topic), places in sorted(by_place.items()):
        sequences = RangeSet((one["first_sequence"], one["last_sequence"]) for one in places)
        offsets = [
            OffsetRange(one["partition"], one["first_offset"], one["last_offset"]) for one in places
        ]
        yield Elsewhere(name, topic, sequences, tuple(sorted(offsets)), True)


def _counted(
    connection: Connection, edges: Iterable[Edge], cluster: str, cell: CellVerdict
) -> Iterator[Elsewhere]:
    for name, topic in _mirrored(tuple(edges), cluster, cell.key):
        key = cell.key._replace(topic=topic)
        seen = facts.observed(connection, name, topic, [key.window]).get(key.window, {}).get(key)
        if seen is not None and seen.ranges:
            places = tuple(sorted(offset_ranges(connection, name, key)))
            yield Elsewhere(name, topic, seen.ranges, places, False)


def _mirrored(edges: Sequence[Edge], cluster: str, key: CellKey) -> Iterator[tuple[str, str]]:
    """The clusters to which the topic is mirrored from here, each with its name for the topic; the
    nearest first."""
    known, waiting = {cluster}, [(cluster, key.topic)]
    while waiting:
        here, topic = waiting.pop(0)
        onward = [one for one in edges if one.kind == "mirror" and one.upstream == here]
        for edge in onward:
            if edge.downstream not in known and passes(edge, topic):
                known.add(edge.downstream)
                waiting.append((edge.downstream, edge.downstream_topic(topic)))
                yield waiting[-1]
