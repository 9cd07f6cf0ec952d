"""What one Produce request does to the partitions it names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from tallymark.broker.authorizer import DENIED, Operation, ResourceType
from tallymark.broker.batches import uses_zstd
from tallymark.broker.leaders import leader_hint
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.groups.placement import OFFSETS_TOPIC
from tallymark.net import ServerConnection
from tallymark.protocol.api import ApiKey
from tallymark.protocol.messages import (
    ProduceResponse,
    ProduceResponseLeader,
    ProduceResponseNode,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from tallymark.protocol.produce_wire import Appended, Batches

log = logging.getLogger(__name__)

_FIRST_WITH_ZSTD: Final = 7


class Refused(NamedTuple):
    """A partition that got nothing, and why."""

    partition: int
    error: KafkaError


Outcome: TypeAlias = Appended | Refused


class Producing:
    """One request under way. ``failed``: some partition was refused. ``unexposed``: records that a
    producer with acks=-1 has to wait for, by (topic's place, partition's place) in the request."""

    __slots__ = (
        "_now_ms",
        "_refused",
        "_state",
        "_version",
        "acks",
        "connection",
        "failed",
        "unexposed",
    )

    def __init__(
        self,
        state: BrokerState,
        connection: ServerConnection,
        version: int,
        acks: int,
        refused: KafkaError | None,
    ) -> None:
        self.acks = acks
        self.connection = connection
        self.failed = False
        self.unexposed: dict[tuple[int, int], asyncio.Future[None]] = {}
        self._state = state
        self._version = version
        self._refused = refused
        self._now_ms = state.now_ms()

    def append(self, topics: Sequence[Batches]) -> list[tuple[str, list[Outcome]]]:
        """Append in the order of the request."""
        seen: set[tuple[str, int]] = set()
        single = len(topics) == 1 and len(topics[0][1]) == 1
        outcomes: list[tuple[str, list[Outcome]]] = []
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
                    _tell(name, index, error)
        return outcomes

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
        self, topic: str, index: int, records: memoryview | bytes, place: tuple[int, int]
    ) -> Appended:
        partition = self._state.partitions.find(topic, index)
        if self._version < _FIRST_WITH_ZSTD and uses_zstd(records):
            raise KafkaError(CODES["UNSUPPORTED_COMPRESSION_TYPE"], f"{partition}: zstd")
        appended = partition.append(records, self._now_ms)
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
            error_message=error.context or error.text,  # the code says the rest
            current_leader=leader,
        )


def _see(seen: set[tuple[str, int]], topic: str, index: int) -> None:
    if (topic, index) in seen:
        raise KafkaError(CODES["INVALID_REQUEST"], f"{topic}-{index} is named twice")
    seen.add((topic, index))


def _tell(topic: str, index: int, error: KafkaError) -> None:
    log.log(
        logging.ERROR if error.fault == "broker" else logging.DEBUG,
        "produce refused partition=%s-%d: %s",
        topic,
        index,
        error,
    )
