"""What a follower does with the answers of a leader: logs in memory on both sides."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest
from copying import ME, REGISTERED, Copying, eventually
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_broker import CONFIG, batch

from tallymark.broker.replicas.fetching import Followers
from tallymark.errors import CODES


def test_an_empty_replica_catches_up_and_goes_on() -> None:
    copying = Copying()
    copying.lead(0, 0, 2)

    async def work(_: Followers) -> None:
        await eventually(copying.is_equal)
        copying.lead(2, 2)
        await eventually(copying.is_equal)

    copying.run(work)
    first, last = copying.leader.fetches[0], copying.leader.fetches[-1]
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (ME, REGISTERED)
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
    ends = [each.topics[0].partitions[0].fetch_offset for each in copying.leader.fetches[:3]]
    assert ends == [10, 6, 4]


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


def test_a_log_that_begins_behind_the_end_of_the_leaders_begins_anew() -> None:
    """After an unclean election the leader had less than the follower's log had deleted: there is
    no epoch to compare, only the range that the leader has."""
    copying = Copying()
    copying.follower.log.truncate_fully_and_start_at(50, 0)
    copying.lead(0, 0)
    copying.until_equal()
    assert copying.follower.log.start_offset == 0


def test_a_leader_that_does_not_say_its_range_sets_one_partition_aside() -> None:
    copying = Copying()
    copying.follower.log.truncate_fully_and_start_at(50, 0)
    copying.lead(0)
    copying.leaders.range_error = CODES["NOT_LEADER_OR_FOLLOWER"]
    other = copying.another()

    async def work(followers: Followers) -> None:
        followers.follow(other.follower.partition, 1)
        (bad,) = [each for each in followers if each.key == ("orders", 0)]
        await eventually(lambda: bad.following.failures > 1)
        await eventually(other.is_equal)
        copying.leaders.range_error = 0
        await eventually(copying.is_equal)

    copying.run(work)


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
    other = copying.another()

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


def test_a_flush_of_another_is_waited_for_before_the_ask() -> None:
    """The flush of the broker's housekeeping was under way, so the follower began none, and told
    its leader of records that a power failure could take."""
    copying = Copying(config=replace(CONFIG, flush_before_expose=True))
    copying.lead(0)
    told: list[tuple[int, int]] = []

    def asked(request: Any) -> None:
        point = copying.follower.log.recovery_point
        told.extend((topic.partitions[0].fetch_offset, point) for topic in request.topics)

    async def work(_: Followers) -> None:
        log = copying.follower.log
        # Its own flush is over, too.
        await eventually(lambda: copying.is_equal() and log.recovery_point == log.end_offset)
        copying.leader.at_fetch = asked
        log.append_leaders(batch(log.end_offset, 0), 0, 0)
        job = log.begin_flush()
        assert job is not None
        copying.lead(0, 0)
        await asyncio.sleep(0.05)
        assert all(offset <= point for offset, point in told)
        job.run()
        log.finish_flush(job)
        await eventually(copying.is_equal)

    copying.run(work)
    assert told
    assert all(offset <= point for offset, point in told)


def test_a_disk_that_fails_in_a_cut_leaves_a_log_and_the_cut_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    copying = Copying()
    copying.follower.follow(0, 0, 1, 1)
    copying.follower.log.flush()
    copying.follower.manager.checkpoint()
    copying.lead(0, 2)
    copying.follower.files.fail_next_sync("orders-0", error=24)  # EMFILE: the disk is good

    copying.until_equal()
    assert "cut failed partition=orders-0" in caplog.text
    assert "not copied partition=orders-0" in caplog.text


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
    other = copying.another()

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
