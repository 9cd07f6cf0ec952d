"""The words of the state machine in the messages of the protocol, and back. Pure."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Sequence
from typing import Final

from tallymark.client.consuming.settings import ConsumerSettings
from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.assignors import COOPERATIVE, GroupMember
from tallymark.errors import RemoteProtocolError
from tallymark.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tallymark.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger("tallymark.client.connector.connector")
CONSUMER: Final = "consumer"
"""The type of a group whose members read topics."""

_GENERATION: Final = struct.Struct(">i")
"""User data of cooperative-sticky, or its end: what older versions of the subscription have no
field for. Kafka's own clients write nothing else, librdkafka the former partitions before it."""


def join_request(join: act.Join, settings: ConsumerSettings) -> JoinGroupRequest:
    """JoinGroup, with a subscription for each assignor."""
    return JoinGroupRequest(
        group_id=settings.group,
        session_timeout_ms=settings.session_ms,
        rebalance_timeout_ms=settings.poll_interval_ms,
        member_id=join.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=CONSUMER,
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=_subscription(join, name))
            for name in settings.strategies
        ],
        reason=join.reason,
    )


def read_joined(ticket: int, answer: JoinGroupResponse) -> ev.Joined | ev.Refused:
    """What JoinGroup was answered."""
    if answer.error_code:
        return ev.Refused(ticket, answer.error_code, answer.member_id)
    leads = answer.leader == answer.member_id
    return ev.Joined(
        ticket,
        answer.member_id,
        answer.generation_id,
        answer.protocol_name or "",
        leads=leads,
        members={
            member.member_id: _member(member.member_id, member.metadata, member.group_instance_id)
            for member in (answer.members if leads else ())
        },
        keep=answer.skip_assignment,
    )


def sync_request(sync: act.Sync, settings: ConsumerSettings) -> SyncGroupRequest:
    """SyncGroup."""
    return SyncGroupRequest(
        group_id=settings.group,
        generation_id=sync.generation,
        member_id=sync.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=CONSUMER,
        protocol_name=sync.protocol,
        assignments=[
            SyncGroupRequestAssignment(
                member_id=member,
                assignment=encode_assignment(
                    ConsumerProtocolAssignment(assigned_partitions=_by_topic(share)), 1
                ),
            )
            for member, share in sync.division.items()
        ],
    )


def read_synced(ticket: int, answer: SyncGroupResponse) -> ev.Synced | ev.Refused:
    """What SyncGroup was answered. RemoteProtocolError: the leader wrote what is no assignment."""
    if answer.error_code:
        return ev.Refused(ticket, answer.error_code)
    if not answer.assignment:  # the leader has nothing for us
        return ev.Synced(ticket, ())
    assignment = decode_assignment(answer.assignment)
    return ev.Synced(ticket, _places(assignment.assigned_partitions))


def heartbeat_request(beat: act.Heartbeat, settings: ConsumerSettings) -> HeartbeatRequest:
    """Heartbeat."""
    return HeartbeatRequest(
        group_id=settings.group,
        generation_id=beat.generation,
        member_id=beat.member_id,
        group_instance_id=settings.group_instance_id,
    )


def leave_request(leave: act.Leave, settings: ConsumerSettings) -> LeaveGroupRequest:
    """LeaveGroup, in the old form and in the new."""
    member = LeaveGroupRequestMember(
        member_id=leave.member_id, reason="the consumer was shut down, or its application is slow"
    )
    return LeaveGroupRequest(group_id=settings.group, member_id=leave.member_id, members=(member,))


def _subscription(join: act.Join, assignor: str) -> bytes:
    sticky = assignor == COOPERATIVE
    return encode_subscription(
        ConsumerProtocolSubscription(
            topics=join.topics,
            user_data=_GENERATION.pack(join.generation) if sticky else None,
            owned_partitions=_by_topic(join.owned),
            generation_id=join.generation,
        )
    )


def _member(
    member_id: str, metadata: bytes | bytearray | memoryview, instance_id: str | None
) -> GroupMember:
    try:
        told = decode_subscription(metadata)
    except RemoteProtocolError as error:
        # A member with unreadable metadata must not keep the others from reading.
        LOG.warning("member %s gets nothing: %s", member_id, error)
        return GroupMember((), instance_id=instance_id)
    generation, words = told.generation_id, bytes(told.user_data or b"")
    if generation < 0 and len(words) >= _GENERATION.size:
        generation = _GENERATION.unpack(words[-_GENERATION.size :])[0]
    owned = _places(told.owned_partitions)
    return GroupMember(tuple(told.topics), owned, generation, instance_id)


def _by_topic(places: Iterable[TopicPartition]) -> list[ConsumerProtocolTopicPartitions]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return [
        ConsumerProtocolTopicPartitions(topic=topic, partitions=numbers)
        for topic, numbers in topics.items()
    ]


def _places(topics: Sequence[ConsumerProtocolTopicPartitions]) -> tuple[TopicPartition, ...]:
    return tuple((each.topic, partition) for each in topics for partition in each.partitions)
