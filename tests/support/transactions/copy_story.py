"""Two copiers at work between two topics, what is done to them, and whether output = input.

Values are the numbers of each partition, 0 to n - 1, so what a committed reader sees of a partition
must be these numbers in order: a missing, doubled, aborted or exchanged record is seen at once.
Each number is written with the name of its transaction, and both copiers keep a journal, so
Jepsen's checks run over their transactions and what was read (:mod:`copier_journal`).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

from checks import anomalies
from copied import never_asked, transactions_of
from copier_process import CopierProcess
from eventually import eventually
from operations import Ended, Operation, Poll

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.client.admin.transactions.finding import OpenTransactions
from tallymark.errors import ConnectError, KafkaError, TallymarkError, TimedOutError
from tallymark.protocol.topic_partition import OFFSETS_TOPIC
from tallymark.transactions.transaction import IDLE, NAMES

PARTITIONS: Final = 2
SOURCE: Final = "input"
TARGET: Final = "output"
COUNT: Final = int(os.environ.get("COPIED_RECORDS", "100000"))
"""How many records the long tests copy."""
SECONDS: Final = 300
ENDED: Final = {NAMES[state] for state in IDLE}


class Copied(NamedTuple):
    """A record of the output, and when it was read, by the monotonic clock."""

    offset: int
    value: str
    at: float

    @property
    def number(self) -> int:
        """What of the input it is."""
        return int(self.value.partition("|")[0])


class CommittedReader(threading.Thread):
    """Reads what is committed to the output while it is written. ``read`` are the records of each
    partition."""

    def __init__(self, servers: str) -> None:
        super().__init__(name="committed reader", daemon=True)
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
        fetched = consumer.fetch(TARGET, partition, positions[partition], max_wait_ms=50)
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
    ) -> None:
        self.servers = servers
        self.count = count
        self.reader = CommittedReader(servers)
        self.copiers = [
            CopierProcess(
                folder,
                f"copier-{number}",
                servers,
                source=SOURCE,
                target=TARGET,
                protocol=protocol,
                max_records=max_records,
                aborts=aborts,
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
        with Producer(
            bootstrap_servers=self.servers, audit=False, linger_ms=20, retry_backoff_ms=20
        ) as producer:
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
        found = problems(self.reader.read, self.count, journals)
        assert not found, "\n".join(found)
        nothing_hangs(self.servers)
        again = CommittedReader(self.servers)
        again.start()
        self.await_all(again)
        assert _places(again) == _places(self.reader)

    def await_all(self, reader: CommittedReader) -> None:
        """Until another reader has read as much."""
        deadline = time.monotonic() + SECONDS
        while reader.count < self.count:
            assert time.monotonic() < deadline, f"{reader.count} of {self.count}"
            time.sleep(0.02)
        reader.finish()


def problems(
    read: Sequence[Sequence[Copied]], count: int, copied: Sequence[Operation]
) -> list[str]:
    """Where the output is not the input: by number, and by Jepsen's checks of what was read and of
    the copiers' transactions."""
    found: list[str] = []
    for partition, records in enumerate(read):
        for at, record in enumerate(records):
            if record.number != at:
                found.append(f"{TARGET}-{partition}: {record.number} where {at} belongs")
                break
        if len(records) != count // PARTITIONS:
            found.append(f"{TARGET}-{partition}: {len(records)} records")
    polls = [
        (Poll(str(partition), one.offset, f"{partition}:{one.value}"), one.at)
        for partition, records in enumerate(read)
        for one in records
    ]
    history = [
        *copied,
        never_asked(copied, ((poll.key, poll.value) for poll, _ in polls)),
        *(Operation("reader", Ended.OK, (poll,), at=at) for poll, at in polls),
    ]
    return found + [f"{one.name}: {one.text}" for one in anomalies(history)[:20]]


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


def nothing_hangs(servers: str) -> None:
    """Until every transaction is ended at its coordinator, and no partition has one open: what died
    is aborted when its time is up."""

    def all_ended() -> bool:
        with contextlib.suppress(KafkaError, ConnectError, TimedOutError):
            listed = admin.list_transactions()
            found = admin.open_transactions(admin.partitions_of((TARGET, OFFSETS_TOPIC)))
            known = {one.state for one in listed.transactions.values()}
            return not listed.errors and known <= ENDED and found == OpenTransactions()
        return False

    with Admin(bootstrap_servers=servers) as admin:
        eventually(all_ended, what="no transaction is open")


def create_topics(servers: str, replicas: int) -> None:
    """Input and output."""
    least = {"min.insync.replicas": str(min(2, replicas))}
    with Admin(bootstrap_servers=servers) as admin:
        for topic in (SOURCE, TARGET):
            admin.create_topic(topic, PARTITIONS, least, replication_factor=replicas)
