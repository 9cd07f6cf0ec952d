"""What long tests compare: an attack that left something behind is found, a busy machine is
not taken for one."""

from __future__ import annotations

import random

import pytest
from as_before import assert_as_before
from two_brokers import Times

CALM = [0.003 + 0.000_01 * number for number in range(50)]


def busy(samples: list[float]) -> list[float]:
    """Two of three wait for their turn of a processor."""
    dice = random.Random(1)
    return [one + (dice.random() < 0.66) * dice.uniform(0.003, 0.1) for one in samples]


def test_a_machine_that_is_busy_afterwards_is_not_taken_for_what_was_left_behind() -> None:
    """The medians were compared: a log-in took 0.6 ms before and 1.6 ms after, 2.8 times what it
    took at the broker beside, since others had begun to use the two processors."""
    assert_as_before(CALM, busy(CALM), 0.000_1, "a request, s")


@pytest.mark.parametrize("crowded", [False, True])
def test_what_makes_each_request_longer_is_found(crowded: bool) -> None:
    left = [2 * one for one in CALM]
    with pytest.raises(AssertionError, match="fastest tenth"):
        assert_as_before(CALM, busy(left) if crowded else left, 0.000_1, "a request, s")


def test_too_few_samples_say_nothing() -> None:
    with pytest.raises(AssertionError, match="50, 3 samples"):
        assert_as_before(CALM, CALM[:3], 0.000_1, "a request, s")


def times(fast: float, fast_beside: float) -> Times:
    return Times(
        median=10 * fast,
        fast=fast,
        slow=100 * fast,
        beside=fast_beside,
        fast_beside=fast_beside,
        ratio=10.0,
        turns=fast,
    )


def test_a_broker_is_as_it_was_if_its_fastest_work_is() -> None:
    """In its ratio to the broker beside: a machine that is slower now is slower for both."""
    calm = times(0.003, 0.003)
    assert times(0.003, 0.003).is_as(calm)
    assert times(0.006, 0.006).is_as(calm)
    assert times(0.000_6, 0.000_5).is_as(calm), "0.2 ms cannot be told apart"
    assert times(0.003, 0.003).is_as(times(0.038, 0.056)), "the machine was busy then"
    assert not times(0.006, 0.003).is_as(calm)
    assert not times(0.009, 0.006).is_as(calm)
