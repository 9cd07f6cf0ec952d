"""Answers of leaders in any order, late and twice, through changes of the leader."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field

from copying import content
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_broker import ReplicaBroker
from scripted_leader import LeadersLog

from tallymark.broker.maintenance.cleaner import Cleaner
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.answers import FetchedPartition, read_answer
from tallymark.broker.replicas.cutting import ReplicaCutter
from tallymark.broker.replicas.followed import FollowedPartition, pieces
from tallymark.errors import CODES
from tallymark.log.cutting import Cut
from tallymark.protocol.messages import FetchRequestPartition
from tallymark.protocol.records.batch import encode_batch, place_batch
from tallymark.replication.following import Ask
from tallymark.testing.memory_files import MemoryFiles

TOPIC = uuid.UUID(int=1)
APPEND, FETCH, COMMIT, ELECT, ASK, LATE = "append", "fetch", "commit", "elect", "ask", "late"
STEPS = st.lists(
    st.tuples(
        st.sampled_from([APPEND, APPEND, FETCH, FETCH, FETCH, COMMIT, ELECT, ASK, LATE, LATE]),
        st.integers(0, 20),
    ),
    min_size=10,
    max_size=60,
)


def record(offset: int, epoch: int) -> bytes:
    """A record that says who wrote it."""
    data = bytearray(encode_batch([(None, b"epoch %d" % epoch, (), offset)]))
    place_batch(data, 0, offset, epoch)
    return bytes(data)


@dataclass
class Story:
    """A leader and a follower. ``committed`` is the high watermark of the leaders, which no
    election may lose, as long as only the follower was in sync with it: the follower's end when it
    was told."""

    broker: ReplicaBroker
    cutter: ReplicaCutter
    leaders: LeadersLog = field(default_factory=lambda: LeadersLog("orders", TOPIC, 0))
    answers: list[tuple[Ask, FetchedPartition]] = field(
        default_factory=list[tuple[Ask, FetchedPartition]]
    )
    clock: int = 0

    def __post_init__(self) -> None:
        self.followed = self._followed()

    def _followed(self) -> FollowedPartition:
        old = self.broker.partition
        new = Partition(old.topic, old.index, TOPIC, old.log, self.leaders.epoch)
        new.begin_replicated(old.high_watermark)
        self.broker.partition = new
        return FollowedPartition(new, 1, self.cutter, lambda: 0, self.clock_ms, 1)

    def clock_ms(self) -> int:
        self.clock += 100_000
        return self.clock

    async def do(self, step: str, number: int) -> None:
        log = self.leaders.log
        if step == APPEND:
            for _ in range(number % 3 + 1):
                end, epoch = log.end_offset, self.leaders.epoch
                log.append_leaders(record(end, epoch), epoch, 0)
        elif step == COMMIT:  # both have it, as far as the leader has been told
            ask = self.followed.ask()
            if ask is not None and self.agrees(ask):
                self.leaders.high_watermark = max(self.leaders.high_watermark, ask.offset)
        elif step == ELECT:  # of one that has less, but all that is committed
            await self.followed.end()
            committed = self.leaders.high_watermark
            log.truncate_to(committed + number % (log.end_offset - committed + 1), 0)
            self.leaders.epoch += number % 2 + 1
            log.start_epoch(self.leaders.epoch)
            self.followed = self._followed()
        elif step == ASK:
            self.ask()
        elif step == FETCH:
            if self.ask() is not None:
                await self.answered(*self.answers[-1])
        elif step == LATE and self.answers:  # any of them, as often as it likes
            await self.answered(*self.answers[-1 - number % len(self.answers)])

    def agrees(self, ask: Ask) -> bool:
        return self._told(ask).answer[:2] == (0, None)

    def ask(self) -> Ask | None:
        ask = self.followed.ask()
        if ask is not None:
            self.answers.append((ask, self._told(ask)))
        return ask

    async def answered(self, ask: Ask, told: FetchedPartition) -> None:
        if await self.followed.answered(ask, told):
            log = self.leaders.log
            self.followed.range_told(ask, log.start_offset, log.end_offset)
        await self.done()

    async def done(self) -> None:
        if self.followed.doing is not None:
            await asyncio.wait([self.followed.doing])

    def _told(self, ask: Ask) -> FetchedPartition:
        return read_answer(
            self.leaders.answer(
                FetchRequestPartition(
                    partition=0,
                    current_leader_epoch=ask.leader_epoch,
                    fetch_offset=ask.offset,
                    last_fetched_epoch=ask.last_epoch,
                    partition_max_bytes=150,
                )
            )
        )

    async def catch_up(self) -> None:
        await self.do(APPEND, 0)  # a leader that writes nothing leaves its epoch unknown to others
        for _ in range(500):
            ask = self.ask()
            await self.done()
            if ask is not None:
                if ask.offset == self.leaders.log.end_offset and self.agrees(ask):
                    return
                await self.answered(*self.answers[-1])
        raise AssertionError(f"still not equal: {self.followed.aside}")


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_whatever_the_order_of_answers_nothing_committed_is_cut(
    steps: list[tuple[str, int]],
) -> None:
    """KIP-101, KIP-279, KAFKA-13266: a leader counts what the follower has told it, and elections
    keep what is committed. The follower is a prefix of its leader in the end, was cut below what
    was committed never, and its high watermark is not above that."""
    cuts: list[tuple[int, int]] = []
    story: list[Story] = []

    def hears(_: Partition, cut: Cut) -> None:
        cuts.append((cut.end_offset, story[0].leaders.high_watermark))

    broker = ReplicaBroker(MemoryFiles())

    async def work(cutter: ReplicaCutter, _: Cleaner) -> None:
        one = Story(broker, cutter)
        story.append(one)
        for step, number in steps:
            await one.do(step, number)
            assert one.followed.partition.high_watermark <= one.leaders.high_watermark
        await one.catch_up()
        assert content(broker.log) == content(one.leaders.log)

    broker.run(work, (hears,))
    assert all(end >= committed for end, committed in cuts)


@given(st.integers(0, 30), st.integers(1, 12), st.booleans())
def test_pieces_are_the_same_batches_in_order(count: int, most: int, bad: bool) -> None:
    broker = ReplicaBroker(MemoryFiles())
    data = b"".join(record(offset, 0) for offset in range(count)) + b"no batch" * bad
    checked = broker.log.check_leaders(data, broker.log.follows(0))
    found = list(pieces(checked, most))
    assert b"".join(bytes(each.data) for each in found)[: len(data)].startswith(
        data[: len(data) - 8 * bad]
    )
    assert [header for each in found for header in each.headers] == list(checked.headers)
    assert all(len(each.headers) <= most for each in found)
    assert [each.fault for each in found[:-1]] == [None] * (len(found) - 1)
    assert (found[-1].fault is not None) is bad
    if bad:
        assert found[-1].fault is not None
        assert found[-1].fault.code == CODES["CORRUPT_MESSAGE"]
