"""A leader that answers Fetch and ListOffsets of followers from a real log in memory, by the rules
of :mod:`tallymark.replication.truncation`. A test breaks its connections and changes answers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from tallymark.errors import CODES, ConnectError
from tallymark.log import Log, LogConfig, LogManager
from tallymark.protocol.messages import (
    FetchRequest,
    FetchRequestPartition,
    FetchResponse,
    FetchResponseEpochEndOffset,
    FetchResponsePartition,
    FetchResponseTopic,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from tallymark.protocol.messages.k02_list_offsets import (
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from tallymark.protocol.topic_partition import EARLIEST
from tallymark.replication.truncation import diverging
from tallymark.testing.memory_files import MemoryFiles

Change = Callable[[FetchResponsePartition], FetchResponsePartition]


class LeadersLog:
    """One partition as its leader has it. ``error`` is answered while it is set."""

    def __init__(self, name: str, topic_id: uuid.UUID, epoch: int = 0) -> None:
        manager = LogManager.open(
            MemoryFiles(), ["/l"], LogConfig(retention_ms=-1), broker_id=9, now_ms=0, cluster_id="c"
        )
        self.name = name
        self.topic_id = topic_id
        self.log: Log = manager.create(name, 0, topic_id, 0)
        self.epoch = epoch
        self.high_watermark = 0
        self.error = 0
        self.change: Change = lambda answer: answer


class ScriptedLeader:
    """Broker ``id`` and its connections. ``refused``: none can be opened. ``fetches`` are those
    that came, in order; ``at_fetch`` is called with each before it is answered."""

    def __init__(self, broker: int = 1) -> None:
        self.id = broker
        self.logs: dict[uuid.UUID, LeadersLog] = {}
        self.refused = False
        self.fetches: list[FetchRequest] = []
        self.at_fetch: Callable[[FetchRequest], Any] = lambda request: None
        self.opened = 0
        self._sessions: dict[int, dict[uuid.UUID, FetchRequestPartition]] = {}

    async def open(self, broker: int) -> ScriptedLeader:
        assert broker == self.id
        if self.refused:
            raise ConnectError("leader:9", "connect", "refused")
        self.opened += 1
        return self

    async def close(self) -> None:
        self._sessions.clear()

    def version_of(self, request_class: type[Any]) -> int:
        return 16

    closed = False

    def brokers_changed(self, brokers: Any) -> None:
        """It stays where it is."""

    async def is_refused(self, broker: int) -> bool:
        return self.refused

    async def send(self, message: Any, timeout_ms: int) -> Any:
        await asyncio.sleep(0)
        if self.refused:
            raise ConnectError("leader:9", "request", "the connection broke")
        if isinstance(message, ListOffsetsRequest):
            return self._offsets(message)
        assert isinstance(message, FetchRequest)
        self.fetches.append(message)
        self.at_fetch(message)
        return self._fetched(message)

    def _fetched(self, request: FetchRequest) -> FetchResponse:
        session = self._session(request)
        if session is None:
            return FetchResponse(error_code=CODES["FETCH_SESSION_ID_NOT_FOUND"])
        topics = [
            FetchResponseTopic(topic_id=topic_id, partitions=[self._answer(topic_id, ask)])
            for topic_id, ask in session.items()
        ]
        if request.session_epoch:  # an incremental answer has what there is to tell
            topics = [
                topic
                for topic in topics
                if topic.partitions[0].records
                or topic.partitions[0].error_code
                or topic.partitions[0].diverging_epoch.epoch >= 0
                or topic.partitions[0].high_watermark != session[topic.topic_id].high_watermark
            ]
        return FetchResponse(session_id=7, responses=topics)

    def _session(self, request: FetchRequest) -> dict[uuid.UUID, FetchRequestPartition] | None:
        asked = {topic.topic_id: topic.partitions[0] for topic in request.topics}
        if request.session_epoch == 0:
            self._sessions = {7: asked}
        elif request.session_id not in self._sessions:
            return None
        else:
            self._sessions[7] |= asked
            for gone in request.forgotten_topics_data:
                del self._sessions[7][gone.topic_id]
        return self._sessions[7]

    def _answer(self, topic_id: uuid.UUID, ask: FetchRequestPartition) -> FetchResponsePartition:
        one = self.logs[topic_id]
        code = one.error
        if not code and ask.current_leader_epoch != one.epoch:
            older = ask.current_leader_epoch < one.epoch
            code = CODES["FENCED_LEADER_EPOCH" if older else "UNKNOWN_LEADER_EPOCH"]
        found, at = one.log, ask.fetch_offset
        parted = diverging(found.epochs, found.end_offset, ask.last_fetched_epoch, at)
        if not code and parted is None and not found.start_offset <= at <= found.end_offset:
            code = CODES["OFFSET_OUT_OF_RANGE"]
        answer = FetchResponsePartition(
            partition_index=0,
            error_code=code,
            high_watermark=one.high_watermark,
            log_start_offset=found.start_offset,
        )
        if not code and parted is not None:
            told = FetchResponseEpochEndOffset(parted.epoch, parted.end)
            answer = FetchResponsePartition(
                partition_index=0, high_watermark=one.high_watermark, diverging_epoch=told
            )
        elif not code:
            records = found.read(at, ask.partition_max_bytes).read()
            answer = FetchResponsePartition(
                partition_index=0,
                high_watermark=one.high_watermark,
                log_start_offset=found.start_offset,
                records=bytes(records),
            )
        return one.change(answer)

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topic = request.topics[0]
        one = next(each for each in self.logs.values() if each.name == topic.name)
        earliest = topic.partitions[0].timestamp == EARLIEST
        offset = one.log.start_offset if earliest else one.log.end_offset
        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponseTopic(
                    name=topic.name,
                    partitions=[ListOffsetsResponsePartition(partition_index=0, offset=offset)],
                )
            ]
        )
