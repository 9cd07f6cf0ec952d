"""What has to be counted again: requested here, done by the collector of the partition, see
:mod:`tallymark_audit.collector.recounting.chore`.

A request is a range of windows of one partition, and how far it is done: after a restart it
continues there. Counting again replaces what was counted before, so doing it twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.store.counted.archive import partitions_of
from tallymark_audit.store.counted.deleted import deleted_places, is_there
from tallymark_audit.store.schema.tables import archive, observations, recounts
from tallymark_audit.store.schema.upsert import upsert

RECONCILE: Final = "reconcile"
"""The job of what another count, made by itself, found to be otherwise."""
SLOW: Final = "slow scrub"
"""The job that never ends: all windows, one after the other, as fast as the settings let it."""
FIRST: Final = -(1 << 62)
"""Before all windows."""
PATIENCE_MS: Final = 600_000
"""A window waits no longer than this to be counted again before it is judged as it is."""
_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class RecountRequest:
    """Windows to count again (starts, ms): from ``first`` up to ``end``, excluded, those before
    ``next_window`` are done. ``cells``: how many cells had another count than before."""

    topic: str
    partition: int
    job: str
    first: int
    end: int
    next_window: int
    asked_at: int
    bytes: int = 0
    windows: int = 0
    cells: int = 0
    done: bool = False

    @property
    def place(self) -> TopicPartition:
        """Topic and partition."""
        return self.topic, self.partition


def ask(connection: Connection, cluster: str, wanted: Iterable[RecountRequest]) -> None:
    """Request these counts. A request that is repeated starts from the beginning."""
    upsert(
        connection,
        recounts,
        [
            {"cluster": cluster, **{name: getattr(one, name) for name in RecountRequest.__slots__}}
            for one in wanted
        ],
    )


def ask_for_windows(
    connection: Connection, cluster: str, topic: str, windows: Collection[int], now_ms: int
) -> int:
    """Request a new count of these windows of a topic wherever they were seen, since another count
    differs; returns in how many places. Partitions that are deleted are left out."""
    gone = deleted_places(connection, cluster)
    wanted = [
        RecountRequest(topic, partition, RECONCILE, window, window + 1, window, now_ms)
        for window, partition in sorted(_seen_in(connection, cluster, topic, windows))
        if (topic, partition) not in gone
    ]
    ask(connection, cluster, wanted)
    return len(wanted)


def to_do(connection: Connection, cluster: str) -> Iterator[RecountRequest]:
    """What is not done yet, in the order in which it is to be done: another count's doubts first,
    since verdicts wait for them. They are read as far as the caller takes them."""
    at = recounts.c
    query = (
        select(*(at[name] for name in RecountRequest.__slots__))
        .where(at.cluster == cluster, ~at.done, at.job != SLOW, is_there(recounts))
        .order_by(at.job != RECONCILE, at.asked_at, at.topic, at.partition, at.first, at.job)
        .limit(_AT_ONCE)
    )
    for start in count(step=_AT_ONCE):
        some = connection.execute(query.offset(start)).mappings().all()
        yield from (RecountRequest(**row) for row in some)
        if len(some) < _AT_ONCE:
            return


def slow_ones(connection: Connection, cluster: str) -> dict[TopicPartition, RecountRequest]:
    """How far the slow scrub is, by partition."""
    return {one.place: one for one in of_job(connection, SLOW, cluster)}


def of_job(connection: Connection, job: str, cluster: str | None = None) -> list[RecountRequest]:
    """All requests of a job, in one cluster or all."""
    query = select(*(recounts.c[name] for name in RecountRequest.__slots__)).where(
        recounts.c.job == job
    )
    if cluster is not None:
        query = query.where(recounts.c.cluster == cluster)
    return [RecountRequest(**row) for row in connection.execute(query).mappings()]


def forget_job(connection: Connection, job: str) -> None:
    """Remove the requests of a job."""
    connection.execute(delete(recounts).where(recounts.c.job == job))


def end_of(connection: Connection, cluster: str, places: Iterable[TopicPartition]) -> None:
    """These partitions are deleted: nothing can be counted again there, so their requests end."""
    for topic, partition in places:
        of = (
            recounts.c.cluster == cluster,
            recounts.c.topic == topic,
            recounts.c.partition == partition,
        )
        connection.execute(delete(recounts).where(*of, recounts.c.job.in_((RECONCILE, SLOW))))
        connection.execute(update(recounts).where(*of).values(done=True))


def waiting(
    connection: Connection, places: Iterable[tuple[str, str]], windows: Sequence[int], now_ms: int
) -> set[int]:
    """Which of the windows wait to be counted again at any of the places (cluster, topic): what
    was counted of them is in doubt."""
    found: set[int] = set()
    for cluster, topic in places:
        for start in range(0, len(windows), _AT_ONCE):
            query = select(recounts.c.first).where(
                recounts.c.cluster == cluster,
                recounts.c.topic == topic,
                recounts.c.job == RECONCILE,
                recounts.c.first.in_(windows[start : start + _AT_ONCE]),
                recounts.c.asked_at > now_ms - PATIENCE_MS,
                ~recounts.c.done,
            )
            found.update(connection.scalars(query))
    return found


def next_window(
    connection: Connection, cluster: str, one: RecountRequest, leave_out: int | None = None
) -> int | None:
    """The next window of a request that holds anything in its partition, but for the one to
    ``leave_out``; None: there is none."""
    seen: int | None = connection.scalar(
        select(func.min(observations.c.window)).where(
            observations.c.cluster == cluster,
            observations.c.topic == one.topic,
            observations.c.seen_topic == one.topic,
            observations.c.seen_partition == one.partition,
            observations.c.window >= one.next_window,
            observations.c.window < one.end,
            *([] if leave_out is None else [observations.c.window != leave_out]),
        )
    )
    packed = _packed(connection, cluster, one, one.end if seen is None else seen)
    return next((window for window in packed if window != leave_out), seen)


def _packed(connection: Connection, cluster: str, one: RecountRequest, end: int) -> Iterator[int]:
    """The archived windows before ``end`` that a request still has to look at, a page at a time."""
    start: int | None = one.next_window
    while start is not None:
        page = (
            select(archive.c.window, archive.c.ends)
            .where(
                archive.c.cluster == cluster,
                archive.c.topic == one.topic,
                archive.c.window >= start,
                archive.c.window < end,
            )
            .order_by(archive.c.window)
            .limit(_AT_ONCE)
        )
        found = connection.execute(page).all()
        yield from (window for window, ends in found if one.partition in partitions_of(ends))
        start = found[-1].window + 1 if len(found) == _AT_ONCE else None


def advance(connection: Connection, cluster: str, one: RecountRequest) -> None:
    """Store the progress ``one`` of the request. A request from a count that differed is removed
    when it is done; the others are kept with their result."""
    same = _is(cluster, one)  # and not asked for anew meanwhile
    if one.done and one.job == RECONCILE:
        connection.execute(delete(recounts).where(*same))
        return
    told = {name: getattr(one, name) for name in RecountRequest.__slots__}
    connection.execute(update(recounts).where(*same).values(**told))


def _is(cluster: str, one: RecountRequest) -> list[ColumnElement[bool]]:
    return [
        recounts.c.cluster == cluster,
        recounts.c.topic == one.topic,
        recounts.c.partition == one.partition,
        recounts.c.job == one.job,
        recounts.c.first == one.first,
        recounts.c.asked_at == one.asked_at,
    ]


def _seen_in(
    connection: Connection, cluster: str, topic: str, windows: Collection[int]
) -> set[tuple[int, int]]:
    """The windows that hold anything, and in which partitions."""
    found: set[tuple[int, int]] = set()
    wanted = sorted(windows)
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        query = select(observations.c.window, observations.c.seen_partition).where(
            observations.c.cluster == cluster,
            observations.c.topic == topic,
            observations.c.seen_topic == topic,
            observations.c.window.in_(some),
        )
        found.update((window, partition) for window, partition in connection.execute(query))
        packed = select(archive.c.window, archive.c.ends).where(
            archive.c.cluster == cluster, archive.c.topic == topic, archive.c.window.in_(some)
        )
        found.update(
            (window, partition)
            for window, ends in connection.execute(packed)
            for partition in partitions_of(ends)
        )
    return found
