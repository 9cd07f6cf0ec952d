"""Heartbeats, departures, sessions, and what a restart brings back."""

from __future__ import annotations

import pytest
from group_coordinator import GROUP, Coordinator, error

from tallymark.groups.group import Group, State, from_metadata, to_metadata
from tallymark.groups.inputs import Leaver


def test_heartbeats_are_told_what_to_do() -> None:
    at = Coordinator()
    leader, follower = at.stable({}, {})
    assert at.heartbeat(leader) == 0
    assert error(at.heartbeat("stranger")) == "UNKNOWN_MEMBER_ID"
    assert error(at.heartbeat(leader, generation=2)) == "ILLEGAL_GENERATION"
    at.join(leader)
    assert error(at.heartbeat(follower)) == "REBALANCE_IN_PROGRESS"
    at.join(follower)
    assert at.heartbeat(follower) == 0  # joined, not synced: fine
    assert error(Coordinator().heartbeat("m", 0)) == "UNKNOWN_MEMBER_ID"


def test_a_silent_member_is_out_when_its_session_ends() -> None:
    at = Coordinator()
    leader, follower = at.stable({}, {})
    at.wait(6_000)
    at.heartbeat(leader)
    at.wait(3_999)
    assert at.stands(State.STABLE)
    at.wait(1)
    assert at.stands(State.PREPARING_REBALANCE)
    assert follower not in at.group.members
    assert at.joined(at.join(leader)).generation == 2


def test_the_last_one_out_leaves_an_empty_group_that_is_kept() -> None:
    at = Coordinator()
    at.stable()
    at.wait(10_000)
    assert at.stands(State.EMPTY)
    kept = at.state.metadata[GROUP]
    assert (kept.generation, kept.leader, kept.protocol, kept.members) == (2, None, None, ())
    assert kept.protocol_type == "consumer"
    at.restart()
    assert at.joined(at.join()).generation == 3


@pytest.mark.parametrize("by", ["member", "instance", "both"])
def test_leaving(by: str) -> None:
    at = Coordinator()
    leader, follower = at.stable({"instance_id": "one"}, {"instance_id": "two"})
    instance = at.group.members[follower].instance_id
    leaver = {
        "member": Leaver(follower),
        "instance": Leaver("", instance),
        "both": Leaver(follower, instance),
    }[by]
    assert at.leave(leaver) == (0,)
    assert at.group.members.keys() == {leader}
    assert at.stands(State.PREPARING_REBALANCE)


def test_several_leave_in_one_rebalance() -> None:
    at = Coordinator()
    members = at.stable({}, {}, {"instance_id": "one"})
    generation = at.group.generation
    codes = at.leave(Leaver(members[1]), Leaver("stranger"), Leaver("", "one"), Leaver("", "two"))
    assert [error(code) for code in codes] == ["", "UNKNOWN_MEMBER_ID", "", "UNKNOWN_MEMBER_ID"]
    left = next(iter(at.group.members))
    assert at.joined(at.join(left)).generation == generation + 1


def test_many_static_ids_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the members to be removed was looked for among all members: a request of some
    kilobytes, of ids that nobody has, held up everybody else for seconds."""
    at = Coordinator()
    at.stable({"instance_id": "one"}, {"instance_id": "two"})
    looked: list[str] = []
    monkeypatch.setattr(Group, "static_member", lambda self, name: looked.append(name))
    strangers = [Leaver("x", f"s{n}") for n in range(50)] + [Leaver("", f"s{n}") for n in range(50)]
    codes = at.leave(*strangers, Leaver("", "two"), Leaver("", "two"))
    assert [error(code) for code in codes[-2:]] == ["", "UNKNOWN_MEMBER_ID"]
    assert {error(code) for code in codes[:-2]} == {"UNKNOWN_MEMBER_ID"}
    assert looked == []


def test_leaving_with_somebody_elses_static_id_is_fenced() -> None:
    at = Coordinator()
    member, _ = at.stable({}, {"instance_id": "one"})
    other = next(m for m in at.group.members.values() if m.instance_id is None)
    assert error(at.leave(Leaver(other.member_id, "one"))[0]) == "FENCED_INSTANCE_ID"
    assert error(at.leave(Leaver("", None))[0]) == "UNKNOWN_MEMBER_ID"
    assert member in at.group.members


def test_the_missing_one_leaves_and_the_rebalance_ends() -> None:
    at = Coordinator()
    leader, follower = at.stable({}, {})
    ticket = at.join(leader)
    at.leave(Leaver(follower))
    assert at.joined(ticket).generation == 2


def test_an_id_given_in_advance_can_be_given_back() -> None:
    at = Coordinator()
    leader = at.stable()[0]
    given = at.joined(at.join(must_know_id=True)).member_id
    ticket = at.join(leader)
    assert ticket in at.parked
    assert at.leave(Leaver(given)) == (0,)
    assert at.joined(ticket).generation == 2


def test_who_leaves_while_it_waits_is_answered() -> None:
    at = Coordinator()
    leader, follower = at.stable({}, {})
    ticket = at.join(leader)
    at.leave(Leaver(leader))
    assert error(at.joined(ticket)) == "UNKNOWN_MEMBER_ID"
    at.join(follower)
    waiting = at.sync("nobody")
    assert error(at.synced(waiting)) == "UNKNOWN_MEMBER_ID"


def test_an_empty_group_that_cannot_be_kept_is_empty_all_the_same() -> None:
    at = Coordinator()
    member = at.stable()[0]
    at.fail_with = -1
    assert at.leave(Leaver(member)) == (0,)
    assert at.stands(State.EMPTY)
    at.restart()  # the last record that was kept still has the member: it is given its session
    assert member in at.group.members
    at.wait(10_000)
    assert at.stands(State.EMPTY)


def test_a_restart_brings_a_stable_group_back() -> None:
    at = Coordinator()
    leader, follower = at.stable({"instance_id": "one"}, {})
    generation = at.group.generation
    at.wait(9_000)
    at.restart()
    at.wait(9_999)  # sessions begin with the new coordinator
    assert at.stands(State.STABLE)
    assert [at.heartbeat(m, generation) for m in (leader, follower)] == [0, 0]
    assert at.synced(at.sync(follower, generation)).assignment == follower.encode()
    assert at.group.static_member("one") is not None


def test_a_rebalance_under_way_is_begun_anew_after_a_restart() -> None:
    at = Coordinator()
    leader, follower = at.stable({}, {})
    at.join(leader)
    at.join(follower)
    at.restart()
    assert error(at.heartbeat(leader, 2)) == "ILLEGAL_GENERATION"
    ticket = at.join(leader)
    at.join(follower)
    assert at.joined(ticket).generation == 2


def test_what_is_kept_reads_back() -> None:
    at = Coordinator()
    at.stable({"instance_id": "one"}, {})
    kept = to_metadata(at.group)
    assert to_metadata(from_metadata(GROUP, kept, 0)) == kept
