"""The claims of each cluster, from its audit topic.

The decoding and the arithmetic (highest revision per reporter and cell, union across reporters,
``complete_through`` only without a hole) are the audit's own:
:func:`tallymark_audit.events.claim_book.fold`.

Small audit topics are read here, by the client: Spark takes longer to start a task than the client
to read a thousand events. Large ones are folded in tasks, see :mod:`.claim_tasks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from tallymark.client import SimpleConsumer
from tallymark.errors import RemoteProtocolError
from tallymark_audit.events.claim_book import ClaimBook
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.judge.damage import Damaged
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_spark_jobs.reconcile.reading.read_plan import Planned, ReadPlan
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.source.reading import Damage, Expired, read_span

FEW_EVENTS: Final = 10_000
"""So many offsets of audit topics are read without Spark."""


@dataclass(slots=True)
class Claims:
    """Of each cluster its claims and reporters; ``damaged`` values were no events: how many, and
    an example of why. ``publishing``: by cluster and topic, the reporters that report on it, in
    any window. ``unread``: where the topics cannot be read. ``expired``: by cluster, the time (ms)
    before which reports expired while they were read."""

    books: dict[str, ClaimBook] = field(default_factory=dict[str, ClaimBook])
    damaged: int = 0
    example: str = ""
    publishing: dict[str, dict[str, set[str]]] = field(
        default_factory=dict[str, dict[str, set[str]]]
    )
    unread: list[Damaged] = field(default_factory=list[Damaged])
    expired: dict[str, int] = field(default_factory=dict[str, int])

    def book(self, cluster: str) -> ClaimBook:
        """The reports of the cluster; empty if there are none."""
        return self.books.setdefault(cluster, ClaimBook())

    def add(self, cluster: str, event: AuditEvent, period: Period | None = None) -> None:
        """Take an event in, with its claims of the period."""
        for topic in {cell.topic for cell in event.cells}:
            self.publish(cluster, topic, event.reporter)
        if period is not None:
            cells = tuple(cell for cell in event.cells if period.holds(cell.window_start))
            event = event if len(cells) == len(event.cells) else replace(event, cells=cells)
        self.book(cluster).add(event)

    def publish(self, cluster: str, topic: str, reporter: str) -> None:
        """The reporter reports on the topic."""
        self.publishing.setdefault(cluster, {}).setdefault(topic, set()).add(reporter)

    def refuse(self, cluster: str, error: Exception, count: int = 1) -> None:
        """Values that are no events."""
        self.damaged += count
        self.example = self.example or f"{cluster}: {error}"

    def topics(self) -> set[str]:
        """All topics that are reported on."""
        return {topic for by_topic in self.publishing.values() for topic in by_topic}


def read_claims(
    events: Iterable[tuple[str, bytes]], window_ms: int, period: Period | None = None
) -> Claims:
    """Fold (cluster, value) pairs of the audit topics, in any order. Claims about windows of
    another length count as damaged."""
    claims = Claims()
    _read_into(claims, events, window_ms, period)
    return claims


def claims_by_client(plan: ReadPlan, window_ms: int, period: Period) -> Claims:
    """The claims of the planned spans, read one after the other. Raises the client's errors."""
    claims = Claims()
    clients: dict[str, SimpleConsumer] = {}
    try:
        for one in plan.spans:
            if one.cluster not in clients:
                connection = plan.connections[one.cluster]
                clients[one.cluster] = SimpleConsumer(**connection, client_id="tallymark-reconcile")
            values = values_of(clients[one.cluster], one, claims)
            _read_into(claims, ((one.cluster, value) for value in values), window_ms, period)
    finally:
        for client in clients.values():
            client.close()
    return claims


def values_of(consumer: SimpleConsumer, planned: Planned, claims: Claims) -> Iterator[bytes]:
    """The values of a span of an audit topic; what cannot be read is noted in ``claims``."""
    cluster, span = planned
    expired = False
    for found in read_span(consumer, span, True, expires=True):
        if isinstance(found, Damage):
            place = (cluster, AUDIT_TOPIC, span.partition, found.offset)
            claims.unread.append(
                Damaged(*place, found.why, found.since, True, found.end, found.until)
            )
        elif isinstance(found, Expired):
            expired = True
        else:
            for piece in found:
                if expired:
                    first = max(0, piece.columns.timestamp_bounds()[0])
                    claims.expired[cluster] = max(claims.expired.get(cluster, 0), first)
                    expired = False
                for value in piece.columns.values():
                    yield value or b""
    if expired:
        claims.expired[cluster] = 1 << 62


def _read_into(
    claims: Claims,
    events: Iterable[tuple[str, bytes]],
    window_ms: int,
    period: Period | None,
) -> None:
    from tallymark_audit.events.event_checks import read_event

    for cluster, value in events:
        try:
            event = read_event(value, window_ms)
        except RemoteProtocolError as error:
            claims.refuse(cluster, error)
            continue
        claims.add(cluster, event, period)
