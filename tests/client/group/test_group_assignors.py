"""Who of a group gets which partition: Kafka's own results, and what must always hold."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tallymark.client.consuming.settings import ASSIGNMENT_STRATEGIES
from tallymark.client.group.state_machine.assignors import (
    ASSIGNORS,
    Division,
    GroupMember,
    Members,
    Partitions,
    assign_cooperative_sticky,
    assign_range,
    assign_round_robin,
    believed,
    every_partition,
    in_order,
)

TOPICS = ("a", "b", "c")
topics = st.lists(st.sampled_from(TOPICS), unique=True).map(lambda names: tuple(sorted(names)))
groups = st.dictionaries(st.sampled_from("pqrstuvw"), topics.map(GroupMember), min_size=1)
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9)).map(
    lambda found: {topic: tuple(range(count)) for topic, count in found.items()}
)
same = st.integers(1, 8).map(lambda n: {f"m{i}": GroupMember(TOPICS) for i in range(n)})


def places(division: Division) -> list[tuple[str, int]]:
    return list(itertools.chain.from_iterable(division.values()))


def read_by_somebody(members: Members, partitions: Partitions) -> list[tuple[str, int]]:
    wanted = {topic for member in members.values() for topic in member.topics}
    return [place for place in every_partition(partitions) if place[0] in wanted]


def next_members(members: Members, division: Division, generation: int) -> dict[str, GroupMember]:
    return {
        name: GroupMember(member.topics, tuple(division.get(name, ())), generation)
        for name, member in members.items()
    }


def settled(members: Members, partitions: Partitions, start: int = 1) -> Division:
    """Cooperative rounds until nothing moves; each member owns what it was given."""
    division: Division = {}
    for generation in range(start, start + 3):
        division = assign_cooperative_sticky(members, partitions)
        members = next_members(members, division, generation)
    return division


@pytest.mark.parametrize("name", ["range", "roundrobin"])
@settings(max_examples=60)
@given(members=groups, partitions=counts)
def test_every_partition_goes_to_one_who_reads_its_topic(
    name: str, members: Members, partitions: Partitions
) -> None:
    division = ASSIGNORS[name](members, partitions)
    assert set(division) == set(members)
    assert sorted(places(division)) == read_by_somebody(members, partitions)
    for member, share in division.items():
        assert {topic for topic, _ in share} <= set(members[member].topics)


@settings(max_examples=60)
@given(members=groups, partitions=counts)
def test_sticky_gives_every_partition_to_one_once_it_has_settled(
    members: Members, partitions: Partitions
) -> None:
    division = settled(members, partitions)
    assert sorted(places(division)) == read_by_somebody(members, partitions)
    for member, share in division.items():
        assert {topic for topic, _ in share} <= set(members[member].topics)


@settings(max_examples=60)
@given(members=groups, partitions=counts)
def test_sticky_is_even(members: Members, partitions: Partitions) -> None:
    """No partition can go to somebody who reads its topic and has fewer by two or more."""
    division = settled(members, partitions)
    for member, share in division.items():
        for topic, _ in share:
            for other, theirs in division.items():
                if topic in members[other].topics:
                    assert len(theirs) + 2 > len(share), (member, other)


@settings(max_examples=60)
@given(members=groups, partitions=counts)
def test_sticky_stands_still_where_nothing_changes(
    members: Members, partitions: Partitions
) -> None:
    division = settled(members, partitions)
    again = assign_cooperative_sticky(next_members(members, division, 7), partitions)
    assert again == division


@settings(max_examples=60)
@given(before=same, after=same, partitions=counts)
def test_sticky_moves_as_little_as_can_be(
    before: Members, after: Members, partitions: Partitions
) -> None:
    """Where all read the same: who stays keeps all it had, up to an even share."""
    had = settled(before, partitions)
    staying = next_members(before, had, 9)
    members = {name: staying.get(name, member) for name, member in after.items()}
    got = settled(members, partitions, 10)
    total = len(every_partition(partitions))
    fair, more = divmod(total, len(members))
    kept = {name: len(set(had.get(name, [])) & set(got[name])) for name in members}
    sizes = sorted((len(had.get(name, [])) for name in members), reverse=True)
    best = sum(min(size, fair + (index < more)) for index, size in enumerate(sizes))
    assert sum(kept.values()) == best


@settings(max_examples=60)
@given(before=same, after=same, partitions=counts)
def test_what_moves_is_given_up_first(
    before: Members, after: Members, partitions: Partitions
) -> None:
    """KIP-429: in no round does anybody get what another one owns still."""
    had = settled(before, partitions)
    owners = {place: name for name, share in had.items() for place in share if name in after}
    members = {
        name: next_members(before, had, 5).get(name, member) for name, member in after.items()
    }
    for name, share in assign_cooperative_sticky(members, partitions).items():
        for place in share:
            assert owners.get(place, name) == name


def by_kafka_python(assignor: Any, members: Members, partitions: Partitions) -> Division:
    cluster = SimpleNamespace(
        partitions_for_topic=lambda topic: set(partitions[topic]) if topic in partitions else None
    )
    told = [
        SimpleNamespace(
            member_id=name,
            group_instance_id=member.instance_id,
            metadata=SimpleNamespace(topics=list(member.topics)),
        )
        for name, member in sorted(members.items())
    ]
    return {
        name: sorted(
            (topic, number)
            for topic, numbers in assignment.assigned_partitions
            for number in numbers
        )
        for name, assignment in assignor.assign(cluster, told).items()
    }


@settings(max_examples=60)
@given(members=groups, partitions=counts)
def test_range_is_as_kafka_python_divides(members: Members, partitions: Partitions) -> None:
    theirs = by_kafka_python(RangePartitionAssignor, members, partitions)
    assert assign_range(members, partitions) == theirs


@settings(max_examples=60)
@given(members=same, partitions=counts)
def test_round_robin_is_as_kafka_python_divides(members: Members, partitions: Partitions) -> None:
    """Its own fails where members read different topics."""
    theirs = by_kafka_python(RoundRobinPartitionAssignor, members, partitions)
    assert assign_round_robin(members, partitions) == theirs


def test_the_examples_of_kafkas_documentation() -> None:
    two = {"c0": GroupMember(("t0", "t1")), "c1": GroupMember(("t0", "t1"))}
    three_each = {"t0": range(3), "t1": range(3)}
    assert assign_range(two, three_each) == {
        "c0": [("t0", 0), ("t0", 1), ("t1", 0), ("t1", 1)],
        "c1": [("t0", 2), ("t1", 2)],
    }
    assert assign_round_robin(two, three_each) == {
        "c0": [("t0", 0), ("t0", 2), ("t1", 1)],
        "c1": [("t0", 1), ("t1", 0), ("t1", 2)],
    }
    different = {
        "c0": GroupMember(("t0",)),
        "c1": GroupMember(("t0", "t1")),
        "c2": GroupMember(("t0", "t1", "t2")),
    }
    growing = {"t0": range(1), "t1": range(2), "t2": range(3)}
    assert assign_round_robin(different, growing) == {
        "c0": [("t0", 0)],
        "c1": [("t1", 0)],
        "c2": [("t1", 1), ("t2", 0), ("t2", 1), ("t2", 2)],
    }


def test_static_members_sort_by_their_names() -> None:
    members = {
        "x9": GroupMember(("t",), instance_id="1"),
        "x1": GroupMember(("t",), instance_id="2"),
        "a": GroupMember(("t",)),
    }
    assert in_order(members) == ["x9", "x1", "a"]
    assert assign_range(members, {"t": range(3)}) == {
        "x9": [("t", 0)],
        "x1": [("t", 1)],
        "a": [("t", 2)],
    }


def test_of_two_owners_the_one_of_the_later_generation_is_believed() -> None:
    members = {
        "old": GroupMember(("t",), (("t", 0), ("t", 1)), 3),
        "new": GroupMember(("t",), (("t", 0), ("gone", 0), ("t", 9)), 4),
        "same": GroupMember(("t",), (("t", 1),), 3),
        "left": GroupMember(("u",), (("t", 2),), 4),
    }
    assert believed(members, {"t": range(3), "u": range(1)}) == {("t", 0): "new"}


def test_a_thousand_partitions_and_a_hundred_members_are_divided_evenly() -> None:
    members = {f"m{n:03}": GroupMember(("t",)) for n in range(100)}
    partitions = {"t": tuple(range(1000))}
    division = settled(members, partitions)
    assert Counter(len(share) for share in division.values()) == {10: 100}
    del members["m050"]
    owned = next_members(members, division, 9)
    after = settled(owned, partitions, 10)
    assert sum(len(set(after[m]) - set(division[m])) for m in owned) == 10


def test_the_settings_know_every_division() -> None:
    assert set(ASSIGNMENT_STRATEGIES) == set(ASSIGNORS)
