"""The time of the record that a group reads next, where the course of the log does not say it: the
group is further behind than the ends of its logs were watched.

A few records are fetched in each look, those of the largest lags first; one that was fetched is not
fetched again while the group stands there.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from tallymark.client.core.security.deployment import connection_settings
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.deployment import Cluster
from tallymark.errors import ClosedError, TallymarkError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_dashboards.snapshots.group_book import GroupBook
from tallymark_dashboards.snapshots.shapes import GroupState

_A_LOOK: Final = 10
_TIMEOUT_MS: Final = 3_000
_WAIT_MS: Final = 100


class RecordTimes:
    """One consumer without a group, which is opened when it is needed first."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._consumer: SimpleConsumer | None = None

    def ask(self, book: GroupBook, groups: Iterable[GroupState]) -> None:
        """Fetch the records that would say most. What fails is asked for in the next look."""
        wanted: dict[TopicPartition, int] = {}
        for group in sorted(groups, key=lambda one: -(one.lag or 0))[: 10 * _A_LOOK]:
            for place, offset in book.wanting(group):
                if len(wanted) < _A_LOOK:
                    wanted.setdefault(place, offset)
        if not wanted:
            return
        try:
            specs = [FetchSpec(*place, offset) for place, offset in wanted.items()]
            found = self._opened().multifetch(specs, max_bytes=1, max_wait_ms=_WAIT_MS)
        except ClosedError:
            raise
        except TallymarkError:
            self.close()
            return
        for (place, offset), one in zip(wanted.items(), found, strict=True):
            timestamp = _first_time(one) if isinstance(one, Fetched) else None
            if timestamp is not None:
                book.record_at(place, offset, timestamp)

    def close(self) -> None:
        """Close the connections; idempotent."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(TallymarkError):
                consumer.close()

    def _opened(self) -> SimpleConsumer:
        if self._consumer is None:
            self._consumer = SimpleConsumer(
                **connection_settings(self._cluster),
                client_id="tallymark-dashboards",
                request_timeout_ms=_TIMEOUT_MS,
            )
        return self._consumer


def _first_time(found: Fetched) -> int | None:
    try:
        return next((one.timestamp for one in found), None)
    except TallymarkError:
        return None
