"""A broker in this process that does what a test says: refuse, forget, be late, hang up.

It speaks the real protocol over a real socket and keeps its log in memory. Unlike a real broker
a test sets, request by request, what it answers::

    with ScriptedBroker(topics={"t": 2}) as broker:
        broker.script(ApiKey.PRODUCE, Refuse(6), HangUp(after_append=True), Late(0.2))
        producer = Producer(bootstrap_servers=broker.address)

The n-th request of a kind meets the n-th action; without one it is served as it should be. What a
broker checks it checks too: CRC, and the sequences of idempotent producers (KIP-98).
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import defaultdict, deque
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from tallymark.client.core.io_thread import IoThread
from tallymark.net.addresses import parse_address
from tallymark.net.server.handler import Connection
from tallymark.net.server.server import Server
from tallymark.protocol import frames
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.protocol.codec import decode
from tallymark.protocol.frames import RequestHeader
from tallymark.protocol.messages import (
    REQUEST_CLASSES,
    ApiVersionsResponse,
    ApiVersionsResponseKey,
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResponseTopic,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
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
from tallymark.testing.scripted_log import MemoryLog, find_time, read_partition

_NODE: Final = 0
_POLL: Final = 0.01


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an error code (Produce, Fetch, ListOffsets: for every partition asked for).
    ``after_append`` appends the batches all the same."""

    code: int
    after_append: bool = False


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close the connection instead of answering."""

    after_append: bool = False


@dataclass(frozen=True, slots=True)
class Late:
    """Serve it, but answer only after ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Serve:
    """Serve it as it should be."""


Action: TypeAlias = Refuse | HangUp | Late | Serve


class ScriptedBroker:
    """See the module's text. ``topics`` maps names to numbers of partitions; others are made when
    asked for, with ``auto_create`` partitions (0: never). ``served`` overrides the API versions."""

    def __init__(
        self,
        topics: dict[str, int] | None = None,
        *,
        auto_create: int = 1,
        served: dict[ApiKey, tuple[int, int]] | None = None,
        advertised: str = "",
    ) -> None:
        self.advertised = advertised
        """``host:port`` where it says it listens; empty: where it does."""
        self.requests: list[tuple[ApiKey, int, Any]] = []
        """Every request: API, version, message."""
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.cluster_id = "scripted"
        self.served = dict(ADVERTISED if served is None else served)
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.elsewhere: dict[TopicPartition, str] = {}
        """Partitions that another broker of the cluster leads, and its ``host:port``."""
        self._auto_create = auto_create
        self._actions: defaultdict[ApiKey, deque[Action]] = defaultdict(deque)
        self._next_producer_id = 1000
        self._lock = threading.RLock()
        self._io = IoThread("scripted broker")
        self._server = Server(self._handle)
        self._port = 0
        for name, partitions in (topics or {}).items():
            self.create(name, partitions)

    # --- for the test -----------------------------------------------------------------------

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"127.0.0.1:{self._port}"

    def script(self, api: ApiKey, *actions: Action) -> None:
        """What to do with the next requests of a kind, in order."""
        with self._lock:
            self._actions[api].extend(actions)

    def unscript(self, api: ApiKey) -> None:
        """From now on requests of a kind are served, whatever was still to be done with them."""
        with self._lock:
            self._actions[api].clear()

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

    def count(self, api: ApiKey) -> int:
        """How many requests of a kind have come."""
        return sum(1 for key, _, _ in self.requests if key is api)

    def stop(self) -> None:
        """Stop like a process that is killed; the log stays."""
        self._io.finish(self._server.stop(grace=0.0), 10)

    def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        self._server = Server(self._handle)
        self._io.run(self._server.start("127.0.0.1", self._port), 10)
        self._port = self._server.address.port

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._io.stop()

    # --- requests ---------------------------------------------------------------------------

    async def _handle(
        self, header: RequestHeader, body: memoryview, connection: Connection
    ) -> bytes | None:
        api, version = ApiKey(header.api_key), header.api_version
        if api is ApiKey.API_VERSIONS and version > self.served[api][1]:
            refusal = self._api_versions()
            refusal = ApiVersionsResponse(error_code=35, api_keys=refusal.api_keys)
            return frames.encode_response(refusal, 0, header.correlation_id)
        request = decode(REQUEST_CLASSES[api], version, body)
        with self._lock:
            self.requests.append((api, version, request))
            actions = self._actions[api]
            action = actions.popleft() if actions else Serve()
        appends = not isinstance(action, Refuse | HangUp) or action.after_append
        refused = action.code if isinstance(action, Refuse) else 0
        response: Message | None = None
        if appends or refused:
            with self._lock:
                response = self._serve(request, version, appends, refused)
        if isinstance(action, HangUp) or response is None:
            connection.abort()
            return None
        if isinstance(action, Late):
            await asyncio.sleep(action.seconds)
        if isinstance(request, FetchRequest) and not refused:
            response = await self._poll(request, version, response)
        if isinstance(request, ProduceRequest) and request.acks == 0:
            return None
        return frames.encode_response(response, version, header.correlation_id)

    def _serve(self, request: Any, version: int, appends: bool, refused: int) -> Message:
        match request:
            case ProduceRequest():
                return self._produce(request, appends, refused)
            case FetchRequest():
                return self._fetch(request, refused)
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
                return self._api_versions()

    def _api_versions(self) -> ApiVersionsResponse:
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

    def _name(self, name: str, topic_id: uuid.UUID) -> str:
        return name or next((n for n, one in self.topic_ids.items() if one == topic_id), "")

    def _fetch(self, request: FetchRequest, refused: int) -> FetchResponse:
        topics: list[FetchResponseTopic] = []
        for topic in request.topics:
            answers: list[FetchResponsePartition] = []
            for part in topic.partitions:
                log = self.logs.get((self._name(topic.topic, topic.topic_id), part.partition))
                code = refused or (3 if log is None else 0)
                if log is None or code:
                    answer = FetchResponsePartition(partition_index=part.partition, error_code=code)
                else:
                    answer = read_partition(
                        log, part.partition, part.fetch_offset, part.partition_max_bytes
                    )
                answers.append(answer)
            topics.append(
                FetchResponseTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=answers)
            )
        return FetchResponse(responses=topics)

    async def _poll(self, request: FetchRequest, version: int, response: Message) -> Message:
        """A long poll, the simple way."""
        waited = 0.0
        while waited * 1000 < request.max_wait_ms:
            assert isinstance(response, FetchResponse)
            parts = [part for topic in response.responses for part in topic.partitions]
            if any(part.error_code or part.records for part in parts):
                break
            await asyncio.sleep(_POLL)
            waited += _POLL
            with self._lock:
                response = self._serve(request, version, True, 0)
        return response

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
