"""A connection to a leader, and all partitions that are copied through it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from copying import ME, SETTINGS, Copying, eventually

from tallymark.broker.replicas import sessions
from tallymark.broker.replicas.fetching import Followers
from tallymark.errors import CODES

KEPT = replace(SETTINGS, replica_fetch_wait_max_ms=120_000)
"""A leader with nothing to send keeps a request for longer than any test lasts."""


def test_a_leader_that_is_gone_is_tried_again_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    copying = Copying()
    copying.lead(0)

    async def work(followers: Followers) -> None:
        await eventually(copying.is_equal)
        assert followers.now()[:3] == (1, 0, 1)
        await copying.leader.die()
        copying.lead(0)
        await eventually(lambda: len(copying.connections.refusals) > 3)
        assert followers.now()[:3] == (0, 1, 1)
        copying.leader.live()
        await eventually(copying.is_equal)

    with caplog.at_level(logging.WARNING):
        copying.run(work)
    assert set(copying.connections.refusals) == {1}
    assert copying.connections.losses == [1], "the one that was open"
    lines = [line for line in caplog.messages if "nothing is copied from broker 1" in line]
    assert len(lines) <= 2, "one for the connection that broke, one for those that are refused"


def test_a_leader_that_nobody_knows_is_tried_until_it_is_known() -> None:
    copying = Copying()
    copying.lead(0)
    known = copying.leader.connections.answers.pop(1)

    async def work(_: Followers) -> None:
        await asyncio.sleep(0.02)
        copying.leader.connections.answers[1] = known
        await eventually(copying.is_equal)

    copying.run(work)
    assert copying.connections.refusals == [], "not known is not refused"


def test_a_session_that_the_leader_has_forgotten_begins_anew() -> None:
    copying = Copying()
    copying.lead(0)

    async def work(followers: Followers) -> None:
        await eventually(copying.is_equal)
        copying.leader.forget_sessions()
        copying.lead(0)
        await eventually(copying.is_equal)
        assert followers.now().connected == 1

    copying.run(work)
    assert len(copying.leader.connections.opened) == 1, "the connection is as good as before"


@pytest.mark.parametrize("name", ["CLUSTER_AUTHORIZATION_FAILED", "INVALID_FETCH_SESSION_EPOCH"])
def test_a_leader_that_refuses_whole_requests_is_not_asked_without_a_pause(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A session that begins anew needs no pause. A leader that refused each was asked as fast as
    the network allowed, and the log said nothing."""
    copying = Copying(settings=replace(SETTINGS, replica_fetch_backoff_ms=60_000))
    copying.lead(0)
    copying.leader.refusal = CODES[name]

    async def work(_: Followers) -> None:
        await eventually(lambda: "nothing is copied from broker 1" in caplog.text)
        count = len(copying.leader.fetches)
        await asyncio.sleep(0.05)
        assert len(copying.leader.fetches) == count <= 2

    copying.run(work)
    assert name in caplog.text


def test_nothing_is_copied_while_this_broker_is_not_registered() -> None:
    copying = Copying()
    copying.lead(0)

    async def work(followers: Followers) -> None:
        await eventually(copying.is_equal)
        followers.registered(-1)
        await eventually(lambda: followers.now().connected == 0)
        count = len(copying.leader.fetches)
        copying.lead(0)
        await asyncio.sleep(0.02)
        assert not copying.is_equal()
        assert len(copying.leader.fetches) == count
        followers.registered(9)
        await eventually(copying.is_equal)
        first = copying.leader.fetches[count]
        assert (first.replica_state.replica_epoch, first.session_epoch) == (9, 0)

    copying.run(work)


def test_what_a_stale_registration_set_aside_is_tried_with_the_next_one_at_once() -> None:
    """STALE_BROKER_EPOCH: this broker had come back, and its fetches were told apart. Its pauses
    had grown to half a minute; with its new epoch it has to be heard at once."""
    copying = Copying()
    copying.lead(0)
    copying.leaders.error = CODES["STALE_BROKER_EPOCH"]

    async def work(followers: Followers) -> None:
        (followed,) = followers
        await eventually(lambda: followed.following.failures >= 8)
        copying.clock_runs = False  # no pause ends by itself from now on
        copying.leaders.error = 0
        followers.registered(6)
        await eventually(copying.is_equal)

    copying.run(work)


def test_a_partition_that_comes_does_not_wait_for_a_request_that_the_leader_keeps() -> None:
    """The producers of a partition waited half a second for each change of its leader: its
    followers asked the new one when an idle request of other partitions had come back."""
    copying = Copying(settings=KEPT)
    copying.lead(0)
    other = copying.another()

    async def work(followers: Followers) -> None:
        await eventually(copying.is_equal)
        await eventually(lambda: copying.leader.fetches[-1].topics == ())  # it is kept
        followers.follow(other.follower.partition, 1)
        await eventually(other.is_equal)
        copying.lead(0)
        await eventually(copying.is_equal)

    copying.run(work)


