"""Sending mutated frames to a live broker, and a well-behaved client beside it."""

from __future__ import annotations

import socket
import struct
import threading
import time
import uuid
from dataclasses import dataclass
from random import Random

from mutation import mutated
from random_requests import random_frame

from tallymark.net.addresses import parse_address
from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.testing.wire import WireClient

_VALID = 3000
"""So many valid frames are made, and mutated again and again: making one costs more."""
_LENGTHS = (1, 1, 2, 2, 3, 4, 6, 10)
_QUIET_SECONDS = 0.1
"""A connection that is silent for so long has a request that waits; it is left."""


@dataclass
class Sent:
    """``frames`` were sent on ``connections``; ``answers`` came back, ``closed`` connections were
    ended by the broker, the others by us."""

    frames: int = 0
    connections: int = 0
    answers: int = 0
    closed: int = 0

    @property
    def handled(self) -> int:
        """Frames the broker surely looked at: those it has answered, and one for each connection
        that it closed."""
        return self.answers + self.closed


def fuzz(address: str, frames: int, seed: int) -> Sent:
    """Send so many mutated frames, many on each connection without waiting for an answer."""
    random = Random(seed)
    valid = [random_frame(random, nasty=number % 2 == 0) for number in range(_VALID)]
    sent = Sent()
    where = parse_address(address)
    while sent.frames < frames:
        count = min(random.choice(_LENGTHS), frames - sent.frames)
        data = b"".join(_pipelined(valid, count, random))
        sent.frames += count
        sent.connections += 1
        _converse((where.host, where.port), data, random, sent)
    return sent


def _pipelined(valid: list[bytes], count: int, random: Random) -> list[bytes]:
    return [mutated(random.choice(valid), random.choice(valid), random) for _ in range(count)]


def _converse(where: tuple[str, int], data: bytes, random: Random, sent: Sent) -> None:
    """One connection: send all, read what comes; some clients end in the middle."""
    with socket.create_connection(where, 10) as connection:
        connection.settimeout(_QUIET_SECONDS)
        received = bytearray()
        try:
            connection.sendall(data)
            if random.random() < 0.05:
                return  # goes away without reading
            if random.random() < 0.97:
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                received += part
            sent.closed += 1
        except TimeoutError:
            pass
        except OSError:  # reset, or gone before we have closed our side (ENOTCONN)
            sent.closed += 1
        finally:
            sent.answers += _count_frames(received)


def _count_frames(data: bytearray) -> int:
    count = position = 0
    while position + 4 <= len(data):
        (size,) = struct.unpack_from(">i", data, position)
        assert 0 < size <= 1 << 30, f"an answer of {size} bytes"
        position += 4 + size
        count += position <= len(data)
    return count


class HealthyClient(threading.Thread):
    """Writes numbered records to a topic that nobody can guess and reads each back at once, until
    :meth:`finish`, which says how many it were. Any error is raised there."""

    def __init__(self, address: str) -> None:
        super().__init__(name="healthy-client")
        self.seconds: list[float] = []
        """Of each round."""
        self._address = address
        self._topic = f"healthy-{uuid.uuid4().hex}"
        self._enough = threading.Event()
        self._error: BaseException | None = None
        self._count = 0

    def run(self) -> None:
        try:
            with WireClient(self._address, timeout=30.0) as wire:
                keep = [
                    CreateTopicsRequestConfig(name=name, value="-1")
                    for name in ("retention.ms", "retention.bytes")
                ]
                topic = CreateTopicsRequestTopic(
                    name=self._topic, num_partitions=1, replication_factor=1, configs=keep
                )
                made = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
                assert made.topics[0].error_code == 0, made
                while not self._enough.wait(0.02):
                    began = time.monotonic()
                    self._round(wire)
                    self.seconds.append(time.monotonic() - began)
                for offset in range(0, self._count, max(self._count // 50, 1)):
                    self._check(wire, offset)
        except BaseException as error:  # raised in the test's thread
            self._error = error

    def finish(self) -> int:
        """End; how many records were written and read."""
        self._enough.set()
        self.join(60)
        assert not self.is_alive(), "the healthy client hangs"
        if self._error is not None:
            raise self._error
        assert self._count > 0
        return self._count

    def _round(self, wire: WireClient) -> None:
        partition = ProduceRequestPartition(index=0, records=encode_batch([_record(self._count)]))
        topic = ProduceRequestTopic(name=self._topic, partition_data=[partition])
        answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]), 9)
        done = answer.responses[0].partition_responses[0]
        assert (done.error_code, done.base_offset) == (0, self._count), done
        self._check(wire, self._count)
        self._count += 1

    def _check(self, wire: WireClient, offset: int) -> None:
        """The record at the offset is the one that was written there."""
        partition = FetchRequestPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=100_000
        )
        topic = FetchRequestTopic(topic=self._topic, partitions=[partition])
        fetch = FetchRequest(max_wait_ms=5000, min_bytes=1, max_bytes=100_000, topics=[topic])
        found = wire.ask(fetch, 11).responses[0].partitions[0]
        assert found.error_code == 0, found
        assert found.records is not None
        first = split_batches(found.records)[0].records()[0]
        key, value, _, timestamp = _record(offset)
        assert (first.offset, first.key, first.value) == (offset, key, value)
        assert first.timestamp == timestamp


def quiet_rounds(address: str, rounds: int = 200) -> list[float]:
    """The seconds of so many rounds of a healthy client."""
    healthy = HealthyClient(address)
    healthy.start()
    while healthy.is_alive() and len(healthy.seconds) < rounds:
        time.sleep(0.05)
    healthy.finish()
    return healthy.seconds


def _record(number: int) -> tuple[bytes, bytes, tuple[()], int]:
    return b"k%d" % number, b"%d" % number * 20, (), 1_700_000_000_000 + number
