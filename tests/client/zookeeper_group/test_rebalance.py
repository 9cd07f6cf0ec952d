"""Algorithm 1: who gets which partition."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client.consuming.assignment import split_range
from tallymark.client.zookeeper_group.rebalance import StreamId, assign, assignment_of
from tallymark.coordination.consumers.subscriptions import Subscription


def members(**streams: int) -> dict[str, Subscription]:
    return {name: Subscription({"t": count}) for name, count in streams.items()}


def owned(division: dict[tuple[str, int], StreamId], consumer: str) -> list[int]:
    return [p for (_, p), stream in division.items() if stream.consumer == consumer]


@pytest.mark.parametrize(
    ("items", "shares", "expected"),
    [
        (5, 2, [[0, 1, 2], [3, 4]]),
        (4, 2, [[0, 1], [2, 3]]),
        (7, 3, [[0, 1, 2], [3, 4], [5, 6]]),
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (1, 4, [[0], [], [], []]),
        (0, 2, [[], []]),
    ],
)
def test_the_first_shares_take_the_remainder(
    items: int, shares: int, expected: list[list[int]]
) -> None:
    assert [list(share) for share in split_range(range(items), shares)] == expected


def test_five_partitions_for_two_consumers() -> None:
    division = assign(members(a=1, b=1), {"t": range(5)})
    assert owned(division, "a") == [0, 1, 2]
    assert owned(division, "b") == [3, 4]


def test_streams_count_not_consumers() -> None:
    """Five partitions, two consumers of four streams each: the first one has four of them."""
    division = assign(members(a=4, b=4), {"t": range(5)})
    assert owned(division, "a") == [0, 1, 2, 3]
    assert owned(division, "b") == [4]
    assert division["t", 0] == StreamId("a", 0)
    assert division["t", 4] == StreamId("b", 0)


def test_partitions_sort_by_number_and_order_of_reading_does_not_matter() -> None:
    numbers = [10, 2, 1, 11, 0]
    group = members(b=1, a=1)
    assert assign(group, {"t": numbers}) == assign(group, {"t": sorted(numbers)})
    assert owned(assign(group, {"t": numbers}), "a") == [0, 1, 2]


def test_a_consumer_gets_only_topics_it_subscribes_to() -> None:
    group = {"a": Subscription({"t": 1}), "b": Subscription({"u": 1, "t": 1})}
    division = assign(group, {"t": range(2), "u": range(2), "nobody": range(3)})
    assert division == {
        ("t", 0): StreamId("a", 0),
        ("t", 1): StreamId("b", 0),
        ("u", 0): StreamId("b", 0),
        ("u", 1): StreamId("b", 0),
    }


def test_filters_match_whole_names_and_no_internal_topics() -> None:
    group = {"a": Subscription({"click.*": 2}, is_filter=True)}
    division = assign(group, {"clicks": [0, 1], "my-clicks": [0], "_click": [0]})
    assert division == {("clicks", 0): StreamId("a", 0), ("clicks", 1): StreamId("a", 1)}
    everything = {"a": Subscription({".*": 1}, is_filter=True)}
    assert assign(everything, {"_tallymark_audit": [0], "__consumer_offsets": [0]}) == {}


def test_a_filter_and_a_list_share_a_topic() -> None:
    group = {"a": Subscription({"t": 1}), "b": Subscription({"t|u": 1}, is_filter=True)}
    division = assign(group, {"t": range(4), "u": range(2)})
    assert owned(division, "a") == [0, 1]
    assert sorted(place for place, s in division.items() if s.consumer == "b") == [
        ("t", 2),
        ("t", 3),
        ("u", 0),
        ("u", 1),
    ]


def test_whoever_is_no_member_gets_nothing() -> None:
    assert assignment_of("x", members(a=1), {"t": [0]}) == {}


groups = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.dictionaries(st.sampled_from("tuv"), st.integers(1, 4), min_size=1).map(Subscription),
    max_size=6,
)
topics = st.dictionaries(st.sampled_from("tuv"), st.integers(0, 12).map(range))


@settings(max_examples=100, deadline=None)
@given(groups, topics)
def test_everyone_computes_the_same_even_and_whole_division(
    group: dict[str, Subscription], partitions: dict[str, range]
) -> None:
    division = assign(group, partitions)
    parts = {consumer: assignment_of(consumer, group, partitions) for consumer in group}
    # Each consumer's own part is its part of the whole, so no two own a partition.
    for consumer, part in parts.items():
        assert part == {p: s.number for p, s in division.items() if s.consumer == consumer}
    assert sum(map(len, parts.values())) == len(division)
    for topic, numbers in partitions.items():
        streams = [
            (c, n)
            for c, subscription in group.items()
            for n in range(subscription.streams_of(topic))
        ]
        assert {p for t, p in division if t == topic} == (set(numbers) if streams else set())
        loads = [
            sum(1 for (t, _), s in division.items() if t == topic and tuple(s) == stream)
            for stream in streams
        ]
        assert not loads or max(loads) - min(loads) <= 1
