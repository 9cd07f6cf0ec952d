"""Where the replicas of new partitions go."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import KafkaError
from tallymark.replication.placement import check_manual, spread


def even(*brokers: int) -> dict[int, int]:
    return dict.fromkeys(brokers, 0)


def refused(error: pytest.ExceptionInfo[KafkaError]) -> str:
    return error.value.name


LOADS = st.dictionaries(st.integers(0, 50), st.integers(0, 20), min_size=1, max_size=9)


@given(LOADS, st.integers(1, 40))
def test_one_replica_goes_round_those_with_the_fewest_first(
    load: dict[int, int], count: int
) -> None:
    ordered = sorted(load, key=lambda one: (load[one], one))
    assert spread(count, 1, load) == tuple((ordered[index % len(load)],) for index in range(count))


@given(LOADS, st.integers(1, 60), st.data())
def test_replicas_are_different_brokers_and_leaders_are_spread(
    load: dict[int, int], count: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(load)))
    placed = spread(count, factor, load)
    assert all(len(set(replicas)) == len(replicas) == factor for replicas in placed)
    assert all(set(replicas) <= set(load) for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[one] for one in load) <= 1


@given(
    st.lists(st.sampled_from("abc"), min_size=2, max_size=9),
    st.integers(1, 30),
    st.data(),
)
def test_each_replica_is_in_another_rack_while_there_are_racks(
    chosen: list[str], count: int, data: st.DataObject
) -> None:
    racks = dict(enumerate(chosen))
    load = {one: data.draw(st.integers(0, 5)) for one in racks}
    factor = data.draw(st.integers(2, len(racks)))
    for replicas in spread(count, factor, load, racks):
        first = [racks[one] for one in replicas[: len(set(chosen))]]
        assert len(set(first)) == len(first)


@given(st.integers(2, 8), st.integers(2, 8))
def test_a_full_turn_of_shifts_spreads_followers_evenly(brokers: int, factor: int) -> None:
    """So the followers of one broker's partitions are on all others: when it dies each of them
    takes an equal part of its leads."""
    factor = min(factor, brokers)
    placed = spread(brokers * (brokers - 1), factor, even(*range(brokers)))
    pairs = Counter((replicas[0], replicas[1]) for replicas in placed)
    assert set(pairs.values()) == {1}
    assert len(pairs) == brokers * (brokers - 1)
    assert len(set(Counter(one for replicas in placed for one in replicas).values())) == 1


def test_the_example_of_the_module() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    assert spread(5, 2, even(1, 2, 3, 4), racks) == ((1, 3), (3, 2), (2, 4), (4, 1), (1, 4))


def test_racks_on_some_brokers_only_are_refused_with_their_names() -> None:
    with pytest.raises(KafkaError, match=r"brokers \[2, 3\] have no broker.rack") as error:
        spread(1, 2, even(1, 2, 3), {1: "a", 2: ""})
    assert refused(error) == "INVALID_REPLICA_ASSIGNMENT"
    assert spread(1, 1, even(1, 2, 3), {1: "a"}) == ((1,),), "one replica is in one rack anyway"


@pytest.mark.parametrize("factor", [0, -1, 4])
def test_a_factor_that_is_not_possible_is_refused(factor: int) -> None:
    with pytest.raises(KafkaError) as error:
        spread(1, factor, even(1, 2, 3))
    assert refused(error) == "INVALID_REPLICATION_FACTOR"


def test_without_brokers_nothing_is_placed() -> None:
    with pytest.raises(KafkaError) as error:
        spread(1, 1, {})
    assert refused(error) == "BROKER_NOT_AVAILABLE"


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    assert check_manual([[3, 1], [2, 3]], even(1, 2, 3)) == ((3, 1), (2, 3))
    assert check_manual([], even(1)) == ()


@pytest.mark.parametrize(
    ("assignment", "factor", "text"),
    [
        ([[1], []], None, "partition 1 has no replica"),
        ([[1, 1]], None, "names a broker twice"),
        ([[1, 9]], None, "the live brokers are [1, 2, 3]"),
        ([[1, 2], [3]], None, "partition 1 has 1 replicas, others of the topic have 2"),
        ([[1, 2]], 3, "others of the topic have 3"),
    ],
)
def test_manual_assignments_are_checked(
    assignment: list[list[int]], factor: int | None, text: str
) -> None:
    with pytest.raises(KafkaError) as error:
        check_manual(assignment, even(1, 2, 3), factor)
    assert refused(error) == "INVALID_REPLICA_ASSIGNMENT"
    assert text in str(error.value)


def test_brokers_that_leave_or_are_gone_get_nothing_unless_the_others_are_too_few() -> None:
    """A topic was created while a broker was dead and registered still: a partition that it alone
    could lead had no leader until an operator moved it."""
    load = {1: 0, 2: 5, 3: 9, 4: 9}
    assert {one for placed in spread(8, 1, load, avoid={1}) for one in placed} == {2, 3, 4}
    assert {one for placed in spread(8, 3, load, avoid={1, 7}) for one in placed} == {2, 3, 4}
    assert {one for placed in spread(8, 3, load, avoid={1, 2}) for one in placed} == {1, 2, 3, 4}
    assert spread(4, 1, load, avoid={1, 2, 3, 4}) == spread(4, 1, load)
