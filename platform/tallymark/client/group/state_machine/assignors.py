"""Which member of a group gets which partition: Kafka's assignors, run by the leader. Pure.

* ``range``: each topic by itself, neighbouring partitions together, the first members take the
  remainder (RangeAssignor).
* ``roundrobin``: all partitions dealt out one by one, in turn (RoundRobinAssignor).
* ``cooperative-sticky``: as even as can be, and as little moved as can be
  (:mod:`.sticky`); what moves is given up first and handed on in the next generation
  (KIP-429).

Members sort as in Kafka: static ones by their static id, then the others by member id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from tallymark.client.consuming.assignment import split_range
from tallymark.client.group.state_machine.sticky import give_up_first, hand_out
from tallymark.protocol.topic_partition import TopicPartition

Partitions = Mapping[str, Sequence[int]]
"""Topic to the numbers of its partitions."""

Division = dict[str, list[TopicPartition]]
"""Member id to its partitions; every member is in it."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member as its leader knows it. ``owned`` is what it says that it reads, ``generation`` the
    one in which it got that (-1: not known)."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    instance_id: str | None = None


Members = Mapping[str, GroupMember]


def assign_range(members: Members, partitions: Partitions) -> Division:
    """Kafka's ``range``."""
    division: Division = {member: [] for member in members}
    for topic in sorted(partitions):
        readers = [member for member in in_order(members) if topic in members[member].topics]
        if readers:
            shares = split_range(sorted(partitions[topic]), len(readers))
            for member, share in zip(readers, shares, strict=True):
                division[member] += [(topic, partition) for partition in share]
    return division


def assign_round_robin(members: Members, partitions: Partitions) -> Division:
    """Kafka's ``roundrobin``: a member that does not read a partition's topic is passed over."""
    division: Division = {member: [] for member in members}
    turns = cycle(in_order(members))
    wanted = {topic for member in members.values() for topic in member.topics}
    for place in every_partition(partitions):
        if place[0] in wanted:
            taker = next(member for member in turns if place[0] in members[member].topics)
            division[taker].append(place)
    return division


def assign_cooperative_sticky(members: Members, partitions: Partitions) -> Division:
    """Kafka's ``cooperative-sticky``; what its owner has yet to give up has no owner for now."""
    owned = believed(members, partitions)
    topics = {member: members[member].topics for member in in_order(members)}
    division = hand_out(topics, owned, every_partition(partitions))
    return give_up_first(division, owned)


ASSIGNORS: Final[Mapping[str, Callable[[Members, Partitions], Division]]] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    "cooperative-sticky": assign_cooperative_sticky,
}
COOPERATIVE: Final = "cooperative-sticky"


def in_order(members: Members) -> list[str]:
    """Member ids: static members by their static id, then the others."""
    return sorted(
        members,
        key=lambda member: (
            members[member].instance_id is None,
            members[member].instance_id or member,
            member,
        ),
    )


def every_partition(partitions: Partitions) -> list[TopicPartition]:
    """All of them, sorted."""
    return [(topic, number) for topic in sorted(partitions) for number in sorted(partitions[topic])]


def believed(members: Members, partitions: Partitions) -> dict[TopicPartition, str]:
    """The owner of each partition: of two members that claim one, that of the later generation; of
    the same generation, neither. Partitions and subscriptions that are gone do not count."""
    there = set(every_partition(partitions))
    owners: dict[TopicPartition, str] = {}
    latest: dict[TopicPartition, int] = {}
    for member_id in in_order(members):
        member = members[member_id]
        for place in member.owned:
            if place not in there or place[0] not in member.topics:
                continue
            seen = latest.get(place)
            if seen is not None and seen >= member.generation:
                if seen == member.generation:
                    owners.pop(place, None)
                continue
            owners[place], latest[place] = member_id, member.generation
    return owners
