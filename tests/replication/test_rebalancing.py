"""Replicas that have to go elsewhere: what stays, what moves, and that the load is even."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.rebalancing import rebalanced

Current = Mapping[TopicPartition, Sequence[int]]


def spread_over(count: int, factor: int, brokers: Sequence[int]) -> dict[TopicPartition, list[int]]:
    return {
        ("t", index): [brokers[(index + step) % len(brokers)] for step in range(factor)]
        for index in range(count)
    }


def test_a_drained_broker_keeps_nothing_and_the_others_stay() -> None:
    current = {("t", 0): [1, 2, 4], ("t", 1): [4, 2, 3], ("t", 2): [1, 2, 3]}
    found = rebalanced(current, {1, 2, 3}, {})
    assert {key: set(replicas) for key, replicas in found.items()} == {
        ("t", 0): {1, 2, 3},
        ("t", 1): {1, 2, 3},
    }
    leaders = Counter(replicas[0] for replicas in (found | {("t", 2): (1, 2, 3)}).values())
    assert max(leaders.values()) == 1, "leaders are spread"


def test_a_new_broker_gets_its_part_where_that_is_asked_for() -> None:
    current = spread_over(12, 3, [1, 2, 3])
    assert rebalanced(current, {1, 2, 3, 4}, {}) == {}
    found = rebalanced(current, {1, 2, 3, 4}, {}, even=True)
    load = Counter(one for replicas in (current | found).values() for one in replicas)
    assert load == {1: 9, 2: 9, 3: 9, 4: 9}
    assert all(len(set(replicas) - set(current[key])) == 1 for key, replicas in found.items())


def test_a_replica_goes_to_a_rack_that_has_none() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    assert rebalanced({("t", 0): [1, 3, 9]}, {1, 2, 3, 4, 5}, racks) == {("t", 0): (1, 3, 5)}


def test_too_few_brokers_are_refused_with_the_partition() -> None:
    with pytest.raises(KafkaError, match="t-7 would have 3 replicas on 2 brokers"):
        rebalanced({("t", 7): [1, 2, 3]}, {1, 2}, {})


def test_topics_of_one_replica_get_more_and_lose_them_again() -> None:
    one = {("t", 0): [1], ("t", 1): [2], ("t", 2): [3]}
    three = rebalanced(one, {1, 2, 3}, {}, factor=3)
    assert set(three) == set(one)
    assert all(set(replicas) == {1, 2, 3} for replicas in three.values())
    assert len({replicas[0] for replicas in three.values()}) == 3, "leaders are spread"
    two = rebalanced(three, {1, 2, 3}, {}, factor=2)
    assert {key: set(three[key][:2]) for key in three} == {key: set(two[key]) for key in two}
    with pytest.raises(KafkaError, match="t-0 would have 4 replicas on 3 brokers"):
        rebalanced(one, {1, 2, 3}, {}, factor=4)


@given(st.data())
def test_what_is_moved(data: st.DataObject) -> None:
    brokers = data.draw(st.lists(st.integers(1, 9), min_size=3, max_size=6, unique=True))
    factor = data.draw(st.integers(1, 3))
    everywhere = st.lists(st.integers(1, 9), min_size=factor, max_size=factor, unique=True)
    drawn = data.draw(st.lists(everywhere, max_size=12))
    current: Current = {("t", index): replicas for index, replicas in enumerate(drawn)}
    racks = {one: data.draw(st.sampled_from("ab")) for one in brokers}
    even = data.draw(st.booleans())
    wanted = data.draw(st.sampled_from([None, 1, 2, 3]))
    found = rebalanced(current, brokers, racks, even=even, factor=wanted)
    for key, replicas in found.items():
        assert set(replicas) != set(current[key])
        assert len(set(replicas)) == len(replicas) == (wanted or len(current[key]))
        assert set(replicas) <= set(brokers)
    for key, before in current.items():
        kept = before[:wanted]
        gone = set(kept) - set(brokers)
        assert (key in found) >= bool(gone)
        if not even and key in found:
            assert set(kept) & set(brokers) <= set(found[key]), "what may stay stays"
    again = {**current, **found}
    assert rebalanced(again, brokers, racks) == {}, "it is done in one step"
