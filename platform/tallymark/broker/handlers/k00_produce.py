"""k00 Produce: append one record batch to each partition named.

Advertised 0-11, served 3-11.

* v0 to v2 carry the old message formats; they are answered with UNSUPPORTED_VERSION in every
  partition. They are advertised since librdkafka before 2.11.1 stops compressing for a broker whose
  lowest version is above 0 (KAFKA-18659)
* v3 batches of format v2 (KIP-98), exactly one a partition
* v7 zstd; below it a zstd batch is UNSUPPORTED_COMPRESSION_TYPE (KIP-110)
* v8 the error as text, and the records that caused it (KIP-467): those without a key in a
  compacted topic, and those outside the limits on timestamps
* v9 flexible
* v10 the new leader beside NOT_LEADER_OR_FOLLOWER (KIP-951)
* v11 no change on the wire (KIP-890)

Kept: WRITE on the topic is required, idempotent or not (KIP-679). A batch sent again by an
idempotent producer is answered with its first offset. acks=1 and acks=-1 are the same with one
replica: answered when the batch is in the page cache, so a killed process loses nothing of it (a
machine's power failure loses what was not flushed); with ``flush.before.expose`` acks=-1 waits for
the flush. A batch that takes long to check or to compress again (``compression.type``) is prepared
in a thread, and later batches for its partition wait. acks=0 has no answer; an error then closes
the connection. A partition named twice is appended once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tallymark.broker.partitions.leader_hint import leader_hint
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.partitions.producible import uses_zstd
from tallymark.broker.requests.decode import decode_request
from tallymark.broker.requests.registry import register_raw
from tallymark.broker.security.authorizer import DENIED
from tallymark.broker.security.quota_charge import charge_quota
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError, RecordsRefusedError
from tallymark.log.results import AppendInfo
from tallymark.net.server.handler import Answer, Connection
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.api import ApiKey
from tallymark.protocol.frames import RequestHeader, encode_response
from tallymark.protocol.messages import (
    ProduceRequest,
    ProduceResponse,
    ProduceResponseLeader,
    ProduceResponseNode,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from tallymark.protocol.topic_partition import OFFSETS_TOPIC
from tallymark.protocol.wire.produce import (
    Appended,
    Batches,
    PlainProduce,
    read_produce,
    write_produced,
)

log = logging.getLogger(__name__)

_FIRST_SERVED: Final = 3
_FIRST_WITH_ZSTD: Final = 7
_BY_THE_LOG: Final = frozenset(
    {
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "DUPLICATE_SEQUENCE_NUMBER",
        "INVALID_PRODUCER_EPOCH",
        "UNKNOWN_PRODUCER_ID",
    }
)
"""Errors that are answered with the log's start offset."""


class Refused(NamedTuple):
    """A partition to which nothing was appended, and the error."""

    partition: int
    error: KafkaError


Outcome: TypeAlias = Appended | Refused
Outcomes: TypeAlias = list[tuple[str, list[Outcome]]]
Place: TypeAlias = tuple[int, int]


class _Unready(NamedTuple):
    """A batch that waits for its turn in ``partition``."""

    partition: Partition
    appending: asyncio.Task[AppendInfo | KafkaError]


def handle(
    state: BrokerState, body: memoryview, header: RequestHeader, connection: Connection
) -> Answer | Awaitable[Answer]:
    """Append in the order of the request; every partition fails or succeeds by itself."""
    version = header.api_version
    request = read_produce(body, version) if version >= _FIRST_SERVED else _read_old(body, version)
    producing = _Producing(state, header, connection, request, len(body))
    producing.append(request.topics)
    if producing.unready or producing.unexposed:
        return producing.later(request.timeout_ms)
    return producing.answer()


