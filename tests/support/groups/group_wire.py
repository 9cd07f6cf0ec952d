"""A member of a group, one request at a time, over one connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eventually import eventually

from tallymark.errors import CODES
from tallymark.protocol import frames
from tallymark.protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from tallymark.protocol.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponseGroup,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

REQUIRED, NOT_COORDINATOR = CODES["MEMBER_ID_REQUIRED"], CODES["NOT_COORDINATOR"]
REBALANCE = CODES["REBALANCE_IN_PROGRESS"]
SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(topics=("t",)), 1)


def settings() -> dict[str, Any]:
    return {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 50}


def connect(broker: BrokerThread) -> WireClient:
    """A connection to a coordinator that has loaded its groups."""
    client = WireClient(broker.bootstrap_servers)
    client.ask(FindCoordinatorRequest(key="any"), 0)
    eventually(lambda: client.ask(ListGroupsRequest(), 0).error_code == 0)
    return client


def join_request(group: str, member: str = "", **changes: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "group_id": group,
        "member_id": member,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    }
    return JoinGroupRequest(**(fields | changes))


def join(wire: WireClient, group: str, version: int = 9, **changes: Any) -> JoinGroupResponse:
    """Join until there is another answer than the request to come again."""
    answer = wire.ask(join_request(group, **changes), version)
    if answer.error_code == REQUIRED:
        answer = wire.ask(join_request(group, answer.member_id, **changes), version)
    return answer


def sync(
    wire: WireClient,
    group: str,
    joined: JoinGroupResponse,
    parts: Mapping[str, bytes] | None = None,
    version: int = 5,
) -> SyncGroupResponse:
    return wire.ask(sync_request(group, joined, parts or {}), version)


def sync_request(
    group: str, joined: JoinGroupResponse, parts: Mapping[str, bytes]
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=part)
            for member, part in parts.items()
        ],
    )


def stable(wire: WireClient, group: str, **changes: Any) -> JoinGroupResponse:
    """A group of one member whose assignment is b"all"."""
    joined = join(wire, group, **changes)
    assert joined.error_code == 0
    assert bytes(sync(wire, group, joined, {joined.member_id: b"all"}).assignment) == b"all"
    return joined


def heartbeat(wire: WireClient, group: str, joined: JoinGroupResponse, version: int = 4) -> int:
    request = HeartbeatRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
    )
    return wire.ask(request, version).error_code


def described(wire: WireClient, group: str, version: int = 6) -> DescribeGroupsResponseGroup:
    return wire.ask(DescribeGroupsRequest(groups=[group]), version).groups[0]


def commit(wire: WireClient, group: str, joined: JoinGroupResponse | None, offset: int) -> int:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group,
        member_id=joined.member_id if joined else "",
        generation_id_or_member_epoch=joined.generation_id if joined else -1,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[part])],
    )
    return wire.ask(request, 8).topics[0].partitions[0].error_code


def fetched(wire: WireClient, group: str) -> int:
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    return wire.ask(asked, 8).groups[0].topics[0].partitions[0].committed_offset


def frame_of(wire: WireClient, request: Any, version: int) -> Any:
    """The answer to a request that was sent before."""
    return frames.decode_response(wire.frame(), type(request), version)[1]
