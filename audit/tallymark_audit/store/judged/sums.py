"""Keep the sums of verdicts and the incidents up to date, in the transaction that changes the
verdicts.

Pages read sums, never all verdicts. What holds at any commit is::

    verdict_sums, edge_sums, topic_sums = the sums of the effective verdicts

except that what :mod:`~tallymark_audit.store.housekeeping.retention` deletes stays in the first
two. Which verdict is effective depends on both sources, and two transactions may change one each.
So a transaction first writes its verdicts, whose rows it holds from then on; last, it locks the
edges, in the order of their names, and only then reads the other source's verdicts. The second one
sees what the first one did. Nothing is waited for with an edge locked but the next edge, so no two
transactions wait for each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, or_, select, update

from tallymark_audit.judge.incidents import NO_VERDICT, PASSING, Change
from tallymark_audit.judge.states import GOOD
from tallymark_audit.model.cells import EdgeTopic, EdgeWindow
from tallymark_audit.store.counted.facts import chunks
from tallymark_audit.store.counted.totals import DAY, HOUR, MINUTES_10
from tallymark_audit.store.judged.effective import COLLECTOR, SPARK, effective_of
from tallymark_audit.store.judged.window_incidents import FAR, follow, standing_of
from tallymark_audit.store.schema.balance import NOTHING, Added, added_by
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.summed_tables import IN_STATE, SUMMED
from tallymark_audit.store.schema.tables import (
    SUMS,
    edge_sums,
    topic_sums,
    verdict_sums,
    verdicts,
)
from tallymark_audit.store.schema.upsert import add_up, insert_new

EDGE: Final = ""
"""The topic of the row of ``topic_sums`` that is the edge itself."""
WINDOW_MS: Final = 60_000
"""The length of windows where the settings do not say."""
SPANS: Final = (MINUTES_10, HOUR)
"""Of ``verdict_sums``."""
_COLUMNS: Final = [
    verdicts.c[name]
    for name in ("window", "source", "state", "judged_at", "accepted_by", *SUMS)
]  # fmt: skip
_OF_WINDOWS: Final = select(*_COLUMNS).where(
    verdicts.c.edge == bindparam("edge"),
    verdicts.c.topic == bindparam("topic"),
    verdicts.c.window.in_(bindparam("windows", expanding=True)),
)


class _Sources(NamedTuple):
    """Rows of one window by source."""

    before: dict[str, Row | None]
    after: dict[str, Row | None]


class ChangedVerdicts:
    """Collects what a transaction changes about verdicts, until :meth:`write`."""

    def __init__(self, connection: Connection, window_ms: int = WINDOW_MS) -> None:
        self._connection = connection
        self._window_ms = window_ms
        self._places: dict[EdgeTopic, dict[int, _Sources]] = {}

    def note(self, key: EdgeWindow, source: str, before: Row | None, after: Row | None) -> None:
        """The verdict of a source on a window was ``before`` and is ``after``, as rows of
        ``verdicts``; None where there is none."""
        edge, topic, window = key
        windows = self._places.setdefault((edge, topic), {})
        known = windows.setdefault(window, _Sources({}, {}))
        known.before.setdefault(source, before)
        known.after[source] = after

    def write(self, now_ms: int, forgetting: bool = False) -> None:
        """Change sums and incidents. ``forgetting``: verdicts that are there no more have gone with
        their age; what they added to hours and windows stays, and so do incidents."""
        edges = sorted({edge for edge, _ in self._places})
        bad = {edge: lock_edge(self._connection, edge) for edge in edges}
        by_edge: dict[str, _Deltas] = {}
        for edge, topic in sorted(self._places):
            deltas = by_edge.setdefault(edge, _Deltas(edge, bad[edge]))
            self._add(deltas, topic, now_ms, forgetting)
        for deltas in by_edge.values():
            deltas.write(self._connection, now_ms)
        self._places.clear()

    def _add(self, deltas: _Deltas, topic: str, now_ms: int, forgetting: bool) -> None:
        windows = self._places[deltas.edge, topic]
        others = _others(self._connection, deltas.edge, topic, windows)
        changes: list[Change] = []
        for window in sorted(windows):
            sources = windows[window]
            other = others.get(window, {})
            before = effective_of(other | sources.before)
            after = effective_of(other | sources.after)
            deltas.add(topic, window, before, after, lasting=forgetting and after is None)
            standing = standing_of(after) if after else NO_VERDICT
            if standing.state in PASSING or (forgetting and after is None):
                continue
            if before is None or standing_of(before) != standing:
                changes.append(Change(window, standing, now_ms))
        if any(one.standing.state not in GOOD for one in changes) or (
            changes and deltas.ill_before
        ):
            deltas.bad += follow(self._connection, deltas.edge, topic, changes, self._window_ms)


def lock_edge(connection: Connection, edge: str) -> int:
    """Be the only transaction that changes sums and incidents of the edge, until it ends. How many
    windows of its incidents are not good."""
    t = topic_sums.c
    query = select(t.bad_windows).where(t.edge == edge, t.topic == EDGE).with_for_update()
    bad = connection.scalar(query)
    if bad is None:
        row = {"edge": edge, "topic": EDGE, **NOTHING, "bad_windows": 0}
        insert_new(connection, topic_sums, [row | {"first_window": FAR, "last_window": -FAR}])
        bad = connection.scalar(query)
    return bad or 0


def _others(
    connection: Connection, edge: str, topic: str, windows: Mapping[int, _Sources]
) -> dict[int, dict[str, Row]]:
    """By window and source, the verdicts that this transaction has not changed."""
    lacking = [at for at, known in windows.items() if not {COLLECTOR, SPARK} <= known.after.keys()]
    found: dict[int, dict[str, Row]] = defaultdict(dict)
    for some in chunks(sorted(lacking)):
        place = {"edge": edge, "topic": topic, "windows": some}
        for row in connection.execute(_OF_WINDOWS, place).mappings():
            if row["source"] not in windows[row["window"]].after:
                found[row["window"]][row["source"]] = dict(row)
    return found


class _Deltas:
    """What is added to the sums of one edge."""

    def __init__(self, edge: str, ill_before: int) -> None:
        self.edge = edge
        self.ill_before = ill_before
        self.bad = 0
        self._parts: dict[tuple[str, int, int], Added] = {}
        self._windows: dict[int, Added] = {}
        self._topics: dict[str, Added] = {}
        self._spans: dict[str, tuple[int, int]] = {}
        self._fewer: set[str] = set()
        self._changed: set[int] = set()

    def add(
        self, topic: str, window: int, before: Row | None, after: Row | None, lasting: bool
    ) -> None:
        """A verdict that was, and one that is. ``lasting``: hours and windows keep it."""
        delta = _difference(before, after)
        if delta is None:
            return
        _into(self._topics, topic, delta)
        if after is None:
            self._fewer.add(topic)
        elif before is None:
            low, high = self._spans.get(topic, (window, window))
            self._spans[topic] = min(low, window), max(high, window)
        if not lasting:
            for span in SPANS:
                _into(self._parts, (topic, span, window - window % span), delta)
            _into(self._windows, window, delta)
            if before is not None:
                self._changed.add(window)

    def write(self, connection: Connection, now_ms: int) -> None:
        """Add all of it to the tables."""
        edge = {"edge": self.edge}
        parts = [
            {**edge, "topic": topic, "span": span, "start": start, **delta}
            for (topic, span, start), delta in sorted(self._parts.items())
        ]
        add_up(connection, verdict_sums, parts)
        windows = [
            {**edge, "window": window, **delta} for window, delta in sorted(self._windows.items())
        ]
        add_up(connection, edge_sums, windows)
        add_up(connection, topic_sums, self._topic_rows(), least="first_window", most="last_window")
        if self._fewer:
            self._shrink(connection)
        if self._changed and min(self._changed) < now_ms - DAY:
            self._drop_remains(connection)

    def _drop_remains(self, connection: Connection) -> None:
        """A verdict may change after its sums have gone with their age: what it had added to them
        must not be taken from nothing."""
        for table in (verdict_sums, edge_sums):
            below = or_(*[table.c[name] < 0 for name in SUMMED])
            connection.execute(delete(table).where(table.c.edge == self.edge, below))

    def _topic_rows(self) -> Iterable[Row]:
        whole = dict(NOTHING)
        for delta in self._topics.values():
            for name, number in delta.items():
                whole[name] += number
        rows: list[Row] = []
        for topic, delta in sorted({**self._topics, EDGE: whole}.items()):
            spans = self._spans.values() if topic == EDGE else [self._spans.get(topic, (FAR, -FAR))]
            rows.append(
                {
                    "edge": self.edge,
                    "topic": topic,
                    **delta,
                    "first_window": min((low for low, _ in spans), default=FAR),
                    "last_window": max((high for _, high in spans), default=-FAR),
                    "bad_windows": self.bad if topic == EDGE else 0,
                }
            )
        return rows

    def _shrink(self, connection: Connection) -> None:
        """Where windows have gone: what is empty now goes, and the rest begins and ends anew."""
        for table, where in (
            (verdict_sums, verdict_sums.c.topic.in_(sorted(self._fewer))),
            (edge_sums, edge_sums.c.window.in_(sorted(self._windows))),
            (topic_sums, topic_sums.c.topic.in_(sorted(self._fewer))),
        ):
            empty = [table.c[name] == 0 for name in IN_STATE.values()]
            connection.execute(delete(table).where(table.c.edge == self.edge, where, *empty))
        v, t = verdicts.c, topic_sums.c
        for topic in sorted(self._fewer):
            ends = select(func.min(v.window), func.max(v.window)).where(
                v.edge == self.edge, v.topic == topic
            )
            _set_span(connection, self.edge, topic, connection.execute(ends).one())
        ends = select(func.min(t.first_window), func.max(t.last_window)).where(
            t.edge == self.edge, t.topic != EDGE
        )
        _set_span(connection, self.edge, EDGE, connection.execute(ends).one())


def _set_span(connection: Connection, edge: str, topic: str, ends: Any) -> None:
    t = topic_sums
    first, last = (FAR, -FAR) if ends[0] is None else ends
    connection.execute(
        update(t)
        .where(t.c.edge == edge, t.c.topic == topic)
        .values(first_window=first, last_window=last)
    )


def _difference(before: Row | None, after: Row | None) -> Added | None:
    """What the sums change by; None where they do not."""
    was = added_by(before) if before else NOTHING
    now = added_by(after) if after else NOTHING
    if was == now:
        return None
    return {name: now[name] - was[name] for name in SUMMED}


def _into(sums: dict[Any, Added], key: Any, delta: Added) -> None:
    known = sums.get(key)
    if known is None:
        sums[key] = dict(delta)
    else:
        for name, number in delta.items():
            known[name] += number
