"""Sends batches to the leaders of their partitions, request by request.

Producers use it (:class:`~tallymark.client.producing.sending.sender.Sender`), and mirrors do for
batches that they have read elsewhere. The owner says which batch of a partition is next and what
becomes of it; what lies between is here: connections, requests in flight, answers. Nothing waits:
what is not possible now is tried again when the owner's pump runs next. Lives in the I/O thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from tallymark.client.core.cluster import Cluster
from tallymark.client.producing.sending.background import BackgroundRefresh
from tallymark.client.producing.sending.produce_response import (
    B,
    BatchQueue,
    Entry,
    Q,
    learn_leaders,
    read_response,
)
from tallymark.errors import CODES, KafkaError, LocalProtocolError, TallymarkError
from tallymark.net.addresses import Address
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.protocol.messages import ProduceRequest, ProduceResponse
from tallymark.protocol.wire.produce_client import (
    LOWEST,
    PartitionResponse,
    Topic,
    read_produced,
    write_produce,
)

MAX_REQUEST_BYTES: Final = 1024 * 1024
_ZSTD_FROM: Final = 7
_UNWRITABLE_PAUSE: Final = 0.005
Q_contra = TypeVar("Q_contra", bound=BatchQueue, contravariant=True)


@dataclass(frozen=True, slots=True)
class SendRules:
    """Times in seconds. ``acks`` is -1, 1 or 0; ``max_in_flight`` requests a connection.
    ``highest_version`` of Produce is what both sides know, unless it is bounded here."""

    acks: int
    compression: str
    compression_level: int | None
    request_timeout: float
    retry_backoff: float
    max_in_flight: int
    highest_version: int | None = None
    transactional_id: str | None = None


class BatchOwner(Protocol[Q_contra, B]):
    """Whose batches are sent. For each batch that :meth:`next_batch` returned the dispatcher calls
    ``acknowledged`` or ``refused``, or puts it back into its pipeline as not sent."""

    def next_batch(self, queue: Q_contra, now: float) -> B | None:
        """The batch of the partition that may be sent now, if there is one."""
        ...

    def no_leader(self, queue: Q_contra, now: float) -> None:
        """The leader of the partition is not known."""

    def uses_zstd(self, entries: Sequence[Entry[Q_contra, B]]) -> bool:
        """Whether a batch among them is compressed with zstd."""
        ...

    def sending(self, entries: Sequence[Entry[Q_contra, B]]) -> None:
        """A request with these is about to be written."""

    def sent(self, entries: Sequence[Entry[Q_contra, B]], size: int) -> None:
        """The request was handed to the network; ``size`` is in bytes."""

    def answered(self, seconds: float | None) -> None:
        """The request was answered after so long; None: it never will be."""

    def acknowledged(
        self, queue: Q_contra, batch: B, base_offset: int, append_time_ms: int
    ) -> None:
        """The batch is in the log; both numbers are -1 where the broker did not say."""

    def refused(self, queue: Q_contra, batch: B, error: TallymarkError, moved: bool) -> None:
        """The attempt failed; ``moved``: the answer named new leaders."""


class Dispatcher(Generic[Q, B]):
    """``pump`` is the owner's function that calls :meth:`dispatch`; it runs again after answers,
    when a connection is there, and at the times given to :meth:`pump_at`."""

    def __init__(
        self,
        cluster: Cluster,
        rules: SendRules,
        background: BackgroundRefresh,
        owner: BatchOwner[Q, B],
        pump: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._rules = rules
        self.highest_version = rules.highest_version
        """Of Produce; None: what both sides know."""
        self._background = background
        self._owner = owner
        self._pump = pump
        self._in_flight: dict[Address, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def dispatch(self, queues: Iterable[Q], now: float) -> None:
        """Send what may be sent of these partitions."""
        by_leader: dict[Address, list[Q]] = {}
        for queue in queues:
            address = self._cluster.leader_address(queue.topic, queue.partition)
            if address is None:
                self._owner.no_leader(queue, now)
            else:
                by_leader.setdefault(address, []).append(queue)
        for address, led in by_leader.items():
            if self._rules.transactional_id is None:
                self._send_to(address, led, now)
                continue
            for inside in (True, False):  # a request is of a transaction as a whole, or not at all
                some = [queue for queue in led if queue.pipeline.transactional is inside]
                if some:
                    self._send_to(address, some, now)

    def pump_at(self, at: float) -> None:
        """Have the pump run at ``at`` (monotonic seconds) at the latest."""
        if self._timer is not None:
            if not self._timer.cancelled() and time.monotonic() < self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._pump)

    def stop(self) -> None:
        """The pump is not run by a time any more."""
        if self._timer is not None:
            self._timer.cancel()

    # --- requests ---------------------------------------------------------------------------

    def _send_to(self, address: Address, queues: list[Q], now: float) -> None:
        """Requests to one broker, until it has enough in flight or nothing more may go."""
        stream = self._cluster.connections.ready(address)
        if stream is None:
            again_at = self._background.want_connection(address, now)
            if again_at is not None:
                self.pump_at(again_at)
            return
        stream.after_answers = self._pump
        while self._in_flight.get(address, 0) < self._rules.max_in_flight:
            if not stream.writable:
                self.pump_at(now + _UNWRITABLE_PAUSE)
                break
            entries = self._fill_request(queues, now)
            if not entries or not self._submit(address, stream, entries, now):
                break
        stream.push()

    def _fill_request(self, queues: list[Q], now: float) -> list[Entry[Q, B]]:
        entries: list[Entry[Q, B]] = []
        room = MAX_REQUEST_BYTES
        for queue in queues:
            batch = self._owner.next_batch(queue, now)
            if batch is None or (entries and batch.size > room):
                continue
            queue.pipeline.sent(batch)
            entries.append((queue, batch))
            room -= batch.size
        return entries

    def _submit(
        self, address: Address, stream: BrokerConnection, entries: list[Entry[Q, B]], now: float
    ) -> bool:
        """Hand one request over; False when nothing more may be sent to this broker now."""
        rules = self._rules
        self._owner.sending(entries)
        try:
            version = self._version(stream, entries)
            topics, size = self._topics_of(entries)
            timeout_ms = int(rules.request_timeout * 1000)
            write = partial(
                write_produce,
                version,
                acks=rules.acks,
                timeout_ms=timeout_ms,
                topics=topics,
                transactional_id=rules.transactional_id if _transactional(entries) else None,
            )
            if rules.acks == 0:
                stream.post_written(write, "Produce")
            else:
                stream.exchange(
                    write,
                    partial(read_produced, version=version),
                    partial(self._answered, address, entries, now),
                    rules.request_timeout,
                    "Produce",
                )
        except (KafkaError, LocalProtocolError) as error:
            self._not_sent(entries, error)
            return False
        self._owner.sent(entries, size)
        if rules.acks == 0:
            stream.push()
            for queue, batch in entries:
                self._owner.acknowledged(queue, batch, -1, -1)
        else:
            self._in_flight[address] = self._in_flight.get(address, 0) + 1
        return True

    def _version(self, stream: BrokerConnection, entries: Sequence[Entry[Q, B]]) -> int:
        """The Produce version to use. KafkaError when the broker is too old for us or the codec."""
        highest = self.highest_version
        version = stream.version_of(ProduceRequest)
        if version < LOWEST:
            raise KafkaError(CODES["UNSUPPORTED_VERSION"], "the broker is older than Kafka 0.11")
        if version < _ZSTD_FROM and self._owner.uses_zstd(entries):
            raise KafkaError(CODES["UNSUPPORTED_COMPRESSION_TYPE"], "zstd needs Kafka 2.1")
        return version if highest is None else min(version, highest)

    def _topics_of(self, entries: Sequence[Entry[Q, B]]) -> tuple[list[Topic], int]:
        """The batches, encoded, by topic; and their bytes."""
        rules, metadata = self._rules, self._cluster.metadata
        topics: dict[str, Topic] = {}
        size = 0
        for queue, batch in entries:
            header, records = batch.pieces(rules.compression, rules.compression_level)
            size += len(header) + len(records)
            topic = topics.get(queue.topic)
            if topic is None:
                topic = topics[queue.topic] = (queue.topic, metadata.topic_id(queue.topic), [])
            topic[2].append((queue.partition, header, records))
        return list(topics.values()), size

    def _not_sent(self, entries: Sequence[Entry[Q, B]], error: TallymarkError) -> None:
        """Nothing left: the connection has just died (try again), or it cannot be said."""
        for queue, batch in entries:
            if isinstance(error, KafkaError) and error.retriable:
                queue.pipeline.unsent(batch)
            else:
                self._owner.refused(queue, batch, error, False)

    # --- answers ----------------------------------------------------------------------------

    def _answered(
        self,
        address: Address,
        entries: list[Entry[Q, B]],
        sent_at: float,
        response: list[PartitionResponse] | ProduceResponse,
        error: TallymarkError | None,
    ) -> None:
        """The pump follows, once for all answers that came together."""
        self._in_flight[address] -= 1
        if error is not None:
            for queue, batch in entries:
                self._owner.refused(queue, batch, error, False)
            self._owner.answered(None)
            return
        metadata = self._cluster.metadata
        moved = learn_leaders(entries, response, metadata)
        for answer in read_response(entries, response, metadata):
            queue, batch, problem, base_offset, append_time_ms = answer
            if problem is None:
                self._owner.acknowledged(queue, batch, base_offset, append_time_ms)
            else:
                self._owner.refused(queue, batch, problem, moved)
        self._owner.answered(time.monotonic() - sent_at)


def _transactional(entries: Sequence[Entry[Q, B]]) -> bool:
    return entries[0][0].pipeline.transactional
