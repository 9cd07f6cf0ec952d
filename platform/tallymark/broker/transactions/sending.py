"""Sends the markers of decided transactions to the leaders of their partitions, until each has it.

What goes where, and when again, is decided by :mod:`tallymark.transactions.markers`; here are the
requests. One connection to each broker, which is opened when it is needed; partitions that this
broker leads are written without one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from tallymark.broker.connections.port import BrokerConnection, BrokerConnections
from tallymark.broker.metadata.image import MetadataImage
from tallymark.errors import ClosedError, ConnectError, KafkaError
from tallymark.net.limits.log_rate import LogRate
from tallymark.protocol.messages import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.markers import DELETED, Markers, Outcome, Sent

log: Final = logging.getLogger(__name__)

WriteHere: TypeAlias = Callable[[WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]]
"""Writes the markers of partitions that this broker leads; returns when they are committed, and in
force in the memory of groups."""

ANSWER_MS: Final = 30_000
"""How long a broker may take."""

_Codes: TypeAlias = dict[tuple[int, TopicPartition], int]


class MarkerSender:
    """The one of broker ``me``. Belongs to the event loop. ``image`` returns the current one."""

    def __init__(
        self,
        me: int,
        connections: BrokerConnections,
        image: Callable[[], MetadataImage],
        write_here: WriteHere,
    ) -> None:
        self._me = me
        self._connections = connections
        self._image = image
        self._write_here = write_here
        self._loop = asyncio.get_running_loop()
        self._markers = Markers()
        self._completed: dict[str, Callable[[Outcome], None]] = {}
        self._open: dict[int, BrokerConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wanted: asyncio.TimerHandle | None = None
        self._logged = LogRate(clock=self._loop.time)
        self._stopped = False

    def __len__(self) -> int:
        """How many transactions wait for markers."""
        return len(self._markers)

    def waiting(self) -> Mapping[int, int]:
        """How many markers wait for each broker; -1: for a partition without a leader."""
        return self._markers.by_broker(self._leader_of)

    @property
    def given_up(self) -> int:
        """How many transactions stay in Prepare, since a partition refuses their marker."""
        return len(self._markers.given_up)

    def begin(self, outcome: Outcome, completed: Callable[[Outcome], None]) -> None:
        """Write the markers of this outcome; ``completed`` is called when all partitions have
        them, never within this call."""
        if self._markers.begin(outcome):
            self._loop.call_soon(completed, outcome)
        else:
            self._completed[outcome.transactional_id] = completed
            self._look_at(0)

    def drop(self, outcomes: Iterable[Outcome]) -> None:
        """The lead of their partition is lost: the next coordinator sends them."""
        gone = {each.transactional_id: each for each in outcomes}
        self._markers.drop(lambda each: gone.get(each.transactional_id) is not each)

    async def stop(self) -> None:
        """Send nothing any more; close the connections."""
        self._stopped = True
        if self._wanted is not None:
            self._wanted.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in self._open.values()))

    def _look_at(self, after_ms: int) -> None:
        """Look for what can be sent, so much later at most."""
        if self._stopped:
            return
        at = self._loop.time() + max(after_ms, 0) / 1000
        if self._wanted is not None:
            if self._wanted.when() <= at:
                return
            self._wanted.cancel()
        self._wanted = self._loop.call_at(at, self._send_all)

    def _send_all(self) -> None:
        self._wanted = None
        requests, complete = self._markers.to_send(self._leader_of, self._now_ms())
        for broker, sent in requests.items():
            task = asyncio.create_task(self._send(broker, sent), name=f"markers to {broker}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._complete(complete)
        now = self._now_ms()
        following = self._markers.next_ms(now)
        if following is not None:
            self._look_at(following - now)

    async def _send(self, broker: int, sent: Sequence[Sent]) -> None:
        codes: _Codes = {}
        try:
            request = request_of(sent)
            if broker == self._me:
                codes = codes_in(await self._write_here(request))
            else:
                connection = await self._connection(broker)
                codes = codes_in(await connection.send(request, ANSWER_MS))
        except (ConnectError, ClosedError, KafkaError) as error:
            self._log_failed(broker, len(sent), str(error))
        except Exception as error:  # they must be sent again whatever happens
            self._log_failed(broker, len(sent), repr(error))
        finally:
            self._complete(self._markers.answered(broker, sent, codes, self._now_ms()))
            self._log_given_up(sent)
            self._look_at(0)

    def _log_given_up(self, sent: Sequence[Sent]) -> None:
        for outcome in (each.outcome for each in sent):
            found = self._markers.given_up.get(outcome.transactional_id)
            if found is not None and found.outcome is outcome:
                log.error(
                    "the marker of a transaction is given up transactional_id=%.249r "
                    "producer_id=%d epoch=%d partition=%s-%d: %s",
                    outcome.transactional_id,
                    outcome.producer_id,
                    outcome.producer_epoch,
                    *found.partition,
                    KafkaError(found.code),
                )

    def _log_failed(self, broker: int, transactions: int, why: str) -> None:
        missed = self._logged.passes(str(broker))
        if missed is not None:
            log.warning(
                "markers are not written yet broker=%d transactions=%d failed=%d: %s",
                broker,
                transactions,
                missed + 1,
                why,
            )

    async def _connection(self, broker: int) -> BrokerConnection:
        known = self._open.get(broker)
        if known is None or known.closed:
            known = self._open[broker] = await self._connections.open(broker)
        return known

    def _complete(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            completed = self._completed.pop(outcome.transactional_id, None)
            if completed is not None:
                completed(outcome)

    def _leader_of(self, partition: TopicPartition) -> int:
        topic, index = partition
        image = self._image()
        known = image.topics.get(topic)
        if known is None or not 0 <= index < len(known.partitions):
            return DELETED
        return image.leader_of(known.partitions[index])

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)


def request_of(sent: Iterable[Sent]) -> WriteTxnMarkersRequest:
    """The request for these outcomes."""
    return WriteTxnMarkersRequest(markers=[_marker(each) for each in sent])


def codes_in(response: WriteTxnMarkersResponse) -> _Codes:
    """The error codes of an answer, by producer id and partition."""
    return {
        (marker.producer_id, (topic.name, part.partition_index)): part.error_code
        for marker in response.markers
        for topic in marker.topics
        for part in topic.partitions
    }


def _marker(sent: Sent) -> WriteTxnMarkersRequestMarker:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(sent.partitions):
        topics.setdefault(topic, []).append(index)
    outcome = sent.outcome
    return WriteTxnMarkersRequestMarker(
        producer_id=outcome.producer_id,
        producer_epoch=outcome.producer_epoch,
        transaction_result=outcome.commit,
        topics=[
            WriteTxnMarkersRequestTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in topics.items()
        ],
        coordinator_epoch=outcome.coordinator_epoch,
        transaction_version=outcome.version,
    )
