"""Copiers of each other: only where transactions read what other transactions write can they be in
a circle (Jepsen's G1c). Real copiers on a real broker are judged by their journals; and so are two
that read what is not committed, which has to be found."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from circling import PARTITIONS, first, further
from copied import transactions_of
from copier_journal import CopierJournal
from copies_judged import CIRCLE, Copied, circle_problems
from eventually import eventually
from group_rig import BROKER, Rig
from operations import Operation, Poll, Send

from tallymark import Producer, SimpleConsumer
from tallymark.client import OutgoingRecord
from tallymark.client.admin.admin import Admin
from tallymark.client.reading.isolation import Isolation
from tallymark.client.reading.message import Message
from tallymark.copying import Copier
from tallymark.testing.broker_thread import BrokerThread

PUBLISHED: Final = 40
HOPS: Final = 4


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with BrokerThread(tmp_path / "data", **BROKER) as broker, ExitStack() as stack:
        rig = Rig(broker.bootstrap_servers, stack)
        with Admin(bootstrap_servers=rig.servers) as admin:
            admin.create_topic(CIRCLE, PARTITIONS)
        for number in range(PUBLISHED):
            rig.producer.send(CIRCLE, first(number).encode(), partition=number % PARTITIONS)
        rig.producer.flush(30)
        yield rig


class One:
    """A producer with a journal."""

    def __init__(self, name: str, servers: str, folder: Path, stack: ExitStack) -> None:
        self.name = name
        self._path = folder / name
        self._journal = CopierJournal(self._path, name)
        stack.callback(self._journal.close)
        self.producer = stack.enter_context(
            Producer(
                bootstrap_servers=servers,
                transactional_id=name,
                transaction_timeout_ms=600_000,
                interceptors=[self._journal],
            )
        )

    def copies(self, message: Message) -> list[OutgoingRecord]:
        """The next hop of a message."""
        copy = further(self._journal.read(message), message.partition, HOPS)
        if copy is None:
            return []
        text, partition = copy
        value = self._journal.value(CIRCLE, partition, text)
        return [OutgoingRecord(CIRCLE, value, None, partition)]

    def copy(self, message: Message) -> None:
        """Its next hop is in the log."""
        for record in self.copies(message):
            self.producer.send(record.topic, record.value, partition=record.partition)
        self.producer.flush(30)

    @property
    def transactions(self) -> list[Operation]:
        return transactions_of(self.name, self._path.read_text().split("\n"))


def read(servers: str, isolation: Isolation) -> list[list[Message]]:
    """What there is in both partitions now."""
    with SimpleConsumer(bootstrap_servers=servers, isolation=isolation) as consumer:
        return [
            list(messages_until(consumer, partition, end))
            for partition, end in sorted(consumer.end_offsets(CIRCLE).items())
        ]


def messages_until(consumer: SimpleConsumer, partition: int, end: int) -> Iterator[Message]:
    position = 0
    while position < end:
        fetched = consumer.fetch(CIRCLE, partition, position)
        yield from fetched
        position = max(fetched.next_offset, position)


def last(messages: list[Message], text: str) -> Message:
    """The last of these, which is of this text."""
    assert bytes(messages[-1].value or b"").decode().startswith(f"{text}|")
    return messages[-1]


def problems(servers: str, copiers: Sequence[One]) -> list[str]:
    """What the checks find in the journals and in what is committed."""
    found = [
        [Copied(m.offset, bytes(m.value or b"").decode(), time.monotonic()) for m in messages]
        for messages in read(servers, "read_committed")
    ]
    transactions = [each for copier in copiers for each in copier.transactions]
    return circle_problems(found, PUBLISHED, HOPS, transactions)


def has_read_from(reader: One, writer: One) -> bool:
    """Whether a transaction has read what one of the other has written."""
    written = {
        step.value for each in writer.transactions for step in each.steps if isinstance(step, Send)
    }
    return any(
        isinstance(step, Poll) and step.value in written
        for each in reader.transactions
        for step in each.steps
    )


def test_copiers_of_each_other_are_in_no_circle(rig: Rig, tmp_path: Path) -> None:
    """Each reads one partition and writes to the other: what each reads is the other's."""
    stop = threading.Event()
    with ExitStack() as stack:
        copiers = [One(f"copier-{own}", rig.servers, tmp_path, stack) for own in range(PARTITIONS)]
        pool = stack.enter_context(ThreadPoolExecutor(PARTITIONS))
        stack.callback(stop.set)
        runs = [
            pool.submit(copy_partition, rig, own, copier, stop)
            for own, copier in enumerate(copiers)
        ]
        eventually(
            lambda: (
                any(run.done() for run in runs)
                or sum(map(len, read(rig.servers, "read_committed"))) == PUBLISHED * (HOPS + 1)
            ),
            what="all hops are committed",
        )
        stop.set()
        assert all(run.result() > 0 for run in runs)
    assert problems(rig.servers, copiers) == []
    assert has_read_from(copiers[0], copiers[1])
    assert has_read_from(copiers[1], copiers[0])


def copy_partition(rig: Rig, own: int, copier: One, stop: threading.Event) -> int:
    """In a group of its own, so that no partition moves."""
    consumer = rig.consumer(
        group=f"copier-{own}", enable_auto_commit=False, isolation="read_committed"
    )

    def transform(message: Message) -> list[OutgoingRecord]:
        return copier.copies(message) if message.partition == own else []

    return Copier(consumer, copier.producer, CIRCLE, transform, max_records=5).run(stop)


def test_transactions_that_read_what_is_not_committed_are_found(rig: Rig, tmp_path: Path) -> None:
    """The circle that a broker makes which shows what is not committed, here by readers that ask
    for it: each of two open transactions reads what the other one has written."""
    with ExitStack() as stack:
        a, b = (One(name, rig.servers, tmp_path, stack) for name in ("a", "b"))
        for one in (a, b):
            one.producer.init_transactions()
            one.producer.begin_transaction()
        a.copy(read(rig.servers, "read_uncommitted")[0][0])
        b.copy(last(read(rig.servers, "read_uncommitted")[1], "0/1"))
        a.copy(last(read(rig.servers, "read_uncommitted")[0], "0/2"))
        assert sum(map(len, read(rig.servers, "read_committed"))) == PUBLISHED
        a.producer.commit_transaction()
        b.producer.commit_transaction()
        eventually(
            lambda: sum(map(len, read(rig.servers, "read_committed"))) == PUBLISHED + 3,
            what="all three are committed",
        )
    found = {line.partition(":")[0] for line in problems(rig.servers, (a, b))}
    assert {"G1c", "precommitted-read"} <= found
