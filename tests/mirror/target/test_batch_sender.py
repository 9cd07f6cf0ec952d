"""What the sender makes of a target that refuses, forgets, hangs up or is late."""

from __future__ import annotations

import queue
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hostile_batches import garbage

from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.core.cluster import Cluster
from tallymark.client.core.io_thread import IoThread
from tallymark.errors import CODES, KafkaError, TimedOutError
from tallymark.mirror.corruption import UnfitBatchError
from tallymark.mirror.target import batch_sender
from tallymark.mirror.target.batch_sender import BatchSender
from tallymark.mirror.target.ready_batch import Origin, ReadyBatch
from tallymark.protocol.api import ApiKey
from tallymark.protocol.records.batch import Batch, split_batches
from tallymark.protocol.records.writer import encode_batch
from tallymark.testing.scripted_broker import Action, HangUp, Late, Refuse, ScriptedBroker

A, B = frozenset({"A"}), frozenset({"A", "B"})


class Sending:
    """A sender to a broker of the test, and what became of its batches."""

    def __init__(self, io: IoThread, cluster: Cluster, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.announced: list[tuple[int, Origin, int]] = []
        """Id, origin, and how many Produce requests the broker had had by then."""
        self.refusal: KafkaError | None = None
        self.settled: queue.SimpleQueue[tuple[int, Exception | None, int]] = queue.SimpleQueue()
        self.sender = BatchSender(io, cluster, self._announce)
        self._next = 0

    async def _announce(self, producer_id: int, origin: Origin) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.announced.append((producer_id, origin, self.broker.count(ApiKey.PRODUCE)))

    def send(
        self, count: int = 3, origin: Origin = A, partition: int = 0, batch: Batch | None = None
    ) -> int:
        """A batch of the next numbers, or another; the first of them."""
        first, self._next = self._next, self._next + count
        records = [(None, b"%d" % n, (), 1) for n in range(first, first + count)]
        sent = batch or split_batches(encode_batch(records))[0]

        def on_settled(error: Exception | None, base_offset: int) -> None:
            self.settled.put((first, error, base_offset))

        self.sender.wait_for_room(5)
        self.sender.send(ReadyBatch("clicks", partition, sent, origin, on_settled))
        return first

    def outcome(self) -> tuple[int, Exception | None, int]:
        return self.settled.get(timeout=20)

    def values(self, partition: int = 0) -> list[int]:
        return [int(value or b"") for value in self.broker.values("clicks", partition)]


@contextmanager
def sending() -> Iterator[Sending]:
    with ScriptedBroker(topics={"clicks": 2}) as broker:
        io = IoThread("sender")
        cluster = Cluster(Bootstrap.of(broker.address), "test", request_timeout=1.0)
        one = Sending(io, cluster, broker)
        try:
            yield one
        finally:
            io.run(one.sender.close())
            io.run(cluster.close())
            io.stop()


def test_an_id_is_announced_before_it_is_used() -> None:
    with sending() as one:
        for origin in (A, A, B, A):
            one.send(origin=origin)
        outcomes = [one.outcome() for _ in range(4)]
        assert outcomes == [(0, None, 0), (3, None, 3), (6, None, 6), (9, None, 9)]
        assert [entry[1] for entry in one.announced] == [A, B]
        assert one.announced[0][2] == 0
        assert one.values() == list(range(12)), "in order, over two ids"


@pytest.mark.parametrize("seed", range(6))
def test_trouble_that_passes_neither_loses_nor_repeats_nor_reorders(seed: int) -> None:
    chance = random.Random(seed)
    kinds: list[Action] = [
        Refuse(CODES["NOT_LEADER_OR_FOLLOWER"]),
        Refuse(CODES["UNKNOWN_TOPIC_OR_PARTITION"]),
        HangUp(),
        HangUp(after_append=True),
        Late(0.05),
    ]
    with sending() as one:
        one.broker.script(ApiKey.PRODUCE, *(chance.choice(kinds) for _ in range(8)))
        for number in range(20):
            one.send(chance.randint(1, 4), B if number % 7 == 3 else A)
        outcomes = [one.outcome() for _ in range(20)]
        assert [error for _, error, _ in outcomes] == [None] * 20
        assert one.values() == list(range(one._next))


def test_a_refusal_for_good_stops_its_partition_and_no_other() -> None:
    with sending() as one:
        one.send()
        assert one.outcome() == (0, None, 0)
        one.broker.script(ApiKey.PRODUCE, Refuse(CODES["TOPIC_AUTHORIZATION_FAILED"]))
        refused = one.send()
        first, error, offset = one.outcome()
        assert (first, offset) == (refused, -1)
        assert isinstance(error, KafkaError)
        assert error.name == "TOPIC_AUTHORIZATION_FAILED"
        behind = one.send()  # nothing overtakes what is missing
        other = one.send(partition=1)
        outcomes = {first: error for first, error, _ in (one.outcome(), one.outcome())}
        assert outcomes == {behind: error, other: None}
        one.sender.reopen()
        again = one.send()
        assert one.outcome()[:2] == (again, None)
        assert one.values() == [0, 1, 2, *range(again, again + 3)]


@pytest.mark.parametrize("name", ["INVALID_RECORD", "CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE"])
def test_records_that_are_refused_hold_up_nobody(name: str) -> None:
    """Nonsense under a right CRC, which the target looks into: its partition stood still, and the
    mirror ended."""
    (nonsense,) = split_batches(garbage(count=2, last_delta=1))
    with sending() as one:
        one.broker.script(ApiKey.PRODUCE, Refuse(CODES[name]))
        refused = one.send(2, batch=nonsense)
        others = [one.send(), one.send()]
        found = {first: error for first, error, _ in (one.outcome() for _ in range(3))}
        assert isinstance(found.pop(refused), UnfitBatchError)
        assert found == dict.fromkeys(others)
        assert one.values() == list(range(2, 8))


def test_a_target_that_keeps_refusing_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_sender, "PATIENCE", 0.3)
    with sending() as one:
        one.broker.script(
            ApiKey.PRODUCE, *(Refuse(CODES["UNKNOWN_TOPIC_OR_PARTITION"]) for _ in range(100))
        )
        sent = [one.send(), one.send()]
        outcomes = [one.outcome(), one.outcome()]
        assert [first for first, _, _ in outcomes] == sent
        assert all(isinstance(error, KafkaError) for _, error, _ in outcomes)


