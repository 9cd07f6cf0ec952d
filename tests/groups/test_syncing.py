"""SyncGroup: who gets which part, when, and that it is kept before it is told."""

from __future__ import annotations

import pytest
from group_coordinator import GROUP, Coordinator, error

from tallymark.groups.group import State
from tallymark.groups.records import GroupMetadata


def two(at: Coordinator) -> tuple[str, str]:
    """Leader and follower of a generation that waits for its assignment."""
    leader, follower = at.stable({}, {})
    at.join(leader)
    at.join(follower)
    assert at.stands(State.COMPLETING_REBALANCE)
    return leader, follower


def test_everybody_gets_a_part_when_the_leader_has_brought_it() -> None:
    at = Coordinator()
    leader, follower = two(at)
    waiting = at.sync(follower)
    assert waiting in at.parked
    own = at.sync(leader, assignments={leader: b"L", follower: b"F"})
    assert (at.synced(own).assignment, at.synced(waiting).assignment) == (b"L", b"F")
    assert at.synced(own).protocol_type == "consumer"
    assert at.synced(own).protocol == "range"
    assert at.stands(State.STABLE)


def test_a_late_follower_is_answered_at_once() -> None:
    at = Coordinator()
    leader, follower = two(at)
    at.sync(leader, assignments={follower: b"F", "stranger": b"X"})
    assert at.synced(at.sync(follower)).assignment == b"F"
    assert at.synced(at.sync(leader)).assignment == b""  # the leader forgot itself


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"member_id": "stranger"}, "UNKNOWN_MEMBER_ID"),
        ({"generation": 1}, "ILLEGAL_GENERATION"),
        ({"generation": 99}, "ILLEGAL_GENERATION"),
        ({"protocol_type": "connect"}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"protocol": "sticky"}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"instance_id": "one"}, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_syncs_that_are_refused(changes: dict[str, object], name: str) -> None:
    at = Coordinator()
    leader, _ = two(at)
    arguments = {"member_id": leader, "assignments": {leader: b"L"}, **changes}
    assert error(at.synced(at.sync(**arguments))) == name  # type: ignore[arg-type] # see above
    assert at.stands(State.COMPLETING_REBALANCE)


def test_a_sync_while_others_join_is_told_to_join_too() -> None:
    at = Coordinator()
    leader, _ = at.stable({}, {})
    at.join()
    assert error(at.synced(at.sync(leader))) == "REBALANCE_IN_PROGRESS"


def test_a_sync_to_nobody() -> None:
    at = Coordinator()
    assert error(at.synced(at.sync("m", 0))) == "UNKNOWN_MEMBER_ID"


def test_a_member_that_comes_meanwhile_sends_the_waiting_back_to_join() -> None:
    at = Coordinator()
    _, follower = two(at)
    waiting = at.sync(follower)
    at.join()
    assert error(at.synced(waiting)) == "REBALANCE_IN_PROGRESS"


def test_who_never_asks_for_its_part_is_out_after_the_rebalance_timeout() -> None:
    at = Coordinator()
    leader, follower = two(at)
    at.sync(leader, assignments={})
    for _ in range(6):
        at.wait(9_999)
        at.heartbeat(leader)
        at.heartbeat(follower)
    assert follower in at.group.members
    at.wait(6)
    assert follower not in at.group.members
    assert error(at.heartbeat(leader)) == "REBALANCE_IN_PROGRESS"


def test_a_leader_that_never_brings_the_assignment_is_replaced() -> None:
    at = Coordinator()
    leader, follower = two(at)
    waiting = at.sync(follower)
    at.wait(10_000)  # its session ends first
    assert error(at.synced(waiting)) == "REBALANCE_IN_PROGRESS"
    reply = at.joined(at.join(follower))
    assert reply.leader == follower
    assert leader not in at.group.members


def test_the_assignment_is_kept_before_it_is_told() -> None:
    at = Coordinator()
    leader, follower = at.stable({}, {})
    kept = at.state.metadata[GROUP]
    assert isinstance(kept, GroupMetadata)
    assert {bytes(m.assignment) for m in kept.members} == {leader.encode(), follower.encode()}
    assert (kept.generation, kept.leader, kept.protocol) == (1, leader, "range")


def test_an_assignment_that_cannot_be_kept_is_told_to_nobody() -> None:
    at = Coordinator()
    leader, follower = two(at)
    waiting = at.sync(follower)
    at.fail_with = 15
    own = at.sync(leader, assignments={leader: b"L", follower: b"F"})
    assert [error(at.answers[t]) for t in (own, waiting)] == ["COORDINATOR_NOT_AVAILABLE"] * 2
    assert at.stands(State.PREPARING_REBALANCE)
    again = at.join(leader)
    at.join(follower)
    assert at.joined(again).generation == 3


def test_a_sync_sent_again_is_answered_and_the_old_one_too() -> None:
    at = Coordinator()
    leader, follower = two(at)
    lost, again = at.sync(follower), at.sync(follower)
    assert error(at.synced(lost)) == "REBALANCE_IN_PROGRESS"
    at.sync(leader, assignments={follower: b"F"})
    assert at.synced(again).assignment == b"F"