def test_a_change_of_role_during_a_fetch_throws_its_answer_away() -> None:
    """KAFKA-13266, KAFKA-20634: what was asked of the leader of one epoch came when another one
    led, and was appended behind its records."""
    copying = Copying(settings=KEPT)
    copying.lead(0)
    held = asyncio.Event()

    async def work(followers: Followers) -> None:
        await eventually(copying.is_equal)
        answered = copying.leader.connections.answers[1]

        async def late(request: Any) -> Any:
            answer = await answered(request)
            await held.wait()
            return answer

        copying.leader.connections.answers[1] = late
        await eventually(lambda: len(copying.leader.connections.opened[0].sent) > 1)
        copying.lead(0)
        await asyncio.sleep(0.01)
        await followers.unfollow([("orders", 0)])
        copying.leaders.log.truncate_to(2, 0)  # the leader of epoch 1 does not have it
        copying.leader.connections.answers[1] = answered
        copying.lead(1)
        copying.partition.leader_epoch = 1
        followers.follow(copying.partition, 1)
        held.set()
        await eventually(copying.is_equal)

    copying.run(work)
    assert copying.follower.log.epochs == ((0, 0), (1, 2))


def test_a_partition_is_followed_once() -> None:
    copying = Copying()

    async def work(followers: Followers) -> None:
        with pytest.raises(ValueError, match="orders-0 is followed already"):
            followers.follow(copying.partition, 3)
        await followers.unfollow([("orders", 0), ("orders", 0), ("unknown", 1)])
        assert followers.now()[:3] == (0, 0, 0), "a fetcher without partitions has gone"
        followers.follow(copying.partition, 1)
        copying.lead(0)
        await eventually(copying.is_equal)

    copying.run(work)


def test_an_image_that_is_applied_while_the_broker_stops_begins_no_copying() -> None:
    """The fetcher that it began was stopped by no one, and tried its leader until the process
    ended."""
    copying = Copying()

    async def work(followers: Followers) -> None:
        await followers.unfollow([("orders", 0)])
        await followers.stop()
        followers.follow(copying.partition, 1)
        assert followers.now()[:3] == (0, 0, 0)

    copying.run(work)


def test_a_fault_of_ours_does_not_end_the_copying(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """KAFKA-8346: an error that was not thought of ended a fetcher, and nothing said that its
    partitions were not copied any more."""
    copying = Copying()
    copying.lead(0)
    faults = iter([ValueError("a bug"), ValueError("another")])

    def asked(_: object) -> None:
        fault = next(faults, None)
        if fault is not None:
            raise fault

    copying.leader.at_fetch = asked
    copying.until_equal()
    assert "by a fault of ours" in caplog.text


def test_what_is_throttled_is_paid_for_and_what_is_in_sync_is_not_throttled() -> None:
    """KIP-73: a replica in sync that is throttled would fall out of the ISR."""
    copying = Copying()
    copying.lead(*[0] * 20)
    copying.clock_runs = False
    copying.throttled = {("orders", 0)}
    copying.settings = replace(SETTINGS, replica_fetch_max_bytes=1)  # a batch in each answer
    other = copying.another()

    async def work(followers: Followers) -> None:
        followers.set_throttle(100)
        followers.follow(other.follower.partition, 1)
        await eventually(lambda: copying.follower.log.end_offset > 0)
        for _ in range(5):
            for _ in range(3):  # what the last second allows is asked for meanwhile
                end = copying.follower.log.end_offset
                other.lead(0)
                await eventually(other.is_equal)
            assert copying.follower.log.end_offset == end, "its bytes are not paid for yet"
            copying.clock += 3_000
            await eventually(partial(grown, copying, end))
        followers.set_throttle(None)
        await eventually(copying.is_equal)

    copying.run(work)


def grown(copying: Copying, end: int) -> bool:
    return copying.follower.log.end_offset > end


def test_a_session_of_very_many_partitions_begins_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request that named 10,000 partitions was encoded in one turn of the event loop, and its
    answer decoded in one: everybody else waited for 50 ms."""
    monkeypatch.setattr(sessions, "MOST_NEW", 10)
    copying = Copying()
    others = [copying.another("many", index) for index in range(35)]

    async def work(followers: Followers) -> None:
        for each in others:
            followers.follow(each.partition, 1)
        await eventually(lambda: all(each.is_equal() for each in others))

    copying.run(work)
    named = [sum(len(topic.partitions) for topic in each.topics) for each in copying.leader.fetches]
    seen: set[int] = set()
    for fetch in copying.leader.fetches:
        asked = {each.partition for topic in fetch.topics for each in topic.partitions}
        assert len(asked - seen) <= 10
        seen |= asked
    assert max(named) < 36


@pytest.mark.slow
def test_a_thousand_partitions_of_one_leader_share_a_connection() -> None:
    copying = Copying()
    copying.lead(0)
    others = [copying.another("many", index) for index in range(1_000)]

    async def work(followers: Followers) -> None:
        for each in others:
            followers.follow(each.partition, 1)
        await eventually(lambda: all(each.is_equal() for each in others))
        assert followers.now()[:3] == (1, 0, 1_001)
        await eventually(lambda: not copying.leader.fetches[-1].topics)
        seen = len(copying.leader.fetches)
        others[500].lead(0)
        await eventually(others[500].is_equal)
        named = {
            each.partition
            for fetch in copying.leader.fetches[seen:]
            for topic in fetch.topics
            for each in topic.partitions
        }
        assert named <= {500}
        await followers.unfollow([("many", index) for index in range(1_000)])
        assert followers.now().followed == 1

    copying.run(work)
    assert len(copying.leader.connections.opened) <= 2
    assert {fetch.replica_state.replica_id for fetch in copying.leader.fetches} == {ME}
