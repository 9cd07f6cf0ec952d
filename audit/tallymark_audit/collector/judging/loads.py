"""Windows that wait for the load into the lake, and for nothing else.

Loads come once an hour or once a night, so a day of windows of every topic waits for them. To judge
each of these again every minute would keep a core busy without any result. They are left alone
until a report about their topic's table arrives, until their counts or claims change, or until the
load is overdue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, func, select

from tallymark_audit.judge.readiness import NOT_LOADED
from tallymark_audit.judge.verdicts import Verdict
from tallymark_audit.model.cells import FOREVER, LAKE, TopicWindow
from tallymark_audit.store.schema.tables import copied, reporters

News = tuple[int, ...]


def awaits_load(verdict: Verdict) -> bool:
    """Whether the window waits for its load: nothing else holds back what it lacks then."""
    return any(NOT_LOADED in cell.reason for cell in verdict.cells)


class LoadsAwaited:
    """The windows of one edge that wait for the load. Times are ms."""

    def __init__(self) -> None:
        self._until: dict[str, dict[int, int]] = {}
        self._first = FOREVER
        self._heard: Mapping[str, News] = {}

    def wait(self, window: TopicWindow, until: int) -> None:
        """Leave the window alone until then."""
        self._until.setdefault(window[0], {})[window[1]] = until
        self._first = min(self._first, until)

    def ended(self, window: TopicWindow) -> None:
        """It waits no more."""
        self._until.get(window[0], {}).pop(window[1], None)

    def due(self, heard: Mapping[str, News], now: int) -> list[TopicWindow]:
        """The windows that have waited long enough, and those of topics with a new report
        (``heard``); they wait no more."""
        moved = [t for t in self._until if heard.get(t) != self._heard.get(t)]
        self._heard = heard
        found = [(topic, at) for topic in moved for at in self._until[topic]]
        if now >= self._first:
            found += self._overdue(moved, now)
        for one in found:
            self.ended(one)
        if found:
            waiting = self._until.items()
            self._until = {topic: windows for topic, windows in waiting if windows}
            self._first = min(_times(self._until), default=FOREVER)
        return found

    def _overdue(self, moved: Iterable[str], now: int) -> list[TopicWindow]:
        return [
            (topic, at)
            for topic, windows in self._until.items()
            if topic not in moved
            for at, until in windows.items()
            if until <= now
        ]


def heard_of_loads(connection: Connection, cluster: str) -> dict[str, News]:
    """By topic, numbers that change when a table of the lake reports that it has come further, when
    a table is new, and when one is retired."""
    same = reporters.c.reporter == copied.c.reporter
    of_lake = (reporters.c.cluster == copied.c.cluster) & same
    query = (
        select(
            copied.c.topic,
            func.count(),
            func.sum(copied.c.through_offset),
            func.max(copied.c.at),
            func.max(reporters.c.retired_at),
        )
        .join(reporters, of_lake)
        .where(copied.c.cluster == cluster, reporters.c.tier == LAKE)
        .group_by(copied.c.topic)
    )
    return {topic: tuple(map(int, news)) for topic, *news in connection.execute(query)}


def _times(until: Mapping[str, Mapping[int, int]]) -> Iterable[int]:
    return (at for windows in until.values() for at in windows.values())
