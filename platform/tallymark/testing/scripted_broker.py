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
import uuid
from collections import defaultdict, deque
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from tallymark.client.core.io_thread import IoThread
from tallymark.net.server.handler import Connection
from tallymark.net.server.server import Server
from tallymark.protocol import frames
from tallymark.protocol.api import ApiKey
from tallymark.protocol.codec import decode
from tallymark.protocol.frames import RequestHeader
from tallymark.protocol.messages import (
    REQUEST_CLASSES,
    ApiVersionsResponse,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    ProduceRequest,
)
from tallymark.protocol.schema import Message
from tallymark.testing.scripted_cluster import ScriptedCluster
from tallymark.testing.scripted_log import read_partition

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


class ScriptedBroker(ScriptedCluster):
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
        super().__init__(auto_create, served, advertised)
        self.requests: list[tuple[ApiKey, int, Any]] = []
        """Every request: API, version, message."""
        self._actions: defaultdict[ApiKey, deque[Action]] = defaultdict(deque)
        self._io = IoThread("scripted broker")
        self._server = Server(self._handle)
        for name, partitions in (topics or {}).items():
            self.create(name, partitions)

    # --- for the test -----------------------------------------------------------------------

    def script(self, api: ApiKey, *actions: Action) -> None:
        """What to do with the next requests of a kind, in order."""
        with self._lock:
            self._actions[api].extend(actions)

    def unscript(self, api: ApiKey) -> None:
        """From now on requests of a kind are served, whatever was still to be done with them."""
        with self._lock:
            self._actions[api].clear()

    def count(self, api: ApiKey) -> int:
        """How many requests of a kind have come."""
        return sum(1 for key, _, _ in self.requests if key is api)

    def stop(self) -> None:
        """Stop like a process that is killed; the log stays."""
        self._io.finish(self._server.stop(grace=0.0), 10)

    def start(self) -> None:
        """Listen, on the same port each time."""
        self._server = Server(self._handle)
        self._io.run(self._server.start("127.0.0.1", self._port), 10)

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
            refusal = self.api_versions()
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
        if isinstance(request, FetchRequest):
            return self._fetch(request, refused)
        return self.answer(request, version, appends, refused)

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
