"""The admin trail of this broker: writes administrators' requests to a file and to a topic.

The dispatcher makes a :class:`TrailedRequest` of every request of :data:`~.entries.TRAILED` before
it is served, and calls it with the answer afterwards. Neither call waits: lines go into two queues
of bounded length. A thread writes the file; a task appends to a partition of the topic that this
broker leads. A line for a full queue, or one that cannot be written, is counted (``dropped``, in
``/metrics``) and logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

from tallymark.broker.metrics.counters import TrailMetrics
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.requests.create_topic import create_topic
from tallymark.broker.state import BrokerState
from tallymark.broker.trail.entries import changes, known_before, result_of
from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.net.limits.log_rate import LogRate
from tallymark.net.server.handler import Connection
from tallymark.protocol.api import ApiKey
from tallymark.protocol.records.batch import encode_batch
from tallymark.protocol.schema import Message
from tallymark.replication.features import REPLICATION
from tallymark.trail import Entry, TrailFile

log: Final = logging.getLogger("tallymark.trail")

MAX_WAITING: Final = 10_000
"""Lines in each queue."""
RETENTION_MS: Final = 365 * 24 * 3_600_000
"""Retention of the topic if the broker creates it."""
REPLICAS: Final = 3
"""Of the topic if the broker creates it and topics may have several, where so many brokers live."""
_AGAIN_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 2.0
_BATCH: Final = 200


class Line(Protocol):
    """What a trail takes; :class:`~tallymark.trail.Entry` is one."""

    def line(self) -> bytes:
        """With its newline."""
        ...


class Trail:
    """``file`` None: no file; ``topic`` "": no topic. ``name`` is for the log."""

    def __init__(
        self,
        state: BrokerState,
        file: TrailFile | None,
        topic: str,
        name: str = "admin trail",
    ) -> None:
        self.counts = TrailMetrics()
        self.state = state
        self.name = name
        self._file = file
        self._topic = topic
        self._lines: queue.Queue[bytes | None] = queue.Queue(MAX_WAITING)
        self._records: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        self._limit = LogRate()
        self.elsewhere: Callable[[str, bytes], Awaitable[None]] | None = None
        """Appends a batch to the topic at another broker, where this one leads no partition of it;
        TallymarkError: not now. None: the lines wait until it leads one."""

    def start(self) -> None:
        """Start the thread and the task, on the running loop."""
        if self._file is not None:
            # A daemon: a disk that hangs must not keep the broker from ending.
            self._thread = threading.Thread(target=self._write, name="tallymark-trail", daemon=True)
            self._thread.start()
        if self._topic:
            self._task = asyncio.create_task(self._publish(), name=self.name)

    async def stop(self) -> None:
        """Write the queued lines, as far as possible in a short time. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            with contextlib.suppress(TallymarkError):
                self._append(self._led())
            self._drop("topic", len(self._records))
            self._records.clear()
        thread, self._thread = self._thread, None
        if thread is not None:
            with contextlib.suppress(queue.Full):
                self._lines.put_nowait(None)
            await asyncio.to_thread(thread.join, _STOP_SECONDS)
            if thread.is_alive():
                self._drop("file", self._lines.qsize(), "the disk does not take them")

    def put(self, entry: Line) -> None:
        """Queue a line for the file and for the topic; a full queue drops it."""
        line = entry.line()
        if self._file is not None:
            try:
                self._lines.put_nowait(line)
            except queue.Full:
                self._drop("file", 1)
        if self._topic:
            self._for_the_topic(line)

    def put_again(self, lines: Iterable[bytes]) -> None:
        """Queue lines, each with its newline, for the topic: the file has them."""
        for line in lines if self._topic else ():
            self._for_the_topic(line)

    def _for_the_topic(self, line: bytes) -> None:
        if len(self._records) >= MAX_WAITING:
            self._drop("topic", 1)
        else:
            self._records.append(line.rstrip(b"\n"))
            self._wake.set()

    def _drop(self, where: str, count: int, why: str = "the queue is full") -> None:
        if not count:
            return
        self.counts.dropped[where] += count
        if self._limit.passes(where) is not None:
            log.error(
                "lines of the %s are lost: %s, %d so far: %s",
                self.name,
                where,
                self.counts.dropped[where],
                why,
            )

    # -- the file, on its thread --------------------------------------------------------------

    def _write(self) -> None:
        assert self._file is not None
        while (line := self._lines.get()) is not None:
            lines = [line]
            ended = False
            with contextlib.suppress(queue.Empty):
                while len(lines) < _BATCH:
                    more = self._lines.get_nowait()
                    if more is None:
                        ended = True
                        break
                    lines.append(more)
            try:
                self._file.write(lines)
            except OSError as error:
                self._drop("file", len(lines), f"{self._file.path}: {error.strerror or error}")
            else:
                self.counts.written["file"] += len(lines)
            if ended:
                return

    # -- the topic, on the loop ---------------------------------------------------------------

    async def _publish(self) -> None:
        await self.state.serving.wait()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._records:
                partition = self._led()
                try:
                    if partition is None:
                        await self._make_topic()
                        partition = self._led()
                    if partition is None and self.elsewhere is not None:
                        await self._send(self.elsewhere)
                    else:
                        self._append(partition)
                except TallymarkError as error:
                    self._log_waiting(error)
                    await asyncio.sleep(_AGAIN_SECONDS)

    def _led(self) -> Partition | None:
        """A partition of the topic that this broker leads."""
        led = (each for each in self.state.partitions.led() if each.topic == self._topic)
        return min(led, key=lambda each: each.index, default=None)

    async def _make_topic(self) -> None:
        if self._topic not in self.state.image.topics:
            partitions = max(1, len(self.state.image.brokers))
            configs = {"retention.ms": str(RETENTION_MS)}
            factor = replicas_of_trail(self.state)
            with contextlib.suppress(KafkaError):  # another broker has created it meanwhile
                await create_topic(self.state, self._topic, partitions, configs, factor=factor)
        for _ in range(100):  # until it is led
            if self._led() is not None or self._is_led_elsewhere():
                return
            await asyncio.sleep(0.05)

    def _is_led_elsewhere(self) -> bool:
        topic = self.state.image.topics.get(self._topic)
        return (
            self.elsewhere is not None
            and topic is not None
            and any(each.leader >= 0 for each in topic.partitions)
        )

    async def _send(self, elsewhere: Callable[[str, bytes], Awaitable[None]]) -> None:
        some = [self._records[at] for at in range(min(_BATCH, len(self._records)))]
        now = self.state.now_ms()
        await elsewhere(self._topic, encode_batch([(None, line, (), now) for line in some]))
        self._sent(len(some))

    def _sent(self, count: int) -> None:
        for _ in range(count):
            self._records.popleft()
        self.counts.written["topic"] += count

    def _append(self, partition: Partition | None) -> None:
        if not self._records:
            return
        if partition is None:
            code = CODES["NOT_LEADER_OR_FOLLOWER"]
            raise KafkaError(code, f"{self._topic} has no partition that this broker leads")
        while self._records:
            now = self.state.now_ms()
            some = [self._records[at] for at in range(min(_BATCH, len(self._records)))]
            batch = encode_batch([(None, line, (), now) for line in some])
            partition.append(bytearray(batch), now)
            self._sent(len(some))

    def _log_waiting(self, error: TallymarkError) -> None:
        if self._limit.passes("wait") is not None:
            log.warning("%d lines of the %s wait: %s", len(self._records), self.name, error)


