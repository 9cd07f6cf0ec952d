"""Offsets at a coordinator that moves, loads, rebalances or has gone on; and members' words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from group_settings import consumer_settings

from tallymark.client.group import offsets as group_offsets
from tallymark.client.group.offsets import BrokerOffsets, Term
from tallymark.client.group.requests import (
    join_request,
    leave_request,
    read_joined,
    read_synced,
    sync_request,
)
from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.assignors import GroupMember
from tallymark.coordination.consumers.offsets import Position
from tallymark.errors import (
    CODES,
    CommitFailedError,
    ConnectError,
    KafkaError,
    RemoteProtocolError,
)
from tallymark.protocol.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartitions,
    encode_subscription,
)
from tallymark.protocol.messages import (
    JoinGroupResponse,
    JoinGroupResponseMember,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    SyncGroupResponse,
)

T = TypeVar("T")
T0 = ("t", 0)


class Link:
    """Answers as scripted: an error's name, an exception, or a response; the last one again."""

    def __init__(self, *script: Any) -> None:
        self.group = "g"
        self.request_timeout = 0.3
        self.script = list(script)
        self.asked: list[Any] = []
        self.forgotten = 0
        self.before: Callable[[], None] = lambda: None

    def run(self, work: Coroutine[Any, Any, T], what: str) -> T:
        return asyncio.run(work)

    async def ask(self, build: Callable[[int], Any], of: type, at_most: int) -> Any:
        self.asked.append(build(8))
        self.before()
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        if not isinstance(answer, str):
            return answer
        part = OffsetCommitResponsePartition(partition_index=0, error_code=CODES[answer])
        topic = OffsetCommitResponseTopic(name="t", partitions=(part,))
        return OffsetCommitResponse(topics=(topic,))

    def forget_coordinator(self) -> None:
        self.forgotten += 1


@pytest.fixture(autouse=True)
def nobody_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "_RETRY_SECONDS", 0.005)


def offsets(*script: Any) -> tuple[BrokerOffsets, Link]:
    link: Any = Link(*script)
    store = BrokerOffsets(link, consumer_settings(group_instance_id="named"))
    store.term = Term("me", 4)
    return store, link


def commit(store: BrokerOffsets) -> None:
    store.commit({T0: Position(7, 2)}, "words")


def test_a_commit_says_who_where_and_after_which_epoch() -> None:
    store, link = offsets("NONE")
    commit(store)
    (request,) = link.asked
    assert isinstance(request, OffsetCommitRequest)
    assert (request.member_id, request.generation_id_or_member_epoch) == ("me", 4)
    assert request.group_instance_id == "named"
    (part,) = request.topics[0].partitions
    assert (part.committed_offset, part.committed_leader_epoch) == (7, 2)
    assert part.committed_metadata == "words"


def test_what_passes_is_tried_again() -> None:
    refused = ConnectError("h:1", "connect", "refused")
    store, link = offsets(
        *("NOT_COORDINATOR", refused, "COORDINATOR_LOAD_IN_PROGRESS", "REBALANCE_IN_PROGRESS"),
        *(KafkaError(CODES["NETWORK_EXCEPTION"], "x"), "NONE"),
    )
    commit(store)
    assert len(link.asked) == 6
    assert link.forgotten == 3


