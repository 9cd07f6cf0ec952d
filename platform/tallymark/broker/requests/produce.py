"""What one Produce request does to the partitions it names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from tallymark.broker.partitions.leader_hint import leader_hint
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.partitions.producible import uses_zstd
from tallymark.broker.security.authorizer import DENIED
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError, RecordsRefusedError
from tallymark.log.results import AppendInfo
from tallymark.net.server.handler import Connection
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.api import ApiKey
from tallymark.protocol.messages import (
    ProduceResponse,
    ProduceResponseLeader,
    ProduceResponseNode,
    ProduceResponsePartition,
    ProduceResponseRecordError,
    ProduceResponseTopic,
)
from tallymark.protocol.topic_partition import OFFSETS_TOPIC
from tallymark.protocol.wire.produce import Appended, Batches

log = logging.getLogger(__name__)

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
    """A partition that got nothing, and why."""

    partition: int
    error: KafkaError


Outcome: TypeAlias = Appended | Refused
Outcomes: TypeAlias = list[tuple[str, list[Outcome]]]
Place: TypeAlias = tuple[int, int]


class _Unready(NamedTuple):
    """A batch that waits for its turn in ``partition``."""

    partition: Partition
    appending: asyncio.Task[AppendInfo | KafkaError]


class Producing:
    """One request under way. ``failed``: some partition was refused. By (topic's place, partition's
    place) in the request: ``unready``, batches that are not appended yet; ``unexposed``, records
    that a producer with acks=-1 has to wait for."""

    __slots__ = (
        "_now_ms",
        "_refused",
        "_state",
        "_version",
        "acks",
        "connection",
        "failed",
        "unexposed",
        "unready",
    )

    def __init__(
        self,
        state: BrokerState,
        connection: Connection,
        version: int,
        acks: int,
        refused: KafkaError | None,
    ) -> None:
        self.acks = acks
        self.connection = connection
        self.failed = False
        self.unexposed: dict[Place, asyncio.Future[None]] = {}
        self.unready: dict[Place, _Unready] = {}
        self._state = state
        self._version = version
        self._refused = refused
        self._now_ms = state.now_ms()

    def append(self, topics: Sequence[Batches]) -> Outcomes:
        """Append in the order of the request."""
        seen: set[tuple[str, int]] = set()
        single = len(topics) == 1 and len(topics[0][1]) == 1
        outcomes: Outcomes = []
        for name, partitions in topics:
            refused = self._refused or self._refusal(name)
            done: list[Outcome] = []
            outcomes.append((name, done))
            for index, records in partitions:
                try:
                    if refused is not None:
                        raise refused
                    if not single:
                        _see(seen, name, index)
                    place = (len(outcomes) - 1, len(done))
                    done.append(self._append(name, index, records or b"", place))
                except KafkaError as error:
                    done.append(Refused(index, error))
                    self._refused_one(error)
                    self._tell(name, index, error)
        return outcomes

    async def ready(self, outcomes: Outcomes) -> None:
        """Wait until the batches that are :attr:`unready` are appended; put what became of each
        into the outcomes. Whoever stops waiting does not stop them."""
        await asyncio.wait([each.appending for each in self.unready.values()])
        for (topic, place), (partition, appending) in self.unready.items():
            name, done = outcomes[topic]
            index, outcome = done[place].partition, appending.result()
            try:
                if isinstance(outcome, KafkaError):
                    raise outcome
                done[place] = self._taken(partition, index, outcome, (topic, place))
            except KafkaError as error:
                done[place] = Refused(index, error)
                self._refused_one(error)
                self._tell(name, index, error)

    async def expose(self, timeout_ms: int, outcomes: Sequence[tuple[str, list[Outcome]]]) -> None:
        """Wait until readers see what was appended, at most ``timeout_ms``; put the error into the
        outcome of a partition where they do not."""
        await asyncio.wait(self.unexposed.values(), timeout=max(0, timeout_ms) / 1000)
        for (topic, partition), future in self.unexposed.items():
            error: BaseException | None
            if future.cancel():
                error = KafkaError(CODES["REQUEST_TIMED_OUT"], f"not flushed in {timeout_ms} ms")
            else:
                error = future.exception()
            if isinstance(error, KafkaError):
                self._refused_one(error)
                done = outcomes[topic][1]
                done[partition] = Refused(done[partition].partition, error)

    def _refused_one(self, error: KafkaError) -> None:
        self.failed = True
        self._state.metrics.api(ApiKey.PRODUCE).failed(error.code)

    def response(self, outcomes: Sequence[tuple[str, list[Outcome]]]) -> ProduceResponse:
        """The answer, where some partition failed; with the addresses of other leaders."""
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
            for name, partitions in outcomes
        ]
        return ProduceResponse(responses=topics, node_endpoints=list(nodes.values()))

    def _refusal(self, topic: str) -> KafkaError | None:
        """Why a topic as a whole is refused."""
        who = self.connection
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
        if self._version < _FIRST_WITH_ZSTD and uses_zstd(records):
            raise KafkaError(CODES["UNSUPPORTED_COMPRESSION_TYPE"], f"{partition}: zstd")
        appending = partition.append_in_turn(records, self._now_ms)
        if appending is not None:
            self.unready[place] = _Unready(partition, appending)
            return Appended(index, -1, -1, -1)
        appended = partition.append(records, self._now_ms)
        return self._taken(partition, index, appended, place)

    def _taken(
        self, partition: Partition, index: int, appended: AppendInfo, place: Place
    ) -> Appended:
        if self.acks == -1:
            unexposed = partition.exposed(appended.last_offset)
            if unexposed is not None:
                self.unexposed[place] = unexposed
        return Appended(
            index, appended.first_offset, appended.append_time_ms, partition.log.start_offset
        )

    def _refusal_of(
        self, topic: str, refused: Refused, nodes: dict[int, ProduceResponseNode]
    ) -> ProduceResponsePartition:
        index, error = refused
        partitions, listener = self._state.partitions, self.connection.listener
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

    def _tell(self, topic: str, index: int, error: KafkaError) -> None:
        """In the log: what is our fault once in a while, since its client tries again at once."""
        if error.fault != "broker":
            log.debug("produce refused partition=%s-%d: %s", topic, index, error)
            return
        key = error.name, getattr(error.__cause__, "errno", None)
        held = self._state.refusals.passes(key)
        if held is not None:
            log.error("produce refused partition=%s-%d: %s; repeated=%d", topic, index, error, held)

    def _log_start(self, topic: str, index: int, error: KafkaError) -> int:
        """Where the log begins, where the log itself refused the batch for what is in it; -1 with
        the other errors, as from Kafka."""
        partition = self._state.partitions.get(topic, index)
        if partition is None or error.name not in _BY_THE_LOG:
            return -1
        return partition.log.start_offset


def _record_errors(error: KafkaError) -> list[ProduceResponseRecordError]:
    """The records that are to blame (KIP-467)."""
    if not isinstance(error, RecordsRefusedError):
        return []
    return [ProduceResponseRecordError(at, why or None) for at, why in error.record_errors]


def _see(seen: set[tuple[str, int]], topic: str, index: int) -> None:
    if (topic, index) in seen:
        raise KafkaError(CODES["INVALID_REQUEST"], f"{topic}-{index} is named twice")
    seen.add((topic, index))
