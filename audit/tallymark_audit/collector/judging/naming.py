"""Name what is missing or changed: find lost messages where they still are, and the records of a
corrupt block that differ, and add both to the verdict."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from tallymark.clock import fine_monotonic_ms
from tallymark.errors import TallymarkError
from tallymark_audit.collector.judging.locate import (
    HeldCell,
    Located,
    Lost,
    OffsetRange,
    changed,
    locate,
    offset_ranges,
)
from tallymark_audit.collector.ledger import FencedError, Ledger
from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.absurd import reason_of
from tallymark_audit.model.cells import GROUP, Copy, Edge, EdgeWindow
from tallymark_audit.model.edges import consumer_edge
from tallymark_audit.model.hashing import BLOCK
from tallymark_audit.model.log_reader import LogReader
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.turns import Turns
from tallymark_audit.store.judged.verdicts import COLLECTOR, locate_cells
from tallymark_audit.store.schema.rows import Row, cell_from_json, is_cells
from tallymark_audit.store.schema.tables import verdicts

log: Final = logging.getLogger(__name__)
AT_ONCE: Final = 10
TRIES: Final = 30
FIRST_WAIT_MS: Final = 1_000
LONGEST_WAIT_MS: Final = 300_000
"""The wait doubles from try to try: a broker that starts is met soon, one that is repaired within
the two hours that all tries take, too."""
NAMED: Final = frozenset({State.LOSS, State.CORRUPT, State.MIXED})


class UnnamedWindow(NamedTuple):
    """A window whose losses have no name yet; ``tries`` have failed, the next is ``due`` (ms)."""

    window: EdgeWindow
    tries: int = 0
    due: int = 0


BLOCKS_AT_ONCE: Final = 16
"""Blocks of one cell whose records are compared one by one."""


class Namer:
    """Names what is missing, and what was changed, on the edges of a cluster. ``reader_of`` opens a
    cluster by name; on a producer edge nothing can be read upstream: there is only the claim."""

    def __init__(
        self,
        ledger: Ledger,
        edges: Iterable[Edge],
        reader_of: Callable[[str], LogReader],
        window_ms: int,
        clock: Callable[[], float] = fine_monotonic_ms,
    ) -> None:
        self._ledger = ledger
        self._reader_of = reader_of
        self._window_ms = window_ms
        self._edges: Mapping[str, Edge] = {
            edge.name: edge
            for edge in edges
            if edge.kind != "producer" and edge.home == ledger.cluster
        }
        self._queue: deque[UnnamedWindow] | None = None
        self._turns = Turns[UnnamedWindow](clock)

    def step(self, news: Iterable[Verdict], now: int) -> None:
        """Name the losses of the verdicts that changed, a few at a time and topic by topic in turn;
        the first step adds those of earlier runs."""
        if self._queue is None:
            self._queue = deque(self._unnamed())
        judged = {(one.edge, one.topic, one.window): one.state for one in news}
        self._queue = deque(one for one in self._queue if one.window not in judged)
        for window, state in judged.items():
            if state in NAMED and self._edge(window[0]):
                self._queue.append(UnnamedWindow(window))
        todo: dict[str, list[UnnamedWindow]] = {}
        for one in self._queue:
            if one.due <= now:
                todo.setdefault(one.window[1], []).append(one)
        done: set[UnnamedWindow] = set()
        again: list[UnnamedWindow] = []

        def some(_topic: str, pieces: Sequence[UnnamedWindow]) -> None:
            for one in pieces:
                again.extend(self._try(one, now))
                done.add(one)

        try:
            self._turns.run(todo, some, AT_ONCE)
        finally:
            self._queue = deque([*(one for one in self._queue if one not in done), *again])

    def _try(self, one: UnnamedWindow, now: int) -> list[UnnamedWindow]:
        """Name the losses of a window; returns the windows to try again."""
        window, tries, _ = one
        try:
            self._name(window, now)
        except FencedError:
            raise
        except TallymarkError as error:
            log.info("cannot name the losses of %s %s %d yet: %s", *window, error)
            wait = min(FIRST_WAIT_MS << tries, LONGEST_WAIT_MS)
            return [UnnamedWindow(window, tries + 1, now + wait)] if tries + 1 < TRIES else []
        except SQLAlchemyError:
            raise
        except Exception as error:
            told = (*window, reason_of(error))
            log.warning("cannot name the losses of %s %s %d: %s", *told, exc_info=error)
        return []

    def _edge(self, name: str) -> Edge | None:
        """The edge, if there is something to read upstream; groups are found on the way."""
        cluster, _, group = name.partition(f"-to-{GROUP}")
        if name not in self._edges and group and cluster == self._ledger.cluster:
            return consumer_edge(cluster, group, ".*")
        return self._edges.get(name)

    def _unnamed(self) -> list[UnnamedWindow]:
        query = select(verdicts).where(
            verdicts.c.source == COLLECTOR, verdicts.c.state.in_(list(NAMED))
        )
        with self._ledger.store.read() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [
            UnnamedWindow((row["edge"], row["topic"], row["window"]))
            for row in rows
            if self._edge(row["edge"])
            and is_cells(row["cells"])
            and any(map(_is_unnamed, row["cells"]))
        ]

    def _name(self, window: EdgeWindow, now: int) -> None:
        name, topic, start = window
        edge = self._edge(name)
        assert edge is not None, "looked at before it was queued"
        query = select(verdicts).where(
            verdicts.c.edge == name,
            verdicts.c.topic == topic,
            verdicts.c.window == start,
            verdicts.c.source == COLLECTOR,
        )
        with self._ledger.store.read() as connection:
            row: Row = dict(connection.execute(query).mappings().one())
            cells = {
                at: _Cell.of(connection, edge, cell_from_json(raw))
                for at, raw in enumerate(row["cells"])
                if _is_unnamed(raw)
            }
        located = {
            at: [place._asdict() for place in self._locate(edge, one)]
            for at, one in cells.items()
            if one.cell.missing
        }
        changes: dict[int, list[Sequence[int]]] = {
            at: [list(copy) for copy in self._changed(edge, one)]
            for at, one in cells.items()
            if one.cell.corrupt and edge.kind == "mirror"
        }
        if located or changes:
            with self._ledger.write(now) as connection:
                locate_cells(connection, row, located, changes)

    def _locate(self, edge: Edge, one: _Cell) -> list[Located]:
        lost = Lost(one.cell.key, one.cell.missing)
        reader = self._reader_of(edge.upstream)
        return locate(reader, edge.upstream, lost, one.upstream, self._window_ms)

    def _changed(self, edge: Edge, one: _Cell) -> list[Copy]:
        key = one.cell.key
        blocks = one.cell.corrupt[:BLOCKS_AT_ONCE]
        sequences = RangeSet((block * BLOCK, block * BLOCK + BLOCK - 1) for block in blocks)
        above = HeldCell(self._reader_of(edge.upstream), key.topic, one.upstream)
        below = edge.downstream_topic(key.topic)
        there = HeldCell(self._reader_of(edge.downstream), below, one.downstream)
        return changed(key, sequences, above, there)


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell to name, and where both sides have it."""

    cell: CellVerdict
    upstream: list[OffsetRange]
    downstream: list[OffsetRange]

    @classmethod
    def of(cls, connection: Connection, edge: Edge, cell: CellVerdict) -> _Cell:
        there = cell.key._replace(topic=edge.downstream_topic(cell.key.topic))
        return cls(
            cell,
            offset_ranges(connection, edge.upstream, cell.key),
            offset_ranges(connection, edge.downstream, there) if edge.kind == "mirror" else [],
        )


def _is_unnamed(cell: Row) -> bool:
    missing = cell["missing"] and not cell["located"]
    return bool(missing or (cell.get("corrupt") and not cell.get("changed")))
