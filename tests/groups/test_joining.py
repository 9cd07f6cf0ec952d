"""JoinGroup and the rebalance it begins, step by step; Kafka's behaviour is the example."""

from __future__ import annotations

import pytest
from group_coordinator import RANGE, Coordinator, error

from tallymark.groups.group import GroupConfig, State
from tallymark.groups.inputs import Leaver

BOTH = (("sticky", b"s"), ("range", b"r"))


def test_the_first_member_leads_the_first_generation() -> None:
    at = Coordinator()
    reply = at.joined(at.join())
    assert (reply.error, reply.generation, reply.leader) == (0, 1, reply.member_id)
    assert (reply.protocol_type, reply.protocol) == ("consumer", "range")
    assert reply.members == ((reply.member_id, None, b"subscription"),)
    assert at.stands(State.COMPLETING_REBALANCE)


def test_who_must_know_its_id_is_given_one_first() -> None:
    """KIP-394: a client that lost the answer would leave a member behind with every try."""
    at = Coordinator()
    given = at.joined(at.join(must_know_id=True))
    assert error(given) == "MEMBER_ID_REQUIRED"
    assert at.group.members == {}
    assert at.group.pending.keys() == {given.member_id}
    assert at.joined(at.join(given.member_id, must_know_id=True)).member_id == given.member_id


def test_an_id_given_in_advance_is_forgotten_after_the_session_timeout() -> None:
    at = Coordinator()
    given = at.joined(at.join(must_know_id=True)).member_id
    at.wait(10_000)
    assert at.group.vacant
    assert error(at.joined(at.join(given))) == "UNKNOWN_MEMBER_ID"


def test_a_rebalance_waits_for_ids_given_in_advance() -> None:
    at = Coordinator()
    first = at.stable()[0]
    given = at.joined(at.join(must_know_id=True)).member_id
    again = at.join(first, protocols=(("range", b"new"),))
    assert again in at.parked
    at.join(given)
    assert at.joined(again).generation == 2


