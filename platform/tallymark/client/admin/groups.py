"""Consumer groups that the brokers coordinate: list them, describe their members, delete them.

Groups that coordinate themselves in ZooKeeper are in :mod:`.zookeeper_groups`, which returns the
same classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tallymark.client.admin.base import AdminBase
from tallymark.client.admin.results import Outcomes, Results, refusal
from tallymark.client.admin.routes import find_coordinators
from tallymark.errors import CODES, KafkaError, RemoteProtocolError, TallymarkError
from tallymark.net.addresses import Address
from tallymark.protocol import messages
from tallymark.protocol.consumer_protocol import decode_assignment
from tallymark.protocol.topic_partition import TopicPartition

_DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group: ``protocol_type`` is "consumer", or "" of one that only stores offsets; ``state``
    is "" where brokers do not report it (before Kafka 2.6); ``coordinator`` is a broker's id."""

    group: str
    protocol_type: str = ""
    state: str = ""
    kind: str = ""
    coordinator: int = -1


@dataclass(frozen=True, slots=True)
class GroupList:
    """The groups by name, and the brokers that did not return theirs."""

    groups: Mapping[str, GroupListing] = field(default_factory=dict[str, GroupListing])
    errors: Mapping[int, TallymarkError] = field(default_factory=dict[int, TallymarkError])


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One consumer. ``instance_id`` is the name of a static member; ``partitions`` are those
    assigned to it."""

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group in full. ``state``: Empty, PreparingRebalance, CompletingRebalance, Stable;
    ``coordinator`` is a broker's id, -1 for ZooKeeper; ``protocol`` names the assignor."""

    group: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    coordinator: int = -1
    members: tuple[MemberDescription, ...] = ()

    def owner(self, partition: TopicPartition) -> MemberDescription | None:
        """The member that consumes the partition; None when none does."""
        found = (member for member in self.members if partition in member.partitions)
        return next(found, None)


class GroupAdmin(AdminBase):
    """The methods of Admin for groups."""

    def list_groups(self, *, states: Iterable[str] = ()) -> GroupList:
        """The groups of all brokers; with ``states`` only those that are in one of them."""
        request = messages.ListGroupsRequest(states_filter=tuple(states))

        async def ask(address: Address) -> list[GroupListing]:
            response = await self._cluster.ask(address, request)
            if response.error_code:
                raise KafkaError(response.error_code, f"groups of {address}")
            return [
                GroupListing(one.group_id, one.protocol_type, one.group_state, one.group_type)
                for one in response.groups
            ]

        answers = self._of_brokers(None, ask, "listing groups")
        groups = {
            one.group: GroupListing(one.group, one.protocol_type, one.state, one.kind, broker)
            for broker, listed in answers.done.items()
            for one in listed
        }
        return GroupList(dict(sorted(groups.items())), answers.errors)

    def describe_groups(self, groups: Iterable[str]) -> Results[str, GroupDescription]:
        """State, members and their partitions. KafkaError GROUP_ID_NOT_FOUND for a group that does
        not exist."""

        async def ask(address: Address, names: list[str]) -> Outcomes[str, GroupDescription]:
            response = await self._cluster.ask(
                address, messages.DescribeGroupsRequest(groups=tuple(names))
            )
            return {one.group_id: _described(one) for one in response.groups}

        found = self._of_coordinators(groups, ask, "describing groups")
        places = self._run(find_coordinators(self._cluster, found.done), "finding coordinators")
        return Results(
            {name: _at(one, places[name]) for name, one in found.done.items()}, found.errors
        )

    def delete_groups(self, groups: Iterable[str]) -> Results[str, None]:
        """Remove groups without members, and their offsets. KafkaError NON_EMPTY_GROUP for a group
        with members, GROUP_ID_NOT_FOUND for one that does not exist."""

        async def ask(address: Address, names: list[str]) -> Outcomes[str, None]:
            request = messages.DeleteGroupsRequest(groups_names=tuple(names))
            response = await self._cluster.ask(address, request)
            return {
                one.group_id: refusal(one.error_code, f"group {one.group_id}")
                if one.error_code
                else None
                for one in response.results
            }

        return self._of_coordinators(groups, ask, "deleting groups")


def _described(group: messages.DescribeGroupsResponseGroup) -> GroupDescription | KafkaError:
    context = f"group {group.group_id}"
    if group.error_code:
        return refusal(group.error_code, context, group.error_message)
    if group.group_state == _DEAD:  # the answer for an unknown group, before KIP-1043
        return refusal(CODES["GROUP_ID_NOT_FOUND"], context)
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        members=tuple(_member(member) for member in group.members),
    )


def _member(member: messages.DescribeGroupsResponseMember) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        _assigned(member.member_assignment),
    )


def _assigned(data: bytes | bytearray | memoryview) -> tuple[TopicPartition, ...]:
    """The partitions in an assignment; empty where the group is not one of consumers."""
    if not len(data):
        return ()
    try:
        assignment = decode_assignment(data)
    except RemoteProtocolError:
        return ()
    return tuple(
        sorted(
            (one.topic, part) for one in assignment.assigned_partitions for part in one.partitions
        )
    )


def _at(group: GroupDescription, place: tuple[int, Address] | TallymarkError) -> GroupDescription:
    coordinator = -1 if isinstance(place, TallymarkError) else place[0]
    return GroupDescription(
        group.group, group.state, group.protocol_type, group.protocol, coordinator, group.members
    )
