"""Two copiers at work between two topics, what is done to them, and whether output = input
(:mod:`copies_judged`). Both keep a journal of what they read and wrote (:mod:`copier_journal`). In
:class:`CircleStory` the topics are one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from circling import PARTITIONS, first
from copied import transactions_of
from copier_process import CopierProcess
from copies_judged import (
    CIRCLE,
    SOURCE,
    TARGET,
    Copied,
    circle_problems,
    problems,
)
from eventually import eventually
from operations import Operation

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.client.admin.transactions.finding import OpenTransactions
from tallymark.errors import ConnectError, KafkaError, TallymarkError, TimedOutError
from tallymark.protocol.topic_partition import OFFSETS_TOPIC
from tallymark.transactions.transaction import IDLE, NAMES

COUNT: Final = int(os.environ.get("COPIED_RECORDS", "100000"))
"""How many records the long tests copy."""
SECONDS: Final = 300
ENDED: Final = {NAMES[state] for state in IDLE}


class CommittedReader(threading.Thread):
    """Reads what is committed to the output while it is written. ``read`` are the records of each
    partition."""

    def __init__(self, servers: str, topic: str = TARGET) -> None:
        super().__init__(name="committed reader", daemon=True)
        self.topic = topic
        self.read: list[list[Copied]] = [[] for _ in range(PARTITIONS)]
        self._servers = servers
        self._enough = threading.Event()
        self._error: BaseException | None = None

    @property
    def count(self) -> int:
        """How many records it has read."""
        return sum(map(len, self.read))

    def finish(self) -> None:
        """Read no more. Raises what has ended it."""
        self._enough.set()
        self.join(SECONDS)
        if self._error is not None:
            raise self._error

    def check(self) -> None:
        """It goes on."""
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        try:
            with SimpleConsumer(
                bootstrap_servers=self._servers, isolation="read_committed", request_timeout_ms=5000
            ) as consumer:
                positions = [0] * PARTITIONS
                while not self._enough.is_set():
                    for partition in range(PARTITIONS):
                        with contextlib.suppress(KafkaError, ConnectError, TimedOutError):
                            self._fetch(consumer, partition, positions)
                    self._enough.wait(0.02)
        except BaseException as error:  # raised in finish()
            self._error = error

    def _fetch(self, consumer: SimpleConsumer, partition: int, positions: list[int]) -> None:
        fetched = consumer.fetch(self.topic, partition, positions[partition], max_wait_ms=50)
        now = time.monotonic()
        self.read[partition] += [
            Copied(m.offset, bytes(m.value or b"").decode(), now) for m in fetched.records()
        ]
        positions[partition] = max(fetched.next_offset, positions[partition])


class CopyStory:
    """``count`` messages are published to a topic that is there, with the output; then two copiers
    run until the reader has read all. ``at_once`` False: the test publishes, and starts them."""

    def __init__(
        self,
        folder: Path,
        servers: str,
        count: int,
        *,
        protocol: int,
        max_records: int = 750,
        aborts: float = 0.0,
        at_once: bool = True,
        source: str = SOURCE,
        target: str = TARGET,
        hops: int = 0,
    ) -> None:
        self.servers = servers
        self.count = count
        self.reader = CommittedReader(servers, target)
        self.copiers = [
            CopierProcess(
                folder,
                f"copier-{number}",
                servers,
                source=source,
                target=target,
                protocol=protocol,
                max_records=max_records,
                aborts=aborts,
                hops=hops,
            )
            for number in range(2)
        ]
        self._at_once = at_once
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for copier in self.copiers:
                stack.callback(copier.close)
            if self._at_once:
                self.publish()
            self.reader.start()
            if self._at_once:
                for copier in self.copiers:
                    copier.start()
            self._stack = stack.pop_all()
        return self

    def publish(self, pause: float = 0.0) -> None:
        """All messages, with a pause of so many seconds behind every 20."""
        with plain_producer(self.servers) as producer:
            for number in range(self.count // PARTITIONS):
                for partition in range(PARTITIONS):
                    producer.send(SOURCE, b"%d" % number, partition=partition)
                if pause and number % 10 == 0:
                    time.sleep(pause)

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self.reader._enough.set()

    def until(self, part: float) -> None:
        """Until so much is copied, from 0 to 1."""
        deadline = time.monotonic() + SECONDS
        while self.reader.count < part * self.count:
            self.reader.check()
            for copier in self.copiers:
                copier.check()
            assert time.monotonic() < deadline, (
                f"{self.reader.count} of {self.count} after {SECONDS} s; "
                + "\n".join(copier.log.read_text()[-1500:] for copier in self.copiers)
            )
            time.sleep(0.02)

    def finish(self) -> None:
        """Until everything is copied; then what was read meanwhile, and what is read now, is the
        input, and nothing stays open."""
        self.until(1)
        for copier in self.copiers:
            copier.stop()
        self.reader.finish()
        journals = [
            operation
            for copier in self.copiers
            for operation in transactions_of(copier.name, _lines(copier.journal))
        ]
        found = self.problems(journals)
        assert not found, "\n".join(found)
        nothing_hangs(self.servers, self.reader.topic)
        again = CommittedReader(self.servers, self.reader.topic)
        again.start()
        self.await_all(again)
        assert _places(again) == _places(self.reader)

    def problems(self, journals: Sequence[Operation]) -> list[str]:
        """What is wrong, see :func:`problems`."""
        return problems(self.reader.read, self.count, journals)

    def await_all(self, reader: CommittedReader) -> None:
        """Until another reader has read as much."""
        deadline = time.monotonic() + SECONDS
        while reader.count < self.count:
            assert time.monotonic() < deadline, f"{reader.count} of {self.count}"
            time.sleep(0.02)
        reader.finish()


class CircleStory(CopyStory):
    """``published`` numbers go ``hops`` times through two copiers, from :data:`CIRCLE` to itself:
    the transactions of each read what the other's have written (:mod:`circling`)."""

    def __init__(
        self, folder: Path, servers: str, published: int, hops: int, *, protocol: int, **more: Any
    ) -> None:
        count = published * (hops + 1)
        super().__init__(
            folder,
            servers,
            count,
            protocol=protocol,
            source=CIRCLE,
            target=CIRCLE,
            hops=hops,
            **more,
        )
        self._published = published
        self._hops = hops

    def publish(self, pause: float = 0.0) -> None:
        with plain_producer(self.servers) as producer:
            for number in range(self._published):
                producer.send(CIRCLE, first(number).encode(), partition=number % PARTITIONS)

    def problems(self, journals: Sequence[Operation]) -> list[str]:
        return circle_problems(self.reader.read, self._published, self._hops, journals)


