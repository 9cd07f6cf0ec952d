"""Numbered messages through a broker that is killed: what was acknowledged must be read, in order,
once. (The check that Apache Kafka's system tests call produce_consume_validate.)

Writers send ``writer:number:`` and note what was acknowledged, where and when. :func:`validate`
reads everything back, reports each message that is missing with where it was last seen, and gives
the whole to Jepsen's checks (:mod:`checks`).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from checks import anomalies
from confluent_kafka import Producer as ConfluentProducer
from operations import Ended, Operation, Poll, Send

from tallymark import Producer, SimpleConsumer
from tallymark.client.producing.delivery import RecordMetadata

PADDING = b"." * 60


class Acked(NamedTuple):
    """One acknowledged message. ``at`` is seconds since the epoch."""

    writer: str
    number: int
    topic: str
    partition: int
    offset: int
    at: float


class Seen(NamedTuple):
    """One message read."""

    writer: str
    number: int
    partition: int
    offset: int


class Writer(Protocol):
    name: str
    sent: int
    acked: list[Acked]
    failed: list[str]

    def start(self) -> None: ...

    def finish(self) -> None:
        """Send no more, wait until everything sent is settled."""
        ...


class _Writer(threading.Thread):
    """``keys`` 0: no keys, partition 0 only; else the key is the number modulo ``keys``."""

    def __init__(self, name: str, address: str, topic: str, *, keys: int, pause: float) -> None:
        super().__init__(name=f"writer-{name}", daemon=True)
        self.name = name
        self.sent = 0
        self.acked: list[Acked] = []
        self.failed: list[str] = []
        self._address = address
        self._topic = topic
        self._keys = keys
        self._pause = pause
        self._enough = threading.Event()
        self._error: BaseException | None = None

    def finish(self) -> None:
        self._enough.set()
        self.join(90)
        assert not self.is_alive(), f"{self.name} hangs"
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        try:
            self._write()
        except BaseException as error:  # raised in finish()
            self._error = error

    def _write(self) -> None:
        raise NotImplementedError

    def _next(self) -> tuple[int, bytes | None, bytes]:
        number = self.sent
        self.sent += 1
        key = b"%d" % (number % self._keys) if self._keys else None
        return number, key, f"{self.name}:{number}:".encode() + PADDING


class ConfluentWriter(_Writer):
    """librdkafka's idempotent producer."""

    def _write(self) -> None:
        producer = ConfluentProducer(
            {
                "bootstrap.servers": self._address,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 60_000,
                "socket.timeout.ms": 10_000,  # a paused broker is given up after this
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "topic.metadata.refresh.fast.interval.ms": 20,
                "log_level": 0,
            }
        )
        while not self._enough.is_set():
            if len(producer) >= 1000:
                producer.poll(0.05)
                continue
            number, key, value = self._next()
            producer.produce(self._topic, value, key, 0, on_delivery=self._settled(number))
            producer.poll(0)
            if number % 20 == 0:
                time.sleep(self._pause)
        assert producer.flush(60) == 0, "messages that were never settled"

    def _settled(self, number: int) -> Any:
        def done(error: Any, message: Any) -> None:
            if error is not None:
                self.failed.append(f"{number}: {error}")
                return
            place = (message.topic(), message.partition(), message.offset())
            self.acked.append(Acked(self.name, number, *place, time.time()))

        return done


class TallymarkWriter(_Writer):
    """Our own producer, idempotent by default."""

    def _write(self) -> None:
        with Producer(
            bootstrap_servers=self._address,
            audit=False,
            stamp=True,
            retry_backoff_ms=20,
            request_timeout_ms=10_000,
        ) as producer:
            while not self._enough.is_set():
                number, key, value = self._next()
                producer.send(
                    self._topic, value, key=key, partition=0, on_delivery=self._settled(number)
                )
                if number % 20 == 0:
                    time.sleep(self._pause)
            producer.flush(60)

    def _settled(self, number: int) -> Any:
        def done(error: Exception | None, meta: RecordMetadata | None) -> None:
            if error is not None or meta is None:
                self.failed.append(f"{number}: {error}")
                return
            place = (meta.topic, meta.partition, meta.offset)
            self.acked.append(Acked(self.name, number, *place, time.time()))

        return done


@dataclass
class Outcome:
    """What :func:`validate` found. ``problems`` is empty where all is well."""

    acked: int = 0
    read: int = 0
    unacknowledged: int = 0
    problems: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        return (
            f"{self.acked} acknowledged, {self.read} read, {self.unacknowledged} of them never "
            f"acknowledged, {len(self.problems)} problems"
        )


