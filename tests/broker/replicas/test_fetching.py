"""What a follower does with the answers of a leader: logs in memory on both sides."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_broker import CONFIG, ReplicaBroker, batch
from scripted_leader import LeadersLog, ScriptedLeader

from tallymark.broker.maintenance.cleaner import Cleaner
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.cutting import ReplicaCutter
from tallymark.broker.replicas.fetch_settings import FetchSettings
from tallymark.broker.replicas.fetching import Followers
from tallymark.errors import CODES, KafkaError
from tallymark.log import Log
from tallymark.testing.memory_files import MemoryFiles

SETTINGS = FetchSettings(replica_fetch_wait_max_ms=1, replica_fetch_backoff_ms=1)
ME = 2


class Copying:
    """One follower of orders-0 and its leader. ``epoch`` is the leader epoch of both."""

    def __init__(self, epoch: int = 0, config: Any = CONFIG) -> None:
        self.follower = ReplicaBroker(MemoryFiles(), config)
        self.leader = ScriptedLeader()
        self.leaders = LeadersLog("orders", self.follower.partition.topic_id, epoch)
        self.leader.logs[self.leaders.topic_id] = self.leaders
        self.clock = 0

    def lead(self, *epochs: int) -> None:
        """Append a batch of each of these epochs to the leader's log, and be in the last one."""
        for epoch in epochs:
            found = self.leaders.log
            found.append_leaders(batch(found.end_offset, epoch), epoch, 0)
        self.leaders.epoch = max(self.leaders.epoch, *epochs)
        self.leaders.high_watermark = self.leaders.log.end_offset

    @property
    def partition(self) -> Partition:
        return self.follower.partition

    def run(self, work: Callable[[Followers], Awaitable[None]]) -> None:
        """``work`` with followers that copy the partition in the leader's present epoch."""

        async def with_cutter(cutter: ReplicaCutter, _: Cleaner) -> None:
            followers = Followers(ME, self.leader, cutter, SETTINGS, self.now_ms)
            followers.registered(5)
            self.partition.leader_epoch = self.leaders.epoch
            followers.follow(self.partition, self.leader.id)
            try:
                await work(followers)
            finally:
                await followers.stop()

        self.follower.run(with_cutter)

    def now_ms(self) -> int:
        """It goes on by a second at each look, so no pause is long."""
        self.clock += 1000
        return self.clock

    def until_equal(self) -> None:
        self.run(lambda _: eventually(self.is_equal))

    def is_equal(self) -> bool:
        try:
            self.follower.log.check_usable()
        except KafkaError:
            return False  # it is being cut
        return content(self.follower.log) == content(self.leaders.log) and (
            self.partition.high_watermark == self.leaders.high_watermark
        )


def content(log: Log) -> tuple[int, int, bytes, tuple[tuple[int, int], ...]]:
    data = b""
    at = log.start_offset
    while at < log.end_offset:
        found = log.read(at, 1 << 20)
        data += bytes(found.read())
        at = found.next_offset
    return log.start_offset, log.end_offset, data, log.epochs


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.001)


def test_an_empty_replica_catches_up_and_goes_on() -> None:
    copying = Copying()
    copying.lead(0, 0, 2)

    async def work(_: Followers) -> None:
        await eventually(copying.is_equal)
        copying.lead(2, 2)
        await eventually(copying.is_equal)

    copying.run(work)
    first, last = copying.leader.fetches[0], copying.leader.fetches[-1]
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (ME, 5)
    assert first.session_epoch == 0
    assert last.session_epoch > 0, "later requests name what has changed only"
    assert copying.partition.traffic.replicated_bytes > 0


def test_what_the_leader_does_not_have_is_cut() -> None:
    copying = Copying()
    copying.follower.follow(0, 0, 1, 1)
    copying.lead(0, 0, 2, 2)
    copying.until_equal()


def test_a_log_parts_twice_and_is_cut_in_two_rounds() -> None:
    """KIP-279: after two quick changes of the leader one question told a follower to keep records
    that the leader does not have."""
    copying = Copying()
    copying.follower.follow(0, 1, 1, 3, 3)
    copying.lead(0, 1, 2, 4)
    copying.until_equal()