def plain_producer(servers: str) -> Producer:
    """One without transactions."""
    return Producer(bootstrap_servers=servers, audit=False, linger_ms=20, retry_backoff_ms=20)


def _places(reader: CommittedReader) -> list[list[tuple[int, str]]]:
    return [[(one.offset, one.value) for one in records] for records in reader.read]


def _lines(journal: Path) -> list[str]:
    return journal.read_text(errors="replace").split("\n") if journal.exists() else []


class Hijacker(threading.Thread):
    """Takes the id of the first copier every second, and leaves a transaction of its own open."""

    def __init__(self, servers: str, name: str) -> None:
        super().__init__(name="hijacker", daemon=True)
        self.taken = 0
        self._servers = servers
        self._name = name
        self._enough = threading.Event()

    def finish(self) -> None:
        """Take it no more."""
        self._enough.set()
        self.join(SECONDS)

    def run(self) -> None:
        while not self._enough.wait(1):
            with contextlib.suppress(TallymarkError):
                self._take()

    def _take(self) -> None:
        with Producer(bootstrap_servers=self._servers, transactional_id=self._name) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(TARGET, b"-1|hijacker", partition=self.taken % PARTITIONS)
            producer.flush(10)
            self.taken += 1


def nothing_hangs(servers: str, topic: str = TARGET) -> None:
    """Until every transaction is ended at its coordinator, and no partition of ``topic`` or of the
    groups' offsets has one open: what died is aborted when its time is up."""

    def all_ended() -> bool:
        with contextlib.suppress(KafkaError, ConnectError, TimedOutError):
            listed = admin.list_transactions()
            found = admin.open_transactions(admin.partitions_of((topic, OFFSETS_TOPIC)))
            known = {one.state for one in listed.transactions.values()}
            return not listed.errors and known <= ENDED and found == OpenTransactions()
        return False

    with Admin(bootstrap_servers=servers) as admin:
        eventually(all_ended, what="no transaction is open")


def create_topics(servers: str, replicas: int, *topics: str) -> None:
    """Input and output, or ``topics``."""
    least = {"min.insync.replicas": str(min(2, replicas))}
    with Admin(bootstrap_servers=servers) as admin:
        for topic in topics or (SOURCE, TARGET):
            admin.create_topic(topic, PARTITIONS, least, replication_factor=replicas)
