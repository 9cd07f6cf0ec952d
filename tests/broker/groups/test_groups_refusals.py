"""Requests of groups that are refused: who may do what, and what makes no sense."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from group_wire import (
    REQUIRED,
    commit,
    connect,
    described,
    fetched,
    frame_of,
    heartbeat,
    join,
    join_request,
    stable,
    sync,
)

from tallymark.broker.security.authorizer import AllowAll, Who
from tallymark.errors import CODES
from tallymark.protocol import frames
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    SyncGroupRequest,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

INVALID = CODES["INVALID_REQUEST"]


# --- who may


class Denying(AllowAll):
    """Allows everything but one operation on one kind of resource."""

    def __init__(self, *denied: tuple[Operation, ResourceType]) -> None:
        self.denied = denied

    def may(
        self, who: Who, operation: Operation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        return (operation, kind) not in self.denied


@pytest.fixture
def deny(broker: BrokerThread) -> Iterator[Any]:
    assert broker.broker is not None
    state = broker.broker.state
    assert state is not None
    before = state.authorizer

    def set_denied(*denied: tuple[Operation, ResourceType]) -> None:
        state.authorizer = Denying(*denied)

    yield set_denied
    state.authorizer = before


def test_members_need_to_read_the_group(wire: WireClient, group: str, deny: Any) -> None:
    joined = stable(wire, group)
    deny((Operation.READ, ResourceType.GROUP))
    denied = CODES["GROUP_AUTHORIZATION_FAILED"]
    assert wire.ask(join_request(group), 9).error_code == denied
    assert sync(wire, group, joined).error_code == denied
    assert heartbeat(wire, group, joined) == denied
    leaving = LeaveGroupRequest(group_id=group, member_id=joined.member_id)
    assert wire.ask(leaving, 2).error_code == denied
    assert commit(wire, group, joined, 1) == denied
    assert described(wire, group).group_state == "Stable"


def test_looking_needs_describe_and_deleting_delete(
    wire: WireClient, group: str, deny: Any
) -> None:
    joined = stable(wire, group)
    commit(wire, group, joined, 3)
    denied = CODES["GROUP_AUTHORIZATION_FAILED"]
    deny((Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.CLUSTER))
    assert described(wire, group).error_code == denied
    assert wire.ask(ListGroupsRequest(), 5).groups == ()
    assert wire.ask(FindCoordinatorRequest(key=group), 2).error_code == denied
    request = OffsetFetchRequest(group_id=group, topics=None)
    assert wire.ask(request, 7).error_code == denied
    deny((Operation.DELETE, ResourceType.GROUP))
    assert wire.ask(DeleteGroupsRequest(groups_names=[group]), 2).results[0].error_code == denied
    assert wire.ask(OffsetDeleteRequest(group_id=group), 0).error_code == denied


def test_offsets_need_the_topic_too(wire: WireClient, group: str, deny: Any) -> None:
    joined = stable(wire, group)
    commit(wire, group, joined, 3)
    denied = CODES["TOPIC_AUTHORIZATION_FAILED"]
    deny((Operation.READ, ResourceType.TOPIC))
    assert commit(wire, group, joined, 4) == denied
    parts = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name="t", partitions=parts)]
    answer = wire.ask(OffsetDeleteRequest(group_id=group, topics=topics), 0)
    assert answer.topics[0].partitions[0].error_code == denied
    deny((Operation.DESCRIBE, ResourceType.TOPIC))
    everything = wire.ask(OffsetFetchRequest(group_id=group, topics=None), 7)
    assert everything.topics == ()
    asked = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    one = wire.ask(OffsetFetchRequest(group_id=group, topics=asked), 7)
    assert one.topics[0].partitions[0].error_code == denied
    assert one.topics[0].partitions[0].committed_offset == -1


# --- bad input


def test_metadata_that_could_never_be_kept_is_refused(wire: WireClient, group: str) -> None:
    """A member's metadata is held in memory as long as it lives."""
    huge = [JoinGroupRequestProtocol(name="range", metadata=bytes(2_000_000))]
    answer = wire.ask(join_request(group, protocols=huge), 9)
    assert answer.error_code == CODES["INVALID_REQUEST"]