@pytest.mark.parametrize("name", ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"])
def test_a_group_that_went_on_is_told_with_numbers(name: str) -> None:
    store, link = offsets(name)
    store.why_slow = lambda: "it has not asked for 412.0 s; max_poll_interval_ms is 300000"
    with pytest.raises(CommitFailedError) as caught:
        commit(store)
    for part in ("t-0", "group g", "generation 4", "412.0 s", "300000", name):
        assert part in str(caught.value)
    assert len(link.asked) == 1


def test_on_its_way_into_the_next_generation_a_commit_waits_for_it() -> None:
    """With cooperative assignors consumption goes on while the group rebalances; a commit of the
    old generation is refused until the new one is known."""
    store, link = offsets("ILLEGAL_GENERATION", "ILLEGAL_GENERATION", "NONE")
    store.term = Term("me", 4, joining=True)

    def arrive() -> None:
        if len(link.asked) == 2:
            store.term = Term("me", 5, owned={T0})

    link.before = arrive
    commit(store)
    assert [request.generation_id_or_member_epoch for request in link.asked] == [4, 4, 5]


def test_what_went_to_others_meanwhile_is_not_stored_under_the_new_generation() -> None:
    """A commit that met a rebalance was tried again under the next generation, where the
    coordinator takes it from any member: it undid what the partition's new owner had stored."""
    store, link = offsets("REBALANCE_IN_PROGRESS", "NONE")
    link.before = lambda: setattr(store, "term", Term("me", 5, owned={("t", 1)}))
    with pytest.raises(CommitFailedError, match=r"t-0.*generation 4"):
        store.commit({T0: Position(7), ("t", 1): Position(8)}, "")
    (first, second) = link.asked
    assert first.generation_id_or_member_epoch == 4
    assert second.generation_id_or_member_epoch == 5
    assert [part.partition_index for part in second.topics[0].partitions] == [1]


def test_what_is_given_up_is_still_stored_under_its_own_generation() -> None:
    """The last commit of a release: the partitions are no longer consumed, but nobody else has
    them before this member joins."""
    store, link = offsets("COORDINATOR_LOAD_IN_PROGRESS", "NONE")
    store.term = Term("me", 4, owned=())
    commit(store)
    assert len(link.asked) == 2


@pytest.mark.slow
def test_what_does_not_pass_in_time_is_raised() -> None:
    store, link = offsets("REBALANCE_IN_PROGRESS")
    with pytest.raises(CommitFailedError, match="REBALANCE_IN_PROGRESS"):
        commit(store)
    store, link = offsets(ConnectError("h:1", "connect", "refused"))
    with pytest.raises(ConnectError, match="h:1"):
        commit(store)
    store, link = offsets("GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        commit(store)
    assert len(link.asked) == 1


def test_an_offset_of_a_topic_that_is_no_more_is_not_an_error() -> None:
    store, _ = offsets("UNKNOWN_TOPIC_OR_PARTITION")
    commit(store)


def test_reading_waits_for_open_transactions_and_leaves_out_what_is_not_there() -> None:
    def answer(code: str, *stored: int) -> OffsetFetchResponse:
        parts = [
            OffsetFetchResponsePartition(
                partition_index=n,
                committed_offset=offset,
                committed_leader_epoch=3,
                error_code=CODES[code],
            )
            for n, offset in enumerate(stored)
        ]
        topic = OffsetFetchResponseTopic(name="t", partitions=parts)
        return OffsetFetchResponse(
            groups=(OffsetFetchResponseGroup(group_id="g", topics=(topic,)),)
        )

    store, link = offsets(answer("UNSTABLE_OFFSET_COMMIT", -1, -1), answer("NONE", 9, -1))
    assert store.read([T0, ("t", 1)], 0) == {T0: Position(9, 3)}
    assert all(request.require_stable for request in link.asked)


def test_a_member_whom_nobody_understands_gets_nothing() -> None:
    settings = consumer_settings(partition_assignment_strategy="cooperative-sticky")
    join = act.Join(1, "a", 6, ("t",), (T0,), "why")
    request = join_request(join, settings)
    assert request.reason == "why"
    told = read_joined(
        1,
        JoinGroupResponse(
            leader="a",
            member_id="a",
            generation_id=7,
            protocol_name="cooperative-sticky",
            members=(
                JoinGroupResponseMember(member_id="a", metadata=request.protocols[0].metadata),
                JoinGroupResponseMember(member_id="b", metadata=b"\x00\x01garbage"),
            ),
        ),
    )
    assert isinstance(told, ev.Joined)
    assert told.members == {"a": GroupMember(("t",), (T0,), 6), "b": GroupMember(())}


@pytest.mark.parametrize("before", [b"", b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\0"])
def test_the_generation_of_a_claim_is_read_from_older_clients_too(before: bytes) -> None:
    """librdkafka writes its former partitions before it: its claims counted as the oldest of all,
    and two that claimed the same partition both lost it."""
    told = ConsumerProtocolSubscription(
        topics=("t",),
        user_data=before + (6).to_bytes(4, "big"),
        owned_partitions=(ConsumerProtocolTopicPartitions(topic="t", partitions=(0,)),),
    )
    member = JoinGroupResponseMember(member_id="b", metadata=encode_subscription(told, 1))
    joined = read_joined(1, JoinGroupResponse(leader="b", member_id="b", members=(member,)))
    assert isinstance(joined, ev.Joined)
    assert joined.members == {"b": GroupMember(("t",), (T0,), 6)}


def test_the_leaders_words_come_back_as_they_were() -> None:
    settings = consumer_settings()
    sync = act.Sync(1, "a", 7, "range", {"a": [T0, ("u", 3)], "b": []})
    parts = {part.member_id: part for part in sync_request(sync, settings).assignments}
    got = read_synced(2, SyncGroupResponse(assignment=parts["a"].assignment))
    assert got == ev.Synced(2, (T0, ("u", 3)))
    assert read_synced(2, SyncGroupResponse(assignment=b"")) == ev.Synced(2, ())
    assert read_synced(2, SyncGroupResponse(error_code=27)) == ev.Refused(2, 27)
    with pytest.raises(RemoteProtocolError):
        read_synced(2, SyncGroupResponse(assignment=b"\x00"))


def test_leaving_is_said_in_both_forms() -> None:
    request = leave_request(act.Leave(1, "me"), consumer_settings())
    assert request.member_id == request.members[0].member_id == "me"