def test_an_epoch_without_a_record_goes_before_anything_is_copied() -> None:
    """KAFKA-15608: an epoch that a leader began and never wrote in stood in a follower's cache, so
    records of an older epoch were taken for its own."""
    copying = Copying()
    copying.follower.follow(0)
    copying.follower.log.start_epoch(3)
    copying.lead(0, 1, 4)
    copying.until_equal()


def test_a_log_that_ends_before_the_leaders_begins_starts_there() -> None:
    copying = Copying()
    copying.follower.follow(0)
    copying.lead(0, 0, 0, 0)
    copying.leaders.log.delete_records(6)
    copying.until_equal()
    assert copying.follower.log.start_offset == 6


def test_records_that_the_leader_has_deleted_go_here_too() -> None:
    copying = Copying()
    copying.lead(0, 0, 0)

    async def work(_: Followers) -> None:
        await eventually(copying.is_equal)
        copying.leaders.log.delete_records(3)
        copying.lead(0)
        await eventually(lambda: copying.follower.log.start_offset == 3)

    copying.run(work)


def test_a_corrupt_batch_sets_one_partition_aside_and_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """KAFKA-8346: one bad partition ended a fetcher, and all others of it were copied no more."""
    copying = Copying()
    copying.lead(0, 0)
    other = another(copying)

    def corrupt(answer: Any) -> Any:
        data = bytearray(answer.records or b"")
        if data:
            data[-1] ^= 1
        return replace(answer, records=bytes(data))

    copying.leaders.change = corrupt

    async def work(followers: Followers) -> None:
        followers.follow(other.follower.partition, 1)
        await eventually(other.is_equal)
        (bad,) = [each for each in followers if each.key == ("orders", 0)]
        await eventually(lambda: bad.aside is not None)
        assert bad.aside is not None
        assert "batch at offset" in bad.aside.why
        copying.leaders.change = lambda answer: answer
        await eventually(copying.is_equal)
        assert bad.aside is None

    with caplog.at_level(logging.WARNING):
        copying.run(work)
    lines = [record.message for record in caplog.records if "not copied" in record.message]
    assert len(lines) == 1, "one line for each reason"
    assert "verify-log" in lines[0]


def another(beside: Copying) -> Copying:
    """A second partition of the same leader."""
    other = Copying()
    topic_id = uuid.UUID(int=77)
    other.leader = beside.leader
    other.leaders = LeadersLog("other", topic_id, beside.leaders.epoch)
    beside.leader.logs[topic_id] = other.leaders
    log = other.follower.manager.create("other", 0, topic_id, 0)
    other.follower.log = log
    other.follower.partition = Partition("other", 0, topic_id, log, beside.leaders.epoch)
    other.follower.partition.begin_replicated(0)
    other.lead(beside.leaders.epoch)
    return other


