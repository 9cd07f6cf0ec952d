"""Commits: whose are taken, what they become, and when they are forgotten."""

from __future__ import annotations

import pytest
from group_coordinator import GROUP, WALL, Coordinator, error

from tallymark.errors import CODES
from tallymark.groups.deletion import (
    decide_delete_group,
    decide_delete_offsets,
    decide_forget_topic,
)
from tallymark.groups.group import Group, State
from tallymark.groups.inputs import Leaver
from tallymark.groups.offsets import Commit, Committer
from tallymark.groups.records import CommittedOffset, GroupRecord
from tallymark.protocol.consumer_protocol import (
    ConsumerProtocolSubscription,
    decode_subscription,
    encode_subscription,
)

DAY = 86_400_000
WEEK = 7 * DAY


def subscribed(*topics: str) -> dict[str, object]:
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=topics), 1)
    return {"protocols": (("range", subscription),)}


def offset(at: Coordinator, topic: str = "t", partition: int = 0) -> CommittedOffset | None:
    return at.state.offsets.get(GROUP, topic, partition)


def replay(at: Coordinator, records: list[GroupRecord]) -> None:
    for record in records:
        at.state.replay(record)


def test_a_commit_changes_the_state_by_replay_only() -> None:
    at = Coordinator()
    codes = at.commit(
        [
            Commit("t", 0, 10, 3, "note"),
            Commit("t", 1, 20, metadata="x" * 11),
            Commit("gone", 0, 1, error=CODES["UNKNOWN_TOPIC_OR_PARTITION"]),
        ]
    )
    assert [error(code) for code in codes] == [
        "",
        "OFFSET_METADATA_TOO_LARGE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert offset(at) == CommittedOffset(10, 3, "note", WALL)
    assert [place for *place, _ in at.state.offsets.of_group(GROUP)] == [["t", 0]]
    assert at.commit([Commit("t", 0, 5)]) == [0]  # back is fine: it is the consumer's say
    assert offset(at) == CommittedOffset(5, -1, "", WALL)
    assert at.group.vacant


def test_a_commit_that_cannot_be_appended_changes_nothing() -> None:
    at = Coordinator()
    at.commit([Commit("t", 0, 10)])
    at.fail_with = 16
    codes = at.commit([Commit("t", 0, 11), Commit("t", 1, 5, error=29)])
    assert [error(code) for code in codes] == ["NOT_COORDINATOR", "TOPIC_AUTHORIZATION_FAILED"]
    assert offset(at) == CommittedOffset(10, -1, "", WALL)


def test_members_commit_with_their_generation() -> None:
    at = Coordinator()
    member, _ = at.stable({"instance_id": "one"}, {})
    other = next(m.member_id for m in at.group.members.values() if m.instance_id is None)

    def tried(*who: object) -> str:
        committer = Committer(*who)  # type: ignore[arg-type] # fields of Committer
        return error(at.commit([Commit("t", 0, 1)], committer)[0])

    assert tried(member, None, 1) == tried(member, "one", 1) == ""
    assert tried(member, None, 0) == "ILLEGAL_GENERATION"
    assert tried("stranger", None, 1) == "UNKNOWN_MEMBER_ID"
    assert tried(other, "one", 1) == "FENCED_INSTANCE_ID"
    assert tried("", None, -1) == "UNKNOWN_MEMBER_ID"  # a simple consumer under members' feet
    assert tried(member, None, -1) == "ILLEGAL_GENERATION"


def test_a_member_commits_during_the_first_phase_of_a_rebalance_not_the_second() -> None:
    """It commits what it read before it gives its partitions away; afterwards it cannot know what
    it will have."""
    at = Coordinator()
    leader, follower = at.stable({}, {})
    at.join(leader)
    assert at.commit([Commit("t", 0, 1)], Committer(follower, None, 1)) == [0]
    at.join(follower)
    assert at.stands(State.COMPLETING_REBALANCE)
    codes = at.commit([Commit("t", 0, 2)], Committer(follower, None, 2))
    assert error(codes[0]) == "REBALANCE_IN_PROGRESS"


def test_a_commit_is_a_sign_of_life() -> None:
    at = Coordinator()
    member = at.stable()[0]
    for offset_read in range(3):
        at.wait(9_999)
        at.commit([Commit("t", 0, offset_read)], Committer(member, None, 1))
    assert at.stands(State.STABLE)
    at.wait(10_000)
    assert at.stands(State.EMPTY)


def test_anybody_commits_to_an_empty_group() -> None:
    at = Coordinator()
    assert at.commit([Commit("t", 0, 1)], Committer("m", None, -1)) == [0]
    codes = at.commit([Commit("t", 0, 1)], Committer("m", None, 1))
    assert error(codes[0]) == "UNKNOWN_MEMBER_ID"


def test_commits_outlive_members_and_restarts() -> None:
    at = Coordinator()
    member = at.stable()[0]
    at.commit([Commit("t", 0, 7)], Committer(member, None, 1))
    at.leave(Leaver(member))
    at.restart()
    found = offset(at)
    assert found is not None
    assert found.offset == 7


# --- age (KIP-211)


def test_offsets_of_an_empty_group_age_from_when_it_became_empty() -> None:
    at = Coordinator()
    member = at.stable({"session_timeout_ms": 1_800_000})[0]
    at.commit([Commit("t", 0, 1)], Committer(member, None, 1))
    at.wait(1_000_000)
    at.leave(Leaver(member))
    at.wait(WEEK - 1)
    assert at.expire_offsets(WEEK) == 0
    at.wait(1)
    assert at.expire_offsets(WEEK) == 2  # the offset, and with it the group
    assert not at.state.knows(GROUP)


def test_offsets_of_a_simple_consumer_age_from_their_commit() -> None:
    at = Coordinator()
    at.commit([Commit("t", 0, 1)])
    at.wait(DAY)
    at.commit([Commit("t", 1, 1)])
    at.wait(WEEK - DAY)
    assert at.expire_offsets(WEEK) == 1
    assert offset(at) is None
    assert offset(at, "t", 1) is not None


def test_offsets_of_a_stable_group_age_only_where_nobody_reads() -> None:
    at = Coordinator()
    member = at.stable(subscribed("t"))[0]
    at.commit([Commit("t", 0, 1), Commit("old", 0, 1)], Committer(member, None, 1))
    later = WALL + at.ms + WEEK
    at.ms += WEEK
    assert at.expire_offsets(WEEK) == 1
    assert offset(at) is not None
    assert offset(at, "old") is None
    assert later == at.now.wall_ms


@pytest.mark.parametrize("changes", [{}, {"protocol_type": "connect"}])
def test_what_cannot_be_understood_is_not_expired(changes: dict[str, object]) -> None:
    at = Coordinator()
    member = at.stable(changes)[0]  # the metadata is no subscription
    at.commit([Commit("t", 0, 1)], Committer(member, None, 1))
    at.ms += WEEK
    assert at.expire_offsets(WEEK) == 0


def test_nothing_expires_during_a_rebalance() -> None:
    at = Coordinator()
    member = at.stable(subscribed("t"))[0]
    at.commit([Commit("old", 0, 1)], Committer(member, None, 1))
    at.join()
    at.ms += WEEK
    assert at.expire_offsets(WEEK) == 0


def test_a_time_given_by_the_client_goes_before_the_brokers() -> None:
    at = Coordinator()
    at.commit([Commit("t", 0, 1)], Committer(retention_ms=1_000))
    at.commit([Commit("t", 1, 1)], Committer(retention_ms=2 * WEEK))
    at.wait(1_000)
    assert at.expire_offsets(WEEK) == 1
    at.wait(WEEK)
    assert at.expire_offsets(WEEK) == 0
    assert offset(at, "t", 1) is not None


# --- deletion


def test_a_deleted_topic_is_forgotten_by_tombstones() -> None:
    at = Coordinator()
    at.commit([Commit("t", 0, 1), Commit("t", 1, 1), Commit("kept", 0, 2)])
    tombstones = decide_forget_topic(at.state.offsets, "t")
    assert [value for _, value in tombstones] == [None, None]
    replay(at, tombstones)
    assert [place for *place, _ in at.state.offsets.of_group(GROUP)] == [["kept", 0]]


def test_a_group_is_deleted_when_nobody_is_in_it() -> None:
    at = Coordinator()
    assert error(decide_delete_group(at.state, at.group)[1]) == "GROUP_ID_NOT_FOUND"
    member = at.stable()[0]
    at.commit([Commit("t", 0, 1)], Committer(member, None, 1))
    assert error(decide_delete_group(at.state, at.group)[1]) == "NON_EMPTY_GROUP"
    at.leave(Leaver(member))
    records, code = decide_delete_group(at.state, at.group)
    assert (len(records), code) == (2, 0)
    replay(at, records)
    assert not at.state.knows(GROUP)


def test_offsets_of_topics_in_use_are_not_deleted() -> None:
    at = Coordinator()
    member = at.stable(subscribed("t"))[0]
    at.commit([Commit("t", 0, 1), Commit("old", 0, 1)], Committer(member, None, 1))
    places = [("t", 0), ("old", 0), ("old", 9)]
    records, code, codes = decide_delete_offsets(at.state, at.group, places)
    assert code == 0
    assert [error(each) for each in codes] == ["GROUP_SUBSCRIBED_TO_TOPIC", "", ""]
    replay(at, records)
    assert offset(at) is not None
    assert offset(at, "old") is None


def test_deleting_many_offsets_reads_each_subscription_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What all members said was read again for every partition: a thousand partitions of a group
    of a hundred held up everybody else for a second."""
    at = Coordinator()
    at.stable(subscribed("t"), subscribed("t"), subscribed("u"))
    read: list[bytes] = []

    def counted(data: bytes) -> ConsumerProtocolSubscription:
        read.append(data)
        return decode_subscription(data)

    monkeypatch.setattr("tallymark.groups.deletion.decode_subscription", counted)
    codes = decide_delete_offsets(at.state, at.group, [("u", n) for n in range(100)])[2]
    assert {error(code) for code in codes} == {"GROUP_SUBSCRIBED_TO_TOPIC"}
    assert len(read) == len(at.group.members)


def test_offsets_of_a_group_that_nobody_understands_are_not_deleted() -> None:
    at = Coordinator()
    at.stable({"protocol_type": "connect"})
    assert error(decide_delete_offsets(at.state, at.group, [("t", 0)])[1]) == "NON_EMPTY_GROUP"
    at = Coordinator()
    at.stable()  # consumers whose metadata is no subscription may be reading anything
    codes = decide_delete_offsets(at.state, at.group, [("t", 0)])[2]
    assert error(codes[0]) == "GROUP_SUBSCRIBED_TO_TOPIC"
    nobody = decide_delete_offsets(at.state, Group("nobody"), [("t", 0)])
    assert error(nobody[1]) == "GROUP_ID_NOT_FOUND"
