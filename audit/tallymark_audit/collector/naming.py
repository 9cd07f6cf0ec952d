"""Name what is missing: find the lost messages where they still are, and write it beside the
verdict."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sqlalchemy import select

from tallymark.errors import TallymarkError
from tallymark_audit.cells import Edge
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.collector.reading import LogReader
from tallymark_audit.locate import Lost, locate, stretches
from tallymark_audit.store.rows import Row, cell_from_json
from tallymark_audit.store.tables import verdicts
from tallymark_audit.store.verdicts import COLLECTOR, locate_cells
from tallymark_audit.verdicts import State, Verdict

log: Final = logging.getLogger(__name__)
AT_ONCE: Final = 10
TRIES: Final = 5
Window = tuple[str, str, int]
"""Edge name, topic, and start in ms."""


class Namer:
    """Names losses on the mirror edges into a cluster. ``reader_of`` opens a cluster by name; on a
    producer edge nothing can be read upstream, there the claim itself is all there is."""

    def __init__(
        self,
        ledger: Ledger,
        edges: Iterable[Edge],
        reader_of: Callable[[str], LogReader],
        window_ms: int,
    ) -> None:
        self._ledger = ledger
        self._reader_of = reader_of
        self._window_ms = window_ms
        self._edges: Mapping[str, Edge] = {
            edge.name: edge
            for edge in edges
            if edge.kind == "mirror" and edge.downstream == ledger.cluster
        }
        self._queue: deque[tuple[Window, int]] | None = None

    def step(self, news: Iterable[Verdict], now: int) -> None:
        """Name the losses among the news, a few at a time; at first those of before, too."""
        if self._queue is None:
            self._queue = deque(self._unnamed())
        for verdict in news:
            if verdict.edge in self._edges and verdict.state in (State.LOSS, State.MIXED):
                self._queue.append(((verdict.edge, verdict.topic, verdict.window), 1))
        for _ in range(min(AT_ONCE, len(self._queue))):
            window, tries = self._queue.popleft()
            try:
                self._name(window, now)
            except TallymarkError as error:
                log.info("cannot name the losses of %s %s %d yet: %s", *window, error)
                if tries < TRIES:
                    self._queue.append((window, tries + 1))

    def _unnamed(self) -> list[tuple[Window, int]]:
        query = select(verdicts).where(
            verdicts.c.source == COLLECTOR,
            verdicts.c.edge.in_(self._edges),
            verdicts.c.state.in_([State.LOSS, State.MIXED]),
        )
        with self._ledger.store.read() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [
            ((row["edge"], row["topic"], row["window"]), 1)
            for row in rows
            if any(cell["missing"] and not cell["located"] for cell in row["cells"])
        ]

    def _name(self, window: Window, now: int) -> None:
        edge, topic, start = window
        upstream = self._edges[edge].upstream
        query = select(verdicts).where(
            verdicts.c.edge == edge,
            verdicts.c.topic == topic,
            verdicts.c.window == start,
            verdicts.c.source == COLLECTOR,
        )
        with self._ledger.store.read() as connection:
            row: Row = dict(connection.execute(query).mappings().one())
            lost = {
                at: Lost(cell_from_json(cell).key, cell_from_json(cell).missing)
                for at, cell in enumerate(row["cells"])
                if cell["missing"] and not cell["located"]
            }
            within = {at: stretches(connection, upstream, one.key) for at, one in lost.items()}
        reader = self._reader_of(upstream)
        found = {
            at: [
                place._asdict()
                for place in locate(reader, upstream, one, within[at], self._window_ms)
            ]
            for at, one in lost.items()
        }
        if found:
            with self._ledger.write(now) as connection:
                locate_cells(connection, row, found)