def test_a_rebalance_ends_when_an_id_given_in_advance_is_not_used() -> None:
    at = Coordinator()
    first = at.stable()[0]
    at.join(must_know_id=True, session_timeout_ms=6_000)
    ticket = at.join(first)
    at.wait(5_999)
    assert ticket in at.parked
    at.wait(1)
    assert at.joined(ticket).generation == 2


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"session_timeout_ms": 5_999}, "INVALID_SESSION_TIMEOUT"),
        ({"session_timeout_ms": 1_800_001}, "INVALID_SESSION_TIMEOUT"),
        ({"session_timeout_ms": -1}, "INVALID_SESSION_TIMEOUT"),
        ({"protocols": ()}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"protocol_type": ""}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"protocols": (("range", bytes(1_048_577)),)}, "INVALID_REQUEST"),
        ({"protocol_type": "x" * 32_768}, "INVALID_REQUEST"),  # no record could hold it
        ({"instance_id": "ä" * 16_384}, "INVALID_REQUEST"),
        ({"protocols": (("x" * 32_768, b""),)}, "INVALID_REQUEST"),
        ({"protocols": (("", b""),) * 20_000}, "INVALID_REQUEST"),  # empty, and a megabyte held
        ({"member_id": "stranger"}, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_joins_that_are_refused(changes: dict[str, object], name: str) -> None:
    at = Coordinator()
    assert error(at.joined(at.join(**changes))) == name  # type: ignore[arg-type] # fields of Join
    assert at.group.vacant


@pytest.mark.parametrize(
    "changes", [{"protocol_type": "connect"}, {"protocols": (("roundrobin", b""),)}]
)
def test_a_member_that_shares_no_protocol_is_refused(changes: dict[str, object]) -> None:
    at = Coordinator()
    at.stable()
    refused = at.joined(at.join(**changes))  # type: ignore[arg-type] # fields of Join
    assert error(refused) == "INCONSISTENT_GROUP_PROTOCOL"
    assert at.stands(State.STABLE)


def test_an_empty_group_may_become_one_of_another_kind() -> None:
    at = Coordinator()
    at.leave(Leaver(at.stable()[0]))
    assert at.joined(at.join(protocol_type="connect")).protocol_type == "connect"


def test_members_vote_for_a_protocol_that_all_know() -> None:
    at = Coordinator()
    members: list[dict[str, object]] = [
        {"protocols": (("a", b""), ("b", b""), ("c", b""))},
        {"protocols": (("x", b""), ("c", b""), ("b", b""))},
        {"protocols": (("b", b""), ("c", b""))},
    ]
    at.stable(*members)  # only b and c are known to all: b, c, b
    assert at.group.protocol == "b"


def test_a_second_member_makes_the_first_join_again() -> None:
    at = Coordinator()
    first = at.stable()[0]
    second = at.join()
    assert at.stands(State.PREPARING_REBALANCE)
    assert error(at.heartbeat(first)) == "REBALANCE_IN_PROGRESS"
    again = at.joined(at.join(first))
    assert (again.generation, again.leader, len(again.members)) == (2, first, 2)
    follower = at.joined(second)
    assert (follower.generation, follower.leader, follower.members) == (2, first, ())


def test_who_does_not_join_again_in_time_is_out() -> None:
    at = Coordinator()
    first, second = at.stable({"rebalance_timeout_ms": 7_000}, {"rebalance_timeout_ms": 5_000})
    third = at.join(rebalance_timeout_ms=12_000)  # the longest counts
    for _ in range(11):
        at.wait(1_000)
        at.heartbeat(first)
        at.heartbeat(second)
    assert third in at.parked
    at.wait(1_000)
    assert at.joined(third).leader == at.joined(third).member_id
    assert at.group.members.keys() == {at.joined(third).member_id}
    assert error(at.heartbeat(first)) == "UNKNOWN_MEMBER_ID"


def test_a_new_group_waits_for_members_that_start_together() -> None:
    """KIP-134: each newcomer prolongs the wait, up to the rebalance timeout."""
    at = Coordinator(GroupConfig(initial_rebalance_delay_ms=3_000))
    first = at.join(rebalance_timeout_ms=7_000)
    at.wait(2_900)
    second = at.join()
    at.wait(2_900)
    third = at.join()
    at.wait(1_000)
    assert {first, second, third} <= at.parked
    at.wait(2_200)
    assert at.joined(third).generation == 1
    assert len(at.joined(first).members) == 3


def test_the_first_wait_ends_if_nobody_else_comes() -> None:
    at = Coordinator(GroupConfig(initial_rebalance_delay_ms=3_000))
    only = at.join()
    at.wait(2_999)
    assert only in at.parked
    at.wait(1)
    assert at.joined(only).generation == 1


def test_an_unchanged_follower_joins_without_a_rebalance() -> None:
    at = Coordinator()
    leader, follower = at.stable({}, {})
    generation = at.group.generation
    same = at.joined(at.join(follower))
    assert (same.generation, same.leader, same.members) == (generation, leader, ())
    assert at.stands(State.STABLE)
    changed = at.join(follower, protocols=(("range", b"other"),))
    assert changed in at.parked
    assert at.stands(State.PREPARING_REBALANCE)


def test_a_leader_that_joins_again_wants_a_rebalance() -> None:
    at = Coordinator()
    leader, _ = at.stable({}, {})
    assert at.join(leader) in at.parked
    assert at.stands(State.PREPARING_REBALANCE)


def test_a_lost_answer_is_given_again() -> None:
    at = Coordinator()
    first = at.joined(at.join())
    assert at.joined(at.join(first.member_id)) == first
    assert at.group.generation == 1


def test_a_join_sent_again_is_answered_once_more_and_the_old_one_too() -> None:
    at = Coordinator()
    leader, follower = at.stable({}, {})
    lost = at.join(leader)
    again = at.join(leader)
    assert error(at.joined(lost)) == "REBALANCE_IN_PROGRESS"
    at.join(follower)
    assert at.joined(again).error == 0


def test_a_full_group_takes_nobody_else() -> None:
    at = Coordinator(GroupConfig(initial_rebalance_delay_ms=0, max_size=2))
    leader, _ = at.stable({}, {})
    assert error(at.joined(at.join())) == "GROUP_MAX_SIZE_REACHED"
    assert at.stands(State.STABLE)
    assert at.join(leader) in at.parked  # a member has its place


def test_ids_given_in_advance_count_for_the_size() -> None:
    at = Coordinator(GroupConfig(initial_rebalance_delay_ms=0, max_size=2))
    given = [at.joined(at.join(must_know_id=True)) for _ in range(3)]
    assert [error(reply) for reply in given] == [
        "MEMBER_ID_REQUIRED",
        "MEMBER_ID_REQUIRED",
        "GROUP_MAX_SIZE_REACHED",
    ]
    first = at.join(given[0].member_id)
    at.join(given[1].member_id)
    assert at.joined(first).error == 0


def test_a_group_that_is_too_large_after_a_restart_shrinks() -> None:
    at = Coordinator()
    members = at.stable({}, {}, {})
    at.config = GroupConfig(initial_rebalance_delay_ms=0, max_size=2)
    at.restart()
    assert at.stands(State.PREPARING_REBALANCE)
    tickets = [at.join(member) for member in members]
    assert [error(at.answers[ticket]) for ticket in tickets] == ["", "", "GROUP_MAX_SIZE_REACHED"]
    assert len(at.group.members) == 2


def test_a_new_member_whose_join_is_parked_too_long_is_given_up() -> None:
    at = Coordinator()
    at.stable({"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": 1_000_000})
    parked = at.join()
    at.wait(300_000)
    assert error(at.joined(parked)) == "UNKNOWN_MEMBER_ID"
    assert len(at.group.members) == 1


def test_protocols_of_a_member_are_what_it_said_last() -> None:
    at = Coordinator()
    leader = at.stable({"protocols": BOTH})[0]
    again = at.join(leader, protocols=RANGE)
    assert at.joined(again).protocol == "range"
    assert at.joined(again).members == ((leader, None, b"subscription"),)