@pytest.mark.parametrize(
    "code", ["NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "UNKNOWN_SERVER_ERROR"]
)
def test_an_error_of_the_leader_is_waited_out(code: str) -> None:
    copying = Copying()
    copying.lead(0)
    copying.leaders.error = CODES[code]

    async def work(followers: Followers) -> None:
        (followed,) = followers
        await eventually(lambda: followed.following.failures >= 2)
        copying.leaders.error = 0
        await eventually(copying.is_equal)

    copying.run(work)


def test_a_leader_that_is_gone_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    copying = Copying()
    copying.lead(0)

    async def work(_: Followers) -> None:
        await eventually(copying.is_equal)
        copying.leader.refused = True
        copying.lead(0)
        await eventually(lambda: "nothing is copied from broker 1" in caplog.text)
        copying.leader.refused = False
        await eventually(copying.is_equal)

    copying.run(work)
    assert copying.leader.opened == 2


def test_a_session_that_the_leader_has_forgotten_begins_anew() -> None:
    copying = Copying()
    copying.lead(0)

    async def work(_: Followers) -> None:
        await eventually(copying.is_equal)
        copying.leader._sessions.clear()
        copying.lead(0)
        await eventually(copying.is_equal)

    copying.run(work)


def test_nothing_is_copied_while_this_broker_is_not_registered() -> None:
    copying = Copying()
    copying.lead(0)

    async def work(followers: Followers) -> None:
        await eventually(copying.is_equal)
        followers.registered(-1)
        await asyncio.sleep(0.02)  # the request that is on its way
        copying.lead(0)
        await asyncio.sleep(0.02)
        assert not copying.is_equal()
        followers.registered(9)
        await eventually(copying.is_equal)
        assert copying.leader.fetches[-1].replica_state.replica_epoch == 9

    copying.run(work)


def test_an_answer_of_another_time_is_thrown_away() -> None:
    """KAFKA-13266: the state of a fetch was taken before the old fetcher had let go, and records
    were appended at offsets that were there already."""
    copying = Copying()
    copying.lead(0, 0)
    asked = 0

    def changed(_: Any) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:  # while the answer is on its way, the log gets its first batch otherwise
            copying.follower.follow(0)

    copying.leader.at_fetch = changed
    copying.until_equal()
    assert asked >= 2


def test_on_return_of_unfollow_nothing_is_appended_any_more() -> None:
    copying = Copying()
    copying.lead(*[0] * 50)

    async def work(followers: Followers) -> None:
        await eventually(lambda: copying.follower.log.end_offset > 0)
        await followers.unfollow([("orders", 0)])
        end = copying.follower.log.end_offset
        copying.lead(0, 0)
        await asyncio.sleep(0.02)
        assert copying.follower.log.end_offset == end
        assert list(followers) == []

    copying.run(work)


def test_with_flush_before_expose_an_ask_says_what_is_on_the_disk() -> None:
    copying = Copying(config=replace(CONFIG, flush_before_expose=True))
    flushed: list[tuple[int, int]] = []
    copying.leader.at_fetch = lambda request: flushed.append(
        (copying.follower.log.recovery_point, copying.follower.log.end_offset)
    )
    copying.lead(0, 0, 0)
    copying.until_equal()
    assert flushed
    assert all(point == end for point, end in flushed)


def test_a_full_disk_sets_the_partition_aside_until_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    copying = Copying()
    copying.lead(0)

    async def work(_: Followers) -> None:
        await eventually(copying.is_equal)
        copying.follower.files.fail_next_write("orders-0")
        copying.lead(0)
        await eventually(copying.is_equal)

    copying.run(work)
    assert "not copied partition=orders-0 leader=1" in caplog.text
    assert "KAFKA_STORAGE_ERROR" in caplog.text


def test_a_dead_disk_ends_the_copying_of_its_partitions_only() -> None:
    copying = Copying()
    copying.lead(0)
    other = another(copying)

    async def work(followers: Followers) -> None:
        followers.follow(other.follower.partition, 1)
        await eventually(lambda: copying.is_equal() and other.is_equal())
        copying.follower.files.break_disk("/d")
        copying.lead(0)
        other.lead(0)
        (bad,) = [each for each in followers if each.key == ("orders", 0)]
        await eventually(lambda: bad.aside is not None)
        await eventually(other.is_equal)

    copying.run(work)


@settings(max_examples=60, deadline=None)
@given(
    common=st.lists(st.integers(0, 2), max_size=4).map(sorted),
    mine=st.lists(st.integers(3, 6), max_size=4).map(sorted),
    leaders=st.lists(st.integers(3, 7), max_size=5).map(sorted),
)
def test_whatever_both_have_the_follower_becomes_equal(
    common: list[int], mine: list[int], leaders: list[int]
) -> None:
    """Records of the same epoch and offset are the same, as one leader wrote them; so the own ones
    are of other epochs than the leader's."""
    mine = [epoch for epoch in mine if epoch not in leaders]
    copying = Copying()
    copying.follower.follow(*common, *mine)
    copying.follower.commit(len(common) * 2)
    copying.lead(*common, *leaders, 8)
    copying.until_equal()