def test_without_an_announcement_nothing_is_sent() -> None:
    with sending() as one:
        one.refusal = KafkaError(CODES["TOPIC_AUTHORIZATION_FAILED"], "announcements")
        one.send()
        assert one.outcome()[1] is one.refusal
        assert one.broker.count(ApiKey.PRODUCE) == 0


def test_a_batch_that_is_too_large_goes_in_halves_and_in_its_place() -> None:
    with sending() as one:
        one.broker.script(ApiKey.PRODUCE, Refuse(CODES["MESSAGE_TOO_LARGE"]))
        for _ in range(4):
            one.send(5)
        found = [one.outcome() for _ in range(4)]
        outcomes = {first: (error, offset) for first, error, offset in found}
        assert set(outcomes) == {0, 5, 10, 15}
        assert outcomes[0] == (None, -1), "where it lies was not told in one piece"
        assert one.values() == list(range(20))
        assert len(one.announced) == 1, "the halves share out the numbers of the whole"


def test_there_is_room_for_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_sender, "BUFFER_BYTES", 200)
    with sending() as one:
        one.broker.stop()
        one.send(30)
        with pytest.raises(TimedOutError, match="the target does not take what is sent"):
            one.sender.wait_for_room(0.05)
        one.broker.start()
        assert one.outcome()[1] is None
        one.sender.wait_for_room(5)