class _Producing:
    """One request that is being handled. ``failed``: some partition was refused. By the (index of
    the topic, index of the partition) in the request: ``unready``, batches that are not appended
    yet; ``unexposed``, records that a producer with acks=-1 has to wait for."""

    def __init__(
        self,
        state: BrokerState,
        header: RequestHeader,
        connection: Connection,
        request: PlainProduce,
        size: int,
    ) -> None:
        self.unexposed: dict[Place, asyncio.Future[None]] = {}
        self.unready: dict[Place, _Unready] = {}
        self._acks = request.acks
        self._connection = connection
        self._failed = False
        self._header = header
        self._now_ms = state.now_ms()
        self._outcomes: list[tuple[str, list[Outcome]]] = []
        self._refused = _refusal(request, header.api_version)
        self._size = size
        self._state = state

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

    async def later(self, timeout_ms: int) -> Answer:
        """The answer when every batch is appended, and exposed where acks=-1 waits for that."""
        if self.unready:
            await self._ready()
        if self.unexposed:
            await self._expose(timeout_ms)
        return self.answer()

    def answer(self) -> Answer:
        """The whole frame; None with acks=0."""
        version, correlation_id = self._header.api_version, self._header.correlation_id
        throttle_ms = charge_quota(self._state.security, self._header, self._connection, self._size)
        if self._acks == 0:
            if self._failed:
                self._connection.finish()
            return None
        if self._failed or version < _FIRST_SERVED:
            return encode_response(self._response(throttle_ms), version, correlation_id)
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

    async def _expose(self, timeout_ms: int) -> None:
        """Wait until readers see the appended records, at most ``timeout_ms``; store an error in
        the outcome of a partition where they do not."""
        await asyncio.wait(self.unexposed.values(), timeout=max(0, timeout_ms) / 1000)
        for (topic, place), future in self.unexposed.items():
            error: BaseException | None
            if future.cancel():
                error = KafkaError(CODES["REQUEST_TIMED_OUT"], f"not flushed in {timeout_ms} ms")
            else:
                error = future.exception()
            if isinstance(error, KafkaError):
                done = self._outcomes[topic][1]
                done[place] = self._count_refused(done[place].partition, error)

    def _refuse(self, topic: str, index: int, error: KafkaError) -> Refused:
        self._log_refused(topic, index, error)
        return self._count_refused(index, error)

    def _count_refused(self, index: int, error: KafkaError) -> Refused:
        self._failed = True
        self._state.metrics.api(ApiKey.PRODUCE).failed(error.code)
        return Refused(index, error)

    def _response(self, throttle_ms: int) -> ProduceResponse:
        """The answer where some partition failed, with the addresses of other leaders."""
        nodes: dict[int, ProduceResponseNode] = {}
        topics = [
            ProduceResponseTopic(
                name=name,
                partition_responses=[
                    self._refusal_of(name, each, nodes)
                    if isinstance(each, Refused)
                    else ProduceResponsePartition(
                        index=each.partition,
                        base_offset=each.base_offset,
                        log_append_time_ms=each.log_append_time_ms,
                        log_start_offset=each.log_start_offset,
                    )
                    for each in partitions
                ],
            )
            for name, partitions in self._outcomes
        ]
        return ProduceResponse(
            responses=topics, throttle_time_ms=throttle_ms, node_endpoints=list(nodes.values())
        )

    def _refusal(self, topic: str) -> KafkaError | None:
        """The error for all partitions of a topic; None where it is not refused."""
        who = self._connection
        if not self._state.authorizer.may(who, Operation.WRITE, ResourceType.TOPIC, topic):
            return KafkaError(
                DENIED[ResourceType.TOPIC], f"{who.principal} may not write to {topic}"
            )
        if topic == OFFSETS_TOPIC:
            return KafkaError(CODES["INVALID_TOPIC_EXCEPTION"], f"{topic} is the brokers' own")
        return None

    def _append(
        self, topic: str, index: int, records: memoryview | bytes, place: Place
    ) -> Appended:
        partition = self._state.partitions.find(topic, index)
        if self._header.api_version < _FIRST_WITH_ZSTD and uses_zstd(records):
            raise KafkaError(CODES["UNSUPPORTED_COMPRESSION_TYPE"], f"{partition}: zstd")
        appending = partition.append_in_turn(records, self._now_ms)
        if appending is not None:
            self.unready[place] = _Unready(partition, appending)
            return Appended(index, -1, -1, -1)
        appended = partition.append(records, self._now_ms)
        return self._taken(partition, index, appended, place)

    def _taken(self, partition: Partition, index: int, info: AppendInfo, place: Place) -> Appended:
        if self._acks == -1:
            unexposed = partition.exposed(info.last_offset)
            if unexposed is not None:
                self.unexposed[place] = unexposed
        return Appended(index, info.first_offset, info.append_time_ms, partition.log.start_offset)

    def _refusal_of(
        self, topic: str, refused: Refused, nodes: dict[int, ProduceResponseNode]
    ) -> ProduceResponsePartition:
        index, error = refused
        partitions, listener = self._state.partitions, self._connection.listener
        leader = ProduceResponseLeader()
        hint = leader_hint(partitions, topic, index, error, listener)
        if hint is not None:
            leader = ProduceResponseLeader(hint.node.node_id, hint.epoch)
            nodes[hint.node.node_id] = ProduceResponseNode(
                node_id=hint.node.node_id, host=hint.node.host, port=hint.node.port
            )
        return ProduceResponsePartition(
            index=index,
            error_code=error.code,
            base_offset=-1,
            log_start_offset=self._log_start(topic, index, error),
            record_errors=_record_errors(error),
            error_message=error.context or error.text,  # the code says the rest
            current_leader=leader,
        )

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

    def _log_start(self, topic: str, index: int, error: KafkaError) -> int:
        """The log start offset if the log itself refused the batch for its content; -1 with other
        errors, as in Kafka."""
        partition = self._state.partitions.get(topic, index)
        if partition is None or error.name not in _BY_THE_LOG:
            return -1
        return partition.log.start_offset


def _record_errors(error: KafkaError) -> list[ProduceResponseRecordError]:
    """The records that caused the error (KIP-467)."""
    if not isinstance(error, RecordsRefusedError):
        return []
    return [ProduceResponseRecordError(at, why or None) for at, why in error.record_errors]


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
    if request.transactional_id is not None:
        return KafkaError(
            CODES["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"], "transactions are not served"
        )
    return None


def _read_old(body: memoryview, version: int) -> PlainProduce:
    request = decode_request(ProduceRequest, version, body)
    topics: list[Batches] = [
        (topic.name, [(part.index, None) for part in topic.partition_data])
        for topic in request.topic_data
    ]
    return PlainProduce(None, request.acks, request.timeout_ms, topics)


register_raw(ProduceRequest, handle)