def replicas_of_trail(state: BrokerState) -> int:
    """The replicas of a topic that a trail makes. The default of topics is 1 where nothing was set,
    and may be more than brokers live just when there is something to tell."""
    default = state.settings.default_replication_factor
    if state.image.features.level(REPLICATION) == 0:
        return default
    return max(1, min(max(REPLICAS, default), len(state.image.brokers)))


class TrailedRequest:
    """One request of :data:`~.entries.TRAILED`. It is made before the request is served, and keeps
    the state before the change. Then :meth:`answered` or :meth:`failed` is called."""

    def __init__(
        self,
        trail: Trail,
        api: ApiKey,
        request: Any,
        client_id: str | None,
        connection: Connection,
    ) -> None:
        self._trail = trail
        self._api = api
        self._request = request
        self._client_id = client_id
        self._connection = connection
        self._before = known_before(trail.state, api, request)

    def answered(self, answer: Message | None) -> None:
        """Put a line into the trail for every requested change."""
        try:
            for change in changes(self._api, self._request, answer, self._before):
                self._put(
                    change.kind,
                    change.name,
                    before=change.before,
                    after=change.after,
                    result=result_of(change.code),
                    message=change.message,
                )
        except Exception as error:  # an error of the trail must not fail the request
            log.exception("a request of %s is not understood by the trail", self._api.name)
            self.failed(error)

    def failed(self, error: BaseException) -> None:
        """Put one line into the trail: the request was not answered."""
        result, message = "UNKNOWN_SERVER_ERROR", f"not answered: {error!r}"
        self._put("request", self._api.name, result=result, message=message)

    def _put(self, kind: str, name: str, **more: Any) -> None:
        state = self._trail.state
        self._trail.put(
            Entry(
                at=state.now_ms(),
                process=f"broker-{state.settings.node_id}",
                who=self._connection.principal,
                host=self._connection.host,
                client=self._client_id,
                action=self._api.name,
                resource_type=kind,
                resource=name,
                **more,
            )
        )
