"""One round of a fetch: read every partition asked for, within the byte limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from tallymark.broker.batches import uses_zstd
from tallymark.broker.leaders import leader_hint
from tallymark.broker.partition import Partition, first_header
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import (
    FetchRequest,
    FetchRequestPartition,
    FetchResponse,
    FetchResponseAbortedTransaction,
    FetchResponseLeader,
    FetchResponseNode,
    FetchResponsePartition,
    FetchResponseTopic,
)
from tallymark.protocol.schema import Buffer

_FIRST_WITH_ZSTD: Final = 10
_FIRST_WITH_IDS: Final = 13
_READ_COMMITTED: Final = 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """One partition of a request: the partition, or why there is none."""

    topic: str
    ask: FetchRequestPartition
    found: Partition | KafkaError


def resolve(state: BrokerState, request: FetchRequest, version: int) -> list[Wanted]:
    """Find what the request names, in its order."""
    wanted: list[Wanted] = []
    for topic in request.topics:
        name, unknown = topic.topic, None
        if version >= _FIRST_WITH_IDS:
            try:
                name = state.partitions.name_of(topic.topic_id)
            except KafkaError as error:
                unknown = error
        for ask in topic.partitions:
            found = unknown or _find(state, name, ask.partition)
            wanted.append(Wanted(name, ask, found))
    return wanted


def _find(state: BrokerState, topic: str, index: int) -> Partition | KafkaError:
    try:
        return state.partitions.find(topic, index)
    except KafkaError as error:
        return error


@dataclass(slots=True)
class FetchRound:
    """Reads on construction. ``complete``: the answer need not wait for more."""

    state: BrokerState
    request: FetchRequest
    version: int
    wanted: Sequence[Wanted]
    complete: bool = False
    _size: int = 0
    _answers: list[FetchResponsePartition] = field(default_factory=list[FetchResponsePartition])
    _nodes: dict[int, FetchResponseNode] = field(default_factory=dict[int, FetchResponseNode])

    def __post_init__(self) -> None:
        limit = min(self.request.max_bytes, self.state.settings.fetch_max_bytes)
        for item in self.wanted:
            try:
                self._answers.append(self._read(item, limit - self._size))
            except KafkaError as error:
                self._answers.append(self._failed(item, error))
                self.complete = True
        if self._size >= self.request.min_bytes or not self.wanted:
            self.complete = True

    def response(self) -> FetchResponse:
        """The answer, with the partitions in the order of the request."""
        answers = iter(self._answers)
        return FetchResponse(
            responses=[
                FetchResponseTopic(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[next(answers) for _ in topic.partitions],
                )
                for topic in self.request.topics
            ],
            node_endpoints=list(self._nodes.values()),
        )

    def _read(self, item: Wanted, room: int) -> FetchResponsePartition:
        partition, ask = item.found, item.ask
        if isinstance(partition, KafkaError):
            raise partition
        partition.check_epoch(ask.current_leader_epoch)
        # Only the first batch of the whole answer may be larger than asked for (KIP-74).
        found = partition.log.read(
            ask.fetch_offset,
            max(0, min(ask.partition_max_bytes, room)),
            min_one=self._size == 0,
        )
        if self.version < _FIRST_WITH_ZSTD and uses_zstd(first_header(found.data)):
            raise KafkaError(CODES["UNSUPPORTED_COMPRESSION_TYPE"], f"{partition}: zstd")
        self._size += len(found)
        return FetchResponsePartition(
            partition_index=ask.partition,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.log.last_stable_offset,
            log_start_offset=partition.log.start_offset,
            aborted_transactions=self._aborted(),
            # A slice of a file stands for its bytes until they are written to the socket.
            records=cast(Buffer, found.data),
        )

    def _failed(self, item: Wanted, error: KafkaError) -> FetchResponsePartition:
        leader = FetchResponseLeader()
        hint = leader_hint(self.state.partitions, item.topic, item.ask.partition, error)
        if hint is not None:
            leader = FetchResponseLeader(hint.node.node_id, hint.epoch)
            self._nodes[hint.node.node_id] = FetchResponseNode(
                node_id=hint.node.node_id, host=hint.node.host, port=hint.node.port
            )
        return FetchResponsePartition(
            partition_index=item.ask.partition,
            error_code=error.code,
            high_watermark=-1,
            current_leader=leader,
            aborted_transactions=self._aborted(),
            records=b"",
        )

    def _aborted(self) -> Sequence[FetchResponseAbortedTransaction] | None:
        """Null for a reader who did not ask for committed records only."""
        return () if self.request.isolation_level == _READ_COMMITTED else None
