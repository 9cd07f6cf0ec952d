"""A leader that answers Fetch and ListOffsets of followers from real logs in memory, by the rules
of :mod:`tallymark.replication.truncation`. A test breaks its connections and changes answers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from itertools import count
from typing import Any, TypeAlias

from tallymark.errors import CODES
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
from tallymark.protocol.schema import Message
from tallymark.protocol.topic_partition import EARLIEST
from tallymark.replication.truncation import diverging
from tallymark.testing.memory_connections import MemoryConnections
from tallymark.testing.memory_files import MemoryFiles

Change: TypeAlias = Callable[[FetchResponsePartition], FetchResponsePartition]
Key: TypeAlias = tuple[uuid.UUID, int]


class LeadersLog:
    """One partition as its leader has it. ``error`` is answered to Fetch and ``range_error`` to
    ListOffsets while it is set; ``change`` is applied to each answer to Fetch."""

    def __init__(self, name: str, topic_id: uuid.UUID, epoch: int = 0, index: int = 0) -> None:
        manager = LogManager.open(
            MemoryFiles(), ["/l"], LogConfig(retention_ms=-1), broker_id=9, now_ms=0, cluster_id="c"
        )
        self.name = name
        self.topic_id = topic_id
        self.index = index
        self.log: Log = manager.create(name, index, topic_id, 0)
        self.epoch = epoch
        self.high_watermark = 0
        self.error = 0
        self.range_error = 0
        self.change: Change = lambda answer: answer

    def answer(self, ask: FetchRequestPartition) -> FetchResponsePartition:
        """What it says to a follower."""
        code, found, at = self.error, self.log, ask.fetch_offset
        if not code and ask.current_leader_epoch != self.epoch:
            older = ask.current_leader_epoch < self.epoch
            code = CODES["FENCED_LEADER_EPOCH" if older else "UNKNOWN_LEADER_EPOCH"]
        parted = diverging(found.epochs, found.end_offset, ask.last_fetched_epoch, at)
        if not code and parted is None and not found.start_offset <= at <= found.end_offset:
            code = CODES["OFFSET_OUT_OF_RANGE"]
        told, records = FetchResponseEpochEndOffset(), b""
        if not code and parted is not None:
            told = FetchResponseEpochEndOffset(*parted)
        elif not code:
            records = bytes(found.read(at, ask.partition_max_bytes).read())
        return self.change(
            FetchResponsePartition(
                partition_index=self.index,
                error_code=code,
                high_watermark=self.high_watermark,
                log_start_offset=found.start_offset,
                diverging_epoch=told,
                records=records,
            )
        )


class ScriptedLeader:
    """Broker ``id``; ``connections`` lead to it. ``fetches`` are those that came, in order;
    ``at_fetch`` is called with each before it is answered. ``refusal`` is the error of all
    answers."""

    def __init__(self, broker: int = 1) -> None:
        self.id = broker
        self.connections = MemoryConnections({broker: self.answered})
        self.logs: dict[Key, LeadersLog] = {}
        self.fetches: list[FetchRequest] = []
        self.at_fetch: Callable[[FetchRequest], Any] = lambda request: None
        self.refusal = 0
        self._sessions: dict[int, dict[Key, FetchRequestPartition]] = {}
        self._told: dict[int, dict[Key, tuple[int, int]]] = {}
        self._ids = count(7)

    def lead(self, log: LeadersLog) -> None:
        """Answer for this partition, too."""
        self.logs[log.topic_id, log.index] = log

    async def die(self) -> None:
        """No process listens any more."""
        self.connections.refusing.add(self.id)
        await self.connections.break_all(self.id)

    def live(self) -> None:
        """It listens again; of sessions it knows nothing."""
        self.forget_sessions()
        self.connections.refusing.discard(self.id)

    def forget_sessions(self) -> None:
        self._sessions.clear()

    async def answered(self, request: Any) -> Message:
        if isinstance(request, ListOffsetsRequest):
            return self._offsets(request)
        assert isinstance(request, FetchRequest)
        self.fetches.append(request)
        self.at_fetch(request)
        if self.refusal:
            return FetchResponse(error_code=self.refusal)
        session_id = request.session_id if request.session_epoch else next(self._ids)
        if request.session_epoch and session_id not in self._sessions:
            return FetchResponse(error_code=CODES["FETCH_SESSION_ID_NOT_FOUND"])
        session = self._session(session_id, request)
        return await self._when_there_is_something(request, session_id, session)

    async def _when_there_is_something(
        self, request: FetchRequest, session_id: int, session: dict[Key, FetchRequestPartition]
    ) -> FetchResponse:
        loop = asyncio.get_running_loop()
        until = loop.time() + request.max_wait_ms / 1000
        while True:
            found = {key: self.logs[key].answer(ask) for key, ask in session.items()}
            if request.session_epoch:  # an incremental answer has what there is to tell
                told = self._told[session_id]
                found = {
                    key: one
                    for key, one in found.items()
                    if one.records
                    or one.error_code
                    or one.diverging_epoch.epoch >= 0
                    or told.get(key) != (one.high_watermark, one.log_start_offset)
                }
            if loop.time() >= until or any(
                one.records
                or one.error_code
                or one.diverging_epoch.epoch >= 0
                or one.high_watermark != session[key].high_watermark
                for key, one in found.items()
            ):
                break
            await asyncio.sleep(0.001)
        told = self._told.setdefault(session_id, {})
        told |= {key: (one.high_watermark, one.log_start_offset) for key, one in found.items()}
        topics: dict[uuid.UUID, list[FetchResponsePartition]] = {}
        for (topic_id, _), one in found.items():
            topics.setdefault(topic_id, []).append(one)
        return FetchResponse(
            session_id=session_id,
            responses=[
                FetchResponseTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )

    def _session(self, session_id: int, request: FetchRequest) -> dict[Key, FetchRequestPartition]:
        session = self._sessions.setdefault(session_id, {})
        for topic in request.topics:
            for one in topic.partitions:
                session[topic.topic_id, one.partition] = one
                self._told.get(session_id, {}).pop((topic.topic_id, one.partition), None)
        for gone in request.forgotten_topics_data:
            for index in gone.partitions:
                del session[gone.topic_id, index]
        return session

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topic = request.topics[0]
        index = topic.partitions[0].partition_index
        one = next(
            each for each in self.logs.values() if (each.name, each.index) == (topic.name, index)
        )
        earliest = topic.partitions[0].timestamp == EARLIEST
        offset = one.log.start_offset if earliest else one.log.end_offset
        found = ListOffsetsResponsePartition(
            partition_index=index, error_code=one.range_error, offset=offset
        )
        return ListOffsetsResponse(
            topics=[ListOffsetsResponseTopic(name=topic.name, partitions=[found])]
        )
