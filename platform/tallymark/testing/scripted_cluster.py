"""What a scripted broker has, topics and their logs, and its answers to all requests but Fetch.

They are those of a broker that does nothing else: nothing is refused that could be served, and
nothing is waited for. :class:`~tallymark.testing.scripted_broker.ScriptedBroker` refuses and waits.
"""

from __future__ import annotations

import threading
import uuid
from typing import Any, Final

from tallymark.net.addresses import parse_address
from tallymark.processes.free_ports import free_ports
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseKey,
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
    ProduceRequest,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from tallymark.protocol.records.batch import split_batches
from tallymark.protocol.schema import Message
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.testing.scripted_log import MemoryLog, find_time

_NODE: Final = 0


class ScriptedCluster:
    """See the module. A test changes the attributes as it likes; ``served`` are API versions."""

    def __init__(
        self, auto_create: int, served: dict[ApiKey, tuple[int, int]] | None, advertised: str
    ) -> None:
        self.advertised = advertised
        """``host:port`` where it says it listens; empty: where it does."""
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.cluster_id = "scripted"
        self.served = dict(ADVERTISED if served is None else served)
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.elsewhere: dict[TopicPartition, str] = {}
        """Partitions that another broker of the cluster leads, and its ``host:port``."""
        self._auto_create = auto_create
        self._next_producer_id = 1000
        self._lock = threading.RLock()
        self._port = free_ports(1)[0]

    # --- for the test -----------------------------------------------------------------------

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"127.0.0.1:{self._port}"

    def create(self, name: str, partitions: int) -> None:
        """Make the topic, with at least so many partitions."""
        if not partitions:
            return
        with self._lock:
            self.topic_ids.setdefault(name, uuid.uuid4())
            for index in range(partitions):
                self.logs.setdefault((name, index), MemoryLog())

    def log(self, topic: str, partition: int = 0) -> MemoryLog:
        """A partition's log."""
        return self.logs[topic, partition]

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """The values in a partition's log, in order."""
        with self._lock:
            return [record.value for record in self.log(topic, partition).records()]

    # --- answers ----------------------------------------------------------------------------

    def answer(self, request: Any, version: int, appends: bool, refused: int) -> Message:
        """The response to a request. ``appends``: batches are written; ``refused``: the error code
        that is answered, 0 for none. The caller holds the lock."""
        match request:
            case ProduceRequest():
                return self._produce(request, appends, refused)
            case MetadataRequest():
                return self._metadata(request, version, refused)
            case ListOffsetsRequest():
                return self._list_offsets(request, refused)
            case OffsetForLeaderEpochRequest():
                return self._epoch_ends(request, refused)
            case CreateTopicsRequest():
                return self._create_topics(request, refused)
            case DeleteTopicsRequest():
                return self._delete_topics(request)
            case _ if request.api_key is ApiKey.INIT_PRODUCER_ID:
                self._next_producer_id += 1
                return InitProducerIdResponse(
                    error_code=refused, producer_id=self._next_producer_id
                )
            case _:
                return self.api_versions()

    def api_versions(self) -> ApiVersionsResponse:
        """The versions in ``served``."""
        keys = (
            ApiVersionsResponseKey(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.served.items()
        )
        return ApiVersionsResponse(api_keys=tuple(keys))

    def _metadata(self, request: MetadataRequest, version: int, refused: int) -> MetadataResponse:
        names = [topic.name or "" for topic in request.topics or ()]
        if request.topics is None:
            names = sorted(self.topic_ids)
        if request.allow_auto_topic_creation and not refused:
            for name in names:
                if name not in self.topic_ids:
                    self.create(name, self._auto_create)
        places = [self.advertised or self.address, *sorted(set(self.elsewhere.values()))]
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(node_id=_NODE + n, host=where.host, port=where.port)
                for n, where in enumerate(map(parse_address, places))
            ),
            cluster_id=self.cluster_id,
            controller_id=_NODE,
            topics=tuple(self._topic(name, refused) for name in names),
        )

    def _topic(self, name: str, refused: int) -> MetadataResponseTopic:
        if refused or name not in self.topic_ids:
            return MetadataResponseTopic(error_code=refused or 3, name=name)
        parts = tuple(
            MetadataResponsePartition(
                partition_index=index,
                leader_id=self._leader((topic, index)),
                leader_epoch=log.epochs[-1][0],
                replica_nodes=(_NODE,),
                isr_nodes=(_NODE,),
            )
            for (topic, index), log in sorted(self.logs.items())
            if topic == name
        )
        return MetadataResponseTopic(name=name, topic_id=self.topic_ids[name], partitions=parts)

    def _leader(self, place: TopicPartition) -> int:
        others = sorted(set(self.elsewhere.values()))
        return _NODE + 1 + others.index(self.elsewhere[place]) if place in self.elsewhere else _NODE

    def _produce(self, request: ProduceRequest, appends: bool, refused: int) -> ProduceResponse:
        topics: list[ProduceResponseTopic] = []
        for topic in request.topic_data:
            answers: list[ProduceResponsePartition] = []
            for part in topic.partition_data:
                log = self.logs.get((topic.name, part.index))
                code, offset = (3, -1) if log is None else (0, -1)
                if log is not None and appends:
                    for batch in split_batches(part.records or b""):
                        code, offset = log.append(batch)
                answers.append(
                    ProduceResponsePartition(
                        index=part.index, error_code=refused or code, base_offset=offset
                    )
                )
            topics.append(ProduceResponseTopic(name=topic.name, partition_responses=answers))
        return ProduceResponse(responses=topics)

    def _list_offsets(self, request: ListOffsetsRequest, refused: int) -> ListOffsetsResponse:
        topics: list[ListOffsetsResponseTopic] = []
        for topic in request.topics:
            answers: list[ListOffsetsResponsePartition] = []
            for part in topic.partitions:
                log = self.logs.get((topic.name, part.partition_index))
                code = refused or (3 if log is None else 0)
                offset, timestamp = (-1, -1) if log is None else find_time(log, part.timestamp)
                answers.append(
                    ListOffsetsResponsePartition(
                        partition_index=part.partition_index,
                        error_code=code,
                        timestamp=timestamp,
                        offset=offset,
                        leader_epoch=-1 if log is None else log.epochs[-1][0],
                    )
                )
            topics.append(ListOffsetsResponseTopic(name=topic.name, partitions=answers))
        return ListOffsetsResponse(topics=topics)

    def _epoch_ends(
        self, request: OffsetForLeaderEpochRequest, refused: int
    ) -> OffsetForLeaderEpochResponse:
        topics: list[OffsetForLeaderEpochResponseTopic] = []
        for topic in request.topics:
            answers: list[OffsetForLeaderEpochResponsePartition] = []
            for part in topic.partitions:
                log = self.logs[topic.topic, part.partition]
                now = log.epochs[-1][0]
                known = part.current_leader_epoch
                stale = 0 if known in (-1, now) else 74 if known < now else 75
                epoch, end = log.epoch_end(part.leader_epoch)
                answers.append(
                    OffsetForLeaderEpochResponsePartition(
                        error_code=refused or stale,
                        partition=part.partition,
                        leader_epoch=epoch,
                        end_offset=end,
                    )
                )
            topics.append(OffsetForLeaderEpochResponseTopic(topic=topic.topic, partitions=answers))
        return OffsetForLeaderEpochResponse(topics=topics)

    def _create_topics(self, request: CreateTopicsRequest, refused: int) -> CreateTopicsResponse:
        answers: list[CreateTopicsResponseTopic] = []
        for topic in request.topics:
            code = refused or (36 if topic.name in self.topic_ids else 0)
            if not code:
                self.create(topic.name, topic.num_partitions)
            answers.append(CreateTopicsResponseTopic(name=topic.name, error_code=code))
        return CreateTopicsResponse(topics=answers)

    def _delete_topics(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        names = [topic.name or "" for topic in request.topics] or list(request.topic_names)
        answers: list[DeleteTopicsResponseTopic] = []
        for name in names:
            code = 0 if self.topic_ids.pop(name, None) else 3
            self.logs = {key: log for key, log in self.logs.items() if key[0] != name}
            answers.append(DeleteTopicsResponseTopic(name=name, error_code=code))
        return DeleteTopicsResponse(responses=answers)
