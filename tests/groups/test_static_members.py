"""Static members (KIP-345): they keep their place under a name of their own."""

from __future__ import annotations

from group_coordinator import GROUP, Coordinator, error

from tallymark.groups.group import GroupConfig, State

BOTH = (("sticky", b"s"), ("range", b"r"))


def static(name: str = "one", **more: object) -> dict[str, object]:
    return {"instance_id": name, **more}


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    at = Coordinator()
    leader, follower = at.stable(static("one"), static("two"))
    generation, moved = at.group.generation, at.group.members[follower].instance_id
    back = at.joined(at.join(instance_id=moved))
    assert (back.generation, back.error, back.members) == (generation, 0, ())
    assert at.stands(State.STABLE)
    assert back.member_id != follower
    part = at.synced(at.sync(back.member_id, instance_id=moved))
    assert part.assignment == follower.encode()
    assert error(at.heartbeat(follower, instance_id=moved)) == "FENCED_INSTANCE_ID"
    assert error(at.heartbeat(leader)) == ""
    at.restart()
    assert back.member_id in at.group.members


def test_a_static_leader_from_version_9_is_told_to_keep_the_assignment() -> None:
    at = Coordinator()
    leader, _ = at.stable(static("one"), {})
    back = at.joined(at.join(instance_id="one", may_skip_assignment=True))
    assert (back.skip_assignment, back.leader, len(back.members)) == (True, back.member_id, 2)
    assert at.group.leader == back.member_id != leader


def test_an_older_static_leader_is_not_told_that_it_leads() -> None:
    """A stable group would not spread a new assignment, so it must not make one."""
    at = Coordinator()
    leader, _ = at.stable(static("one"), {})
    back = at.joined(at.join(instance_id="one"))
    assert (back.skip_assignment, back.leader, back.members) == (False, leader, ())


def test_a_static_member_that_changes_the_vote_causes_a_rebalance() -> None:
    at = Coordinator()
    first, _ = at.stable(static("one", protocols=BOTH), static("two", protocols=BOTH[::-1]))
    assert at.group.protocol == "sticky"
    instance = at.group.members[first].instance_id
    back = at.join(instance_id=instance, protocols=BOTH[1:])
    assert back in at.parked
    assert at.stands(State.PREPARING_REBALANCE)


def test_replacing_a_static_member_that_waits_fences_it() -> None:
    at = Coordinator()
    leader, follower = at.stable(static("one"), static("two"))
    old = at.join(leader, instance_id=at.group.members[leader].instance_id)
    new = at.join(instance_id=at.group.members[leader].instance_id)
    assert error(at.answers[old]) == "FENCED_INSTANCE_ID"
    at.join(follower)
    assert at.joined(new).error == 0


def test_a_static_member_that_comes_again_while_it_waits_has_as_long_as_before() -> None:
    """Restarted during its first rebalance, which waits for somebody slow, it was thrown out of it
    when its session had passed, though it cannot send heartbeats while its join is parked."""
    at = Coordinator()
    (slow,) = at.stable()
    at.join(instance_id="one")
    at.heartbeat(slow)
    again = at.join(instance_id="one")
    for _ in range(4):
        at.wait(6_000)
        at.heartbeat(slow)
    assert again in at.parked
    at.join(slow)
    assert error(at.joined(again)) == ""


def test_replacing_a_static_member_before_the_assignment_begins_anew() -> None:
    at = Coordinator()
    leader, _ = at.stable(static("one"), {})
    again = at.join(leader, instance_id="one")
    other = next(m for m in at.group.members if m != leader)
    at.join(other)
    waiting = at.sync(other)
    assert at.joined(again).error == 0
    new = at.join(instance_id="one")
    assert error(at.answers[waiting]) == "REBALANCE_IN_PROGRESS"
    assert new in at.parked


def test_a_wrong_pair_of_ids_is_fenced_or_unknown() -> None:
    at = Coordinator()
    member, _ = at.stable(static("one"), {})
    assert error(at.joined(at.join("other", instance_id="one"))) == "FENCED_INSTANCE_ID"
    assert error(at.joined(at.join(member, instance_id="nobody"))) == "UNKNOWN_MEMBER_ID"


def test_static_members_keep_their_place_until_their_session_ends() -> None:
    at = Coordinator()
    absent, present = at.stable(
        static("one", session_timeout_ms=30_000, rebalance_timeout_ms=5_000),
        {"rebalance_timeout_ms": 5_000},
    )
    at.wait(4_000)
    at.heartbeat(present)
    ticket = at.join(present, protocols=(("range", b"more"),), rebalance_timeout_ms=5_000)
    at.wait(5_000)
    reply = at.joined(ticket)
    assert {member_id for member_id, _, _ in reply.members} == {absent, present}
    assert reply.leader == present


def test_a_takeover_that_cannot_be_kept_changes_nothing() -> None:
    at = Coordinator()
    leader, _ = at.stable(static("one"), {})
    at.fail_with = 16
    refused = at.joined(at.join(instance_id="one"))
    assert error(refused) == "NOT_COORDINATOR"
    assert at.heartbeat(leader, instance_id="one") == 0
    assert at.group.members[leader].instance_id == "one"


def test_only_absent_static_members_left_means_waiting_not_spinning() -> None:
    """With a rebalance timeout near 0 the deadline of a rebalance that nobody can lead came again
    at once, for ever."""
    at = Coordinator()
    at.stable(static("one", rebalance_timeout_ms=1), static("two", rebalance_timeout_ms=1))
    at.config = GroupConfig(initial_rebalance_delay_ms=0, max_size=1)
    at.restart()
    assert at.stands(State.PREPARING_REBALANCE)
    assert at.group.next_deadline_ms is not None
    at.wait(9_999)
    assert len(at.group.members) == 2
    at.wait(1)
    assert at.stands(State.EMPTY)
    assert at.state.metadata[GROUP].members == ()
