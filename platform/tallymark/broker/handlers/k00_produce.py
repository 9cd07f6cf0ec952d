"""k00 Produce: append one record batch to each partition named.

Advertised 0-11, served 3-11; 12 where transactions are served.

* v0 to v2 carry the old message formats; they are answered with UNSUPPORTED_VERSION in every
  partition. They are advertised since librdkafka before 2.11.1 stops compressing for a broker whose
  lowest version is above 0 (KAFKA-18659)
* v3 batches of format v2 (KIP-98), exactly one a partition
* v7 zstd; below it a zstd batch is UNSUPPORTED_COMPRESSION_TYPE (KIP-110)
* v8 the error as text, and the records that caused it (KIP-467): those without a key in a
  compacted topic, and those outside the limits on timestamps
* v9 flexible
* v10 the new leader beside NOT_LEADER_OR_FOLLOWER (KIP-951)
* v11 TRANSACTION_ABORTABLE, v12 adds its partitions to the transaction (KIP-890); no change on the
  wire

Kept: WRITE on the topic is required, idempotent or not (KIP-679). A batch sent again by an
idempotent producer is answered with its first offset. acks=1 and acks=-1 are the same with one
replica: answered when the batch is in the page cache, so a killed process loses nothing of it (a
machine's power failure loses what was not flushed); with ``flush.before.expose`` acks=-1 waits for
the flush. With several replicas acks=-1 is refused before the append where fewer are in sync than
min.insync.replicas asks for (NOT_ENOUGH_REPLICAS), and waits for the high watermark after it; an
error after the append leaves open whether the records are committed. Requests wait without a task
(:mod:`tallymark.broker.partitions.commit_waits`). A batch that takes long to check or to compress
again (``compression.type``) is prepared in a thread, and later batches for its partition wait.
The first batch of a transaction waits until its coordinator has said that the partition is in the
transaction (:mod:`tallymark.broker.partitions.verifier`); WRITE on the transactional id is
required. acks=0 has no answer; an error then closes the connection. A partition named twice is
appended once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from tallymark.broker.partitions.commit_waits import CommitTicket
from tallymark.broker.partitions.partition import ACKS_ALL, Partition
from tallymark.broker.partitions.producible import is_transactional, uses_zstd
from tallymark.broker.partitions.transactional_batch import TransactionalBatch
from tallymark.broker.partitions.verifier import check_of
from tallymark.broker.requests.decode import decode_request
from tallymark.broker.requests.produce_response import Outcome, Refused, produce_response
from tallymark.broker.requests.registry import register_raw
from tallymark.broker.security.authorizer import DENIED
from tallymark.broker.security.quota_charge import charge_quota
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.log.results import AppendInfo
from tallymark.net.server.handler import Answer, Connection
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.api import ApiKey
from tallymark.protocol.frames import RequestHeader, encode_response
from tallymark.protocol.messages import (
    ProduceRequest,
)
from tallymark.protocol.topic_partition import STATE_TOPICS
from tallymark.protocol.wire.produce import (
    Appended,
    Batches,
    PlainProduce,
    read_produce,
    write_produced,
)
from tallymark.transactions.verifying import code_for_client

log = logging.getLogger(__name__)

_FIRST_SERVED: Final = 3
_FIRST_WITH_ZSTD: Final = 7
_FIRST_WITH_ABORTABLE: Final = 11
_FIRST_THAT_ADDS: Final = 12
Place: TypeAlias = tuple[int, int]


class _Unready(NamedTuple):
    """A batch that waits for its turn in ``partition``."""

    partition: Partition
    appending: asyncio.Future[AppendInfo | KafkaError]


def handle(
    state: BrokerState, body: memoryview, header: RequestHeader, connection: Connection
) -> Answer | Awaitable[Answer]:
    """Append in the order of the request; every partition fails or succeeds by itself."""
    version = header.api_version
    request = read_produce(body, version) if version >= _FIRST_SERVED else _read_old(body, version)
    producing = _Producing(state, header, connection, request, len(body))
    producing.append(request.topics)
    if producing.unready:
        return producing.later()
    return producing.answer() if not producing.unexposed else producing.exposed()


class _Producing:
    """One request that is being handled. By the (index of the topic, index of the partition) in the
    request: ``unready``, batches that are not appended yet; ``unexposed``, where a producer with
    acks=-1 waits for its records to be exposed."""

    _answered: asyncio.Future[Answer] | None = None

    def __init__(
        self,
        state: BrokerState,
        header: RequestHeader,
        connection: Connection,
        request: PlainProduce,
        size: int,
    ) -> None:
        self.unexposed: dict[Place, tuple[Partition, CommitTicket]] = {}
        self.unready: dict[Place, _Unready] = {}
        self._acks = request.acks
        self._connection = connection
        self._failed = False
        self._header = header
        self._now_ms = state.now_ms()
        self._outcomes: list[tuple[str, list[Outcome]]] = []
        self._size = size
        self._state = state
        self._timeout_ms = request.timeout_ms
        self._transactional_id = request.transactional_id
        self._refused = _refusal(request, header.api_version) or self._not_in_transactions()

    def append(self, topics: Sequence[Batches]) -> None:
        """Append in the order of the request."""
        seen: set[tuple[str, int]] = set()
        single = len(topics) == 1 and len(topics[0][1]) == 1
        for name, partitions in topics:
            refused = self._refused or self._refusal(name)
            done: list[Outcome] = []
            self._outcomes.append((name, done))
            for index, records in partitions:
                try:
                    if refused is not None:
                        raise refused
                    if not single:
                        _see(seen, name, index)
                    place = (len(self._outcomes) - 1, len(done))
                    done.append(self._append(name, index, records or b"", place))
                except KafkaError as error:
                    done.append(self._refuse(name, index, error))

    async def later(self) -> Answer:
        """The answer when every batch is appended, and exposed where acks=-1 waits for that."""
        await self._ready()
        return await self.exposed() if self.unexposed else self.answer()

    def exposed(self) -> asyncio.Future[Answer]:
        """The answer when all that is ``unexposed`` is exposed, or failed. Cancelling it ends the
        request."""
        self._answered = asyncio.get_running_loop().create_future()
        self._answered.add_done_callback(self._give_up)
        return self._answered

    def answer(self) -> Answer:
        """The whole frame; None with acks=0."""
        version, correlation_id = self._header.api_version, self._header.correlation_id
        throttle_ms = charge_quota(self._state.security, self._header, self._connection, self._size)
        if self._acks == 0:
            if self._failed:
                self._connection.finish()
            return None
        if self._failed or version < _FIRST_SERVED:
            listener = self._connection.listener
            response = produce_response(
                self._state.partitions, listener, self._outcomes, throttle_ms
            )
            return encode_response(response, version, correlation_id)
        appended = [
            (name, [each for each in partitions if not isinstance(each, Refused)])
            for name, partitions in self._outcomes
        ]
        return write_produced(version, correlation_id, appended, throttle_ms)

    async def _ready(self) -> None:
        """Wait until the :attr:`unready` batches are appended; store the result of each in the
        outcomes. The batches are appended even if this task is cancelled."""
        await asyncio.wait([each.appending for each in self.unready.values()])
        for (topic, place), (partition, appending) in self.unready.items():
            name, done = self._outcomes[topic]
            index, outcome = done[place].partition, appending.result()
            try:
                if isinstance(outcome, KafkaError):
                    raise outcome
                done[place] = self._taken(partition, index, outcome, (topic, place))
            except KafkaError as error:
                done[place] = self._refuse(name, index, error)

    def _exposed_at(self, place: Place, error: KafkaError | None) -> None:
        """The end of the wait at ``place``."""
        del self.unexposed[place]
        if error is not None:
            done = self._outcomes[place[0]][1]
            done[place[1]] = self._count_refused(done[place[1]].partition, error)
        future = self._answered
        if self.unexposed or future is None or future.done():
            return
        try:
            future.set_result(self.answer())
        except Exception as failed:  # the connection logs it and closes
            future.set_exception(failed)

    def _give_up(self, answered: asyncio.Future[Answer]) -> None:
        """The client is gone: nothing waits for it any more."""
        if answered.cancelled():
            for partition, ticket in self.unexposed.values():
                partition.forget(ticket)

    def _refuse(self, topic: str, index: int, error: KafkaError) -> Refused:
        self._log_refused(topic, index, error)
        return self._count_refused(index, error)

    def _count_refused(self, index: int, error: KafkaError) -> Refused:
        self._failed = True
        self._state.metrics.api(ApiKey.PRODUCE).failed(error.code)
        return Refused(index, error)

    def _refusal(self, topic: str) -> KafkaError | None:
        """The error for all partitions of a topic; None where it is not refused."""
        who = self._connection
        if not self._state.authorizer.may(who, Operation.WRITE, ResourceType.TOPIC, topic):
            return KafkaError(
                DENIED[ResourceType.TOPIC], f"{who.principal} may not write to {topic}"
            )
        if topic in STATE_TOPICS:
            return KafkaError(CODES["INVALID_TOPIC_EXCEPTION"], f"{topic} is the brokers' own")
        return None

    def _not_in_transactions(self) -> KafkaError | None:
        """The error for a request with a transactional id that may not have it."""
        name, kind, who = self._transactional_id, ResourceType.TRANSACTIONAL_ID, self._connection
        if name is None:
            return None
        if self._state.authorizer.may(who, Operation.WRITE, kind, name):
            return None
        return KafkaError(DENIED[kind], f"{who.principal} may not write in transactions of {name}")

    def _append(
        self, topic: str, index: int, records: memoryview | bytes, place: Place
    ) -> Appended:
        partition = self._state.partitions.find(topic, index)
        if self._header.api_version < _FIRST_WITH_ZSTD and uses_zstd(records):
            raise KafkaError(CODES["UNSUPPORTED_COMPRESSION_TYPE"], f"{partition}: zstd")
        if self._transactional_id is not None and is_transactional(records):
            return self._in_transaction(self._transactional_id, partition, index, records, place)
        appending = partition.append_in_turn(records, self._now_ms, self._acks)
        if appending is not None:
            self.unready[place] = _Unready(partition, appending)
            return Appended(index, -1, -1, -1)
        appended = partition.append(records, self._now_ms, self._acks)
        return self._taken(partition, index, appended, place)

    def _in_transaction(
        self,
        transactional_id: str,
        partition: Partition,
        index: int,
        records: memoryview | bytes,
        place: Place,
    ) -> Appended:
        """A batch of a transaction: appended at once where that is open in the log, or when the
        coordinator has said that it is. Other partitions of the connection do not wait."""
        version = self._header.api_version
        code_of = partial(
            code_for_client,
            knows_abortable=version >= _FIRST_WITH_ABORTABLE,
            adds=version >= _FIRST_THAT_ADDS,
        )
        transactional = TransactionalBatch(
            partition, records, self._now_ms, self._acks, check_of(partition, code_of)
        )
        verifier = self._state.verifier
        assert verifier is not None
        appending = transactional.append(
            verifier, transactional_id, code_of, adds=version >= _FIRST_THAT_ADDS
        )
        if isinstance(appending, asyncio.Future):
            self.unready[place] = _Unready(partition, appending)
            return Appended(index, -1, -1, -1)
        return self._taken(partition, index, appending, place)

    def _taken(self, partition: Partition, index: int, info: AppendInfo, place: Place) -> Appended:
        if self._acks == ACKS_ALL and info.last_offset >= partition.high_watermark:
            waiter = partial(self._exposed_at, place)
            ticket = partition.when_exposed(info.last_offset, waiter, self._timeout_ms)
            if ticket is not None:
                self.unexposed[place] = partition, ticket
        return Appended(index, info.first_offset, info.append_time_ms, partition.log.start_offset)

    def _log_refused(self, topic: str, index: int, error: KafkaError) -> None:
        """Log a refused batch. Errors of the broker itself are logged at a limited rate, since the
        client retries at once."""
        if error.fault != "broker":
            log.debug("produce refused partition=%s-%d: %s", topic, index, error)
            return
        key = error.name, getattr(error.__cause__, "errno", None)
        held = self._state.refusals.passes(key)
        if held is not None:
            log.error("produce refused partition=%s-%d: %s; repeated=%d", topic, index, error, held)


def _see(seen: set[tuple[str, int]], topic: str, index: int) -> None:
    if (topic, index) in seen:
        raise KafkaError(CODES["INVALID_REQUEST"], f"{topic}-{index} is named twice")
    seen.add((topic, index))


def _refusal(request: PlainProduce, version: int) -> KafkaError | None:
    """The error for the whole request; None where it is not refused."""
    if version < _FIRST_SERVED:
        return KafkaError(CODES["UNSUPPORTED_VERSION"], f"Produce version {version}")
    if request.acks not in (-1, 0, 1):
        return KafkaError(CODES["INVALID_REQUIRED_ACKS"], f"acks={request.acks}")
    return None


def _read_old(body: memoryview, version: int) -> PlainProduce:
    request = decode_request(ProduceRequest, version, body)
    topics: list[Batches] = [
        (topic.name, [(part.index, None) for part in topic.partition_data])
        for topic in request.topic_data
    ]
    return PlainProduce(None, request.acks, request.timeout_ms, topics)


register_raw(ProduceRequest, handle)
