"""Messages of one partition, asked for because a person wants to see them: the only question to a
broker that a page waits for.

It is bounded in messages, bytes and seconds, and no more than :data:`PARALLEL` run at a time: a
broker that does not answer cannot take the threads that serve pages.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from contextlib import suppress
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock
from typing import Final

from tallymark.client.core.security.deployment import connection_settings
from tallymark.client.core.security.http import registry_settings
from tallymark.client.reading.message import Message
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.deployment import Deployment
from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark.serialization.registry_client import RegistryClient
from tallymark.serialization.serializers import AvroDecoder

PARALLEL: Final = 4
SECONDS: Final = 6.0
MAX_BYTES: Final = 1024 * 1024
_TIMEOUT_MS: Final = 2_500
_WAIT_MS: Final = 400
_NO_TOPIC: Final = (CODES["UNKNOWN_TOPIC_OR_PARTITION"], CODES["INVALID_TOPIC_EXCEPTION"])


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where to look: from ``offset`` on, or from the first message at or after ``time`` (ms), or
    (both None) the last ``count`` ones."""

    cluster: str
    topic: str
    partition: int
    offset: int | None = None
    time: int | None = None
    count: int = 20


@dataclass(frozen=True, slots=True)
class Found:
    """What is there: ``messages`` from ``first`` on. The log holds ``start`` to ``end`` (excluded),
    None where it could not be asked. ``cut``: messages were left out because of their size.
    ``error``: why there are none, for people."""

    messages: tuple[Message, ...] = ()
    first: int = 0
    start: int | None = None
    end: int | None = None
    cut: bool = False
    error: str = ""
    partitions: tuple[int, ...] | None = None
    """Of the topic; None: not known, empty: there is no such topic."""


class Peeks:
    """Thread-safe. Costs nothing before the first peek."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._free = BoundedSemaphore(PARALLEL)
        self._workers = ThreadPoolExecutor(PARALLEL, thread_name_prefix="peek")
        self._lock = Lock()
        self._registry: RegistryClient | None = None
        self._decoder: AvroDecoder | None = None

    def look(self, wanted: Wanted) -> Found:
        """The messages. Returns within :data:`SECONDS`, and never raises for what the broker says
        or does."""
        if not self._free.acquire(blocking=False):
            return Found(error=f"{PARALLEL} other peeks are under way: try again in a moment")
        try:
            consumer = self._consumer(wanted.cluster)
        except TallymarkError as error:
            self._free.release()
            return Found(error=str(error))
        ended = self._ended(consumer)
        try:
            job = self._workers.submit(_look, consumer, wanted)
        except RuntimeError:  # closed
            ended(None)
            return Found(error="the dashboards are being stopped")
        job.add_done_callback(ended)
        try:
            return job.result(SECONDS)
        except TooLate:
            with suppress(TallymarkError):
                consumer.close()  # ends what the worker waits for
            return Found(error=f"the brokers of {wanted.cluster} did not answer in {SECONDS:g} s")
        except TallymarkError as error:
            return Found(error=str(error))

    def decoder(self) -> AvroDecoder:
        """Decodes what was written with a schema of the registry. Raises what it raises, within
        seconds."""
        with self._lock:
            if self._decoder is None:
                settings = registry_settings(self._deployment)
                self._registry = RegistryClient(**settings, timeout=1.5, attempts=1)
                self._decoder = AvroDecoder(self._registry)
            return self._decoder

    def close(self) -> None:
        """Wait for nothing; idempotent."""
        self._workers.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            registry, self._registry, self._decoder = self._registry, None, None
        if registry is not None:
            registry.close()

    def _consumer(self, cluster: str) -> SimpleConsumer:
        return SimpleConsumer(
            **connection_settings(self._deployment.cluster(cluster)),
            client_id="tallymark-dashboards-peek",
            request_timeout_ms=_TIMEOUT_MS,
        )

    def _ended(self, consumer: SimpleConsumer) -> Callable[[Future[Found] | None], None]:
        def ended(_: Future[Found] | None) -> None:
            self._free.release()
            with suppress(TallymarkError):
                consumer.close()

        return ended


def _look(consumer: SimpleConsumer, wanted: Wanted) -> Found:
    topic = consumer.topics_named([wanted.topic])[wanted.topic]
    if isinstance(topic, KafkaError):
        if topic.code not in _NO_TOPIC:
            raise topic
        return Found(partitions=(), error=f"{wanted.cluster} has no topic {wanted.topic}")
    partitions = tuple(topic.partitions)
    if wanted.partition not in partitions:
        text = f"{wanted.topic} has no partition {wanted.partition} on {wanted.cluster}"
        return Found(partitions=partitions, error=text)
    place = wanted.topic, wanted.partition
    start = consumer.get_offsets_before(*place, EARLIEST)[0]
    end = consumer.get_offsets_before(*place, LATEST)[0]
    known = Found(start=start, end=end, partitions=partitions)
    first = _first(consumer, wanted, start, end)
    if start == end:
        return _with(known, first, f"{place[0]}-{place[1]} is empty: it begins and ends at {end:,}")
    if not start <= first < end:
        held = f"{place[0]}-{place[1]} holds the offsets {start:,} to {end - 1:,}"
        return _with(known, first, f"there is no offset {first:,}: {held}")
    messages, cut = _read(consumer, wanted, first, end)
    error = "" if messages else f"no message is between {first:,} and the end of the log at {end:,}"
    return Found(messages, first, start, end, cut, error, partitions)


def _with(known: Found, first: int, error: str) -> Found:
    return Found((), first, known.start, known.end, False, error, known.partitions)


def _first(consumer: SimpleConsumer, wanted: Wanted, start: int, end: int) -> int:
    if wanted.offset is not None:
        return wanted.offset
    if wanted.time is not None:
        found = consumer.offset_for_time(wanted.topic, wanted.partition, wanted.time)
        return end if found is None else found
    return max(start, end - wanted.count)


def _read(
    consumer: SimpleConsumer, wanted: Wanted, first: int, end: int
) -> tuple[tuple[Message, ...], bool]:
    """At most ``count`` messages and :data:`MAX_BYTES`, but one in any case."""
    found: list[Message] = []
    room, at = MAX_BYTES, first
    while len(found) < wanted.count and at < end:
        fetched = consumer.fetch(
            wanted.topic, wanted.partition, at, max_bytes=MAX_BYTES, max_wait_ms=_WAIT_MS
        )
        for message in fetched:
            room -= len(message.key or b"") + len(message.value or b"")
            if found and (room < 0 or len(found) >= wanted.count):
                return tuple(found), room < 0
            found.append(message)
        if fetched.next_offset <= at:
            break
        at = fetched.next_offset
    return tuple(found[: wanted.count]), False