def test_a_group_named_often_is_looked_up_once(wire: WireClient, group: str) -> None:
    """A request of a megabyte could ask for gigabytes: each name costs a few bytes, its answer has
    all members, or all texts of its commits."""
    joined = stable(wire, group)
    assert commit(wire, group, joined, 3) == 0
    one, *others = wire.ask(DescribeGroupsRequest(groups=[group] * 500), 6).groups
    assert (one.error_code, len(one.members)) == (0, 1)
    assert {(each.error_code, each.members) for each in others} == {(INVALID, ())}
    every = [OffsetFetchRequestGroup(group_id=group, topics=None)]
    first, *rest = wire.ask(OffsetFetchRequest(groups=every * 500), 8).groups
    assert [topic.name for topic in first.topics] == ["t"]
    assert {(each.error_code, each.topics) for each in rest} == {(INVALID, ())}
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0] * 500)] * 2
    for version in (7, 8):
        asked = OffsetFetchRequest(
            group_id=group,
            topics=topics,
            groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)],
        )
        answer = wire.ask(asked, version)
        found = answer.topics if version == 7 else answer.groups[0].topics
        offsets = [part.committed_offset for topic in found for part in topic.partitions]
        assert offsets == [3]


def test_many_groups_in_one_request(wire: WireClient, group: str) -> None:
    """More than fit into one turn of the loop: each is answered, in order."""
    names = [f"{group}-{n}" for n in range(25)]
    for name in names:
        commit(wire, name, None, 3)
    described = wire.ask(DescribeGroupsRequest(groups=names), 6).groups
    assert [(each.group_id, each.group_state) for each in described] == [
        (n, "Empty") for n in names
    ]
    asked = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    found = wire.ask(OffsetFetchRequest(groups=asked), 9).groups
    assert [each.group_id for each in found] == names
    assert {each.topics[0].partitions[0].committed_offset for each in found} == {3}
    gone = wire.ask(DeleteGroupsRequest(groups_names=[*names, names[0]]), 2).results
    assert [each.error_code for each in gone] == [0] * 25 + [CODES["GROUP_ID_NOT_FOUND"]]


def test_a_retention_time_without_end(wire: WireClient, group: str) -> None:
    """The sum with the clock did not fit its 64 bits."""
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[part])]
    for_ever = 2**63 - 1
    request = OffsetCommitRequest(group_id=group, retention_time_ms=for_ever, topics=topics)
    assert wire.ask(request, 2).topics[0].partitions[0].error_code == 0
    assert fetched(wire, group) == 3


@pytest.mark.parametrize("session", [-1, 0, 49, 1_800_001, 2**31 - 1])
def test_impossible_session_timeouts_are_refused(
    wire: WireClient, group: str, session: int
) -> None:
    answer = wire.ask(join_request(group, session_timeout_ms=session), 9)
    assert answer.error_code == CODES["INVALID_SESSION_TIMEOUT"]


def test_a_negative_rebalance_timeout_is_none(wire: WireClient, group: str) -> None:
    assert join(wire, group, rebalance_timeout_ms=-(2**31)).error_code == 0


def test_a_long_client_id_does_not_break_member_ids(broker: BrokerThread, group: str) -> None:
    """A member id begins with the client id; both are strings with a 16-bit length."""
    with connect(broker) as client:
        request = join_request(group)
        client.send_bytes(frames.encode_request(request, 4, 1, "c" * 32_767))
        given = frame_of(client, request, 4)
        assert given.error_code == REQUIRED
        assert len(given.member_id) < 300


def test_groups_of_no_name_are_refused(wire: WireClient) -> None:
    invalid = CODES["INVALID_GROUP_ID"]
    assert wire.ask(join_request(""), 9).error_code == invalid
    assert wire.ask(HeartbeatRequest(group_id=""), 4).error_code == invalid
    assert wire.ask(SyncGroupRequest(group_id=""), 4).error_code == invalid
    assert wire.ask(LeaveGroupRequest(group_id=""), 4).error_code == invalid