def parse(value: bytes) -> tuple[str, int]:
    """(writer, number) of a value."""
    name, number, padding = value.split(b":")
    assert padding == PADDING, value
    return name.decode(), int(number)


def read_topic(address: str, topic: str) -> Iterator[Seen]:
    """Every message of the topic's partition 0, from its start to its end."""
    with SimpleConsumer(bootstrap_servers=address) as consumer:
        offset = consumer.start_offsets(topic)[0]
        end = consumer.end_offsets(topic)[0]
        while offset < end:
            fetched = consumer.fetch(topic, 0, offset, max_bytes=4 << 20)
            assert fetched.next_offset > offset, f"no progress at {offset} of {topic}"
            for record in fetched.records():
                if record.offset >= offset:
                    yield Seen(*parse(record.value or b""), 0, record.offset)
            offset = fetched.next_offset


def validate(
    address: str, topic: str, writers: Sequence[Writer], *data: Path, compacted: bool = False
) -> Outcome:
    """Compare a topic with what its writers know. ``data`` are the brokers' data folders, looked
    through for what is missing. ``compacted``: only the last message of each key must be there."""
    seen = list(read_topic(address, topic))
    acked = [one for writer in writers for one in writer.acked]
    outcome = Outcome(len(acked), len(seen))
    by_identity = Counter((one.writer, one.number) for one in seen)
    places = {(one.writer, one.number): one.offset for one in seen}
    outcome.unacknowledged = len(by_identity.keys() - {(a.writer, a.number) for a in acked})
    problems = outcome.problems
    problems += [f"read {count} times: {who}" for who, count in by_identity.items() if count > 1]
    problems += _disorder(seen)
    sent = {writer.name: writer.sent for writer in writers}
    problems += [f"never sent: {one}" for one in seen if one.number >= sent.get(one.writer, 0)]
    must_be_there = _last_of_keys(acked, writers) if compacted else acked
    for one in must_be_there:
        place = places.get((one.writer, one.number))
        if place is None:
            problems.append(_missing(one, seen, data))
        elif place != one.offset:
            problems.append(f"acknowledged at {one.offset}, read at {place}: {one}")
    problems += [f"{writer.name} failed {text}" for writer in writers for text in writer.failed]
    if not compacted:
        found = anomalies(history(writers, topic, seen))
        problems += [f"{one.name}: {one.text}" for one in found[:20]]
    return outcome


def history(writers: Sequence[Writer], topic: str, seen: Sequence[Seen]) -> list[Operation]:
    """The run for Jepsen's checks: each message was sent on its own, and at the end one process
    read everything at once."""
    operations = [
        Operation(one.writer, Ended.OK, (Send(topic, f"{one.writer}:{one.number}", one.offset),))
        for writer in writers
        for one in writer.acked
    ]
    polls = [Poll(topic, one.offset, f"{one.writer}:{one.number}") for one in seen]
    return [*operations, Operation("the end", Ended.OK, polls)]


def _disorder(seen: Iterable[Seen]) -> Iterator[str]:
    last: dict[str, Seen] = {}
    offset = -1
    for one in seen:
        before = last.get(one.writer)
        if before is not None and before.number >= one.number:
            yield f"out of order: {one} after {before}"
        if one.offset <= offset:
            yield f"offset {one.offset} after {offset}"
        last[one.writer], offset = one, one.offset


def _last_of_keys(acked: Sequence[Acked], writers: Sequence[Writer]) -> list[Acked]:
    """What compaction may not remove: acknowledged, and nothing of its key was sent after it that
    may be in the log."""
    found: list[Acked] = []
    for writer in writers:
        assert isinstance(writer, _Writer)
        assert len(writers) == 1, "keys of several writers replace each other"
        found += [one for one in acked if one.number + writer._keys >= writer.sent]
    return found


def _missing(one: Acked, seen: Sequence[Seen], data: Sequence[Path]) -> str:
    """A line for a message that is gone: where it was last seen, and what is there now."""
    instead = next((other for other in seen if other.offset == one.offset), None)
    needle = f"{one.writer}:{one.number}:".encode()
    files = [
        f"{folder.parent.name}/{path.name}"
        for folder in data
        for path in sorted((folder / f"{one.topic}-{one.partition}").glob("*.log*"))
        if needle in path.read_bytes()
    ]
    return (
        f"missing: {one.writer} {one.number}, acknowledged as offset {one.offset} of "
        f"{one.topic}-{one.partition} at {one.at:.3f}; there now: {instead}; "
        f"its bytes are in: {files or 'no file'}; the log read ends at "
        f"{seen[-1].offset if seen else 'its start'}"
    )
