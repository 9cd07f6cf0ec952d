"""When a window that waits for others is judged again, so that waiting costs very little.

A window is UNKNOWN while something it needs is missing: a reporter is silent, a counter does not
move, a log cannot be read. That may last for days, and there may be thousands of such windows (all
windows of a host that is lost). Judging each of them every few seconds kept a core busy without any
result. So the wait doubles while the verdict stays, and ends at once when the state of a reporter,
a counter or a log changes: see :func:`those_waited_for`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from tallymark_audit.judge.copy_progress import mirror_of
from tallymark_audit.model.cells import Edge, TopicWindow
from tallymark_audit.store.counted.facts import RETIRED
from tallymark_audit.store.schema.tables import damage, progress, reporters

LONGEST_MS: Final = 60_000
"""A window waits no longer, where few do: not everything that may end its waiting is a sign."""
EACH_MS: Final = 400
"""Where many wait: no more than five in two seconds are judged again."""
Signs = tuple[int, ...]


class Waiting:
    """How often each window was judged and has stayed as it was. Pure; times are ms. Its length is
    how many wait."""

    def __init__(self) -> None:
        self._rounds: dict[TopicWindow, int] = {}

    def __len__(self) -> int:
        return len(self._rounds)

    def again_at(self, window: TopicWindow, now: int, first_ms: int, crowd: int) -> int:
        """When to judge the window again, which still waits; ``first_ms`` after the first time.
        ``crowd`` windows wait in all."""
        rounds = self._rounds.get(window, 0)
        self._rounds[window] = rounds + 1
        wait = min(first_ms << min(rounds, 20), max(first_ms, LONGEST_MS))
        return now + max(wait, crowd * EACH_MS)

    def ended(self, window: TopicWindow) -> None:
        """It changed, or waits no more."""
        self._rounds.pop(window, None)

    def all_ended(self) -> None:
        """End all waits: the cause of some may be gone."""
        self._rounds.clear()


def those_waited_for(
    connection: Connection, edge: Edge, clusters: Sequence[str], now: int, silence_ms: int
) -> Signs:
    """Counts of what windows of the edge may wait for on these clusters: its reporters, those that
    have ended, those that reported recently; the partitions, those that are counted; the logs that
    cannot be read. While these counts stay the same, no reporter or counter has begun, ended or
    become silent."""
    lately = now - silence_ms
    told = select(
        func.count(),
        _number(or_(reporters.c.closed, RETIRED)),
        _number(reporters.c.last_heard >= lately),
    ).where(reporters.c.cluster.in_(clusters), _reports_on(edge))
    counted = select(func.count(), _number(progress.c.counted_through >= lately)).where(
        progress.c.cluster.in_(clusters)
    )
    damaged = select(func.count()).where(damage.c.cluster.in_(clusters))
    return tuple(
        int(number or 0)
        for query in (told, counted, damaged)
        for number in connection.execute(query).one()
    )


def _reports_on(edge: Edge) -> ColumnElement[bool]:
    """Of ``reporters``: those that a verdict on the edge looks at. On a mirror's edge producers
    say where a record was sent first."""
    if edge.reported:
        return and_(reporters.c.tier == edge.kind, reporters.c.consumer_group == edge.group)
    produces = reporters.c.tier == "producer"
    return (
        produces if edge.mirror is None else or_(produces, reporters.c.reporter == mirror_of(edge))
    )


def _number(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))
