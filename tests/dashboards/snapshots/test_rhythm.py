"""When a cluster is asked again, and in which look what of it is asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.snapshots.rhythm import AWAY_S, LONGEST_S, Turns, pause


@pytest.mark.parametrize(
    ("took", "failures", "expected"),
    [
        (0.1, 0, 10.0),
        (0.5, 0, 10.0),
        (2.0, 0, 40.0),  # a large cluster: a twentieth of the time
        (100.0, 0, LONGEST_S),
        (3.0, 1, 10.0),
        (3.0, 2, 20.0),
        (3.0, 3, 40.0),
        (3.0, 9, AWAY_S),
        (3.0, 10_000, AWAY_S),
    ],
)
def test_a_costly_cluster_is_asked_less_often_and_one_that_is_away_more_and_more_rarely(
    took: float, failures: int, expected: float
) -> None:
    assert pause(took, failures, 0.5) == pytest.approx(expected)
    assert pause(took, failures, 0.0) == pytest.approx(0.9 * expected)
    assert pause(took, failures, 1.0) == pytest.approx(1.1 * expected)


@given(st.integers(0, 200), st.integers(1, 50))
def test_in_turns_everything_is_asked_for_equally_often(size: int, most: int) -> None:
    turns, everything = Turns(most), list(range(size))
    rounds = -(-size // most) if size else 1
    found = [turns.take(everything) for _ in range(rounds)]
    assert all(len(one) == min(most, size) for one in found)
    assert set().union(*found) == set(everything)


def test_a_list_that_becomes_shorter_is_still_taken_in_turns() -> None:
    turns = Turns(3)
    assert turns.take(list(range(10))) == [0, 1, 2]
    assert turns.take(list(range(4))) == [3, 0, 1]
    assert turns.take([7]) == [7]
    assert turns.take([]) == []
