"""Throttled replication (KIP-73)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import UserError
from tallymark.replication.throttle import ReplicationThrottle, ThrottledReplicas


def test_a_batch_larger_than_the_rate_passes_and_is_paid_for_afterwards() -> None:
    throttle = ReplicationThrottle(100, 0)
    assert throttle.allows(0)
    throttle.charge(1_100, 0)
    assert throttle.wait_ms(0) == 10_001
    assert not throttle.allows(10_000)
    assert throttle.allows(10_001)


def test_the_rate_changes_while_it_runs() -> None:
    throttle = ReplicationThrottle(100, 0)
    throttle.charge(1_100, 0)
    throttle.set_rate(1_000, 0)
    assert throttle.allows(1_001)
    throttle.set_rate(None, 1_001)
    throttle.charge(10**9, 1_001)
    assert throttle.allows(1_001)
    throttle.set_rate(10, 1_001)
    assert throttle.allows(1_001)


def test_what_counted_for_a_limit_is_known_also_after_it_was_taken_off() -> None:
    throttle = ReplicationThrottle(None, 0)
    throttle.charge(7, 0)
    throttle.set_rate(10, 0)
    throttle.charge(30, 0)
    throttle.set_rate(None, 5)
    throttle.charge(900, 5)
    assert throttle.charged == 30


def test_a_rate_of_nothing_stops_and_can_be_raised() -> None:
    throttle = ReplicationThrottle(0, 0)
    assert not throttle.allows(10**6)
    assert throttle.wait_ms(10**6) == 60_000
    throttle.set_rate(10, 10**6)
    assert throttle.allows(10**6 + 200)


@given(
    st.integers(1, 10_000),
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 20_000)), min_size=1, max_size=30),
)
def test_over_time_no_more_passes_than_the_rate_and_one_batch(
    rate: int, batches: list[tuple[int, int]]
) -> None:
    throttle = ReplicationThrottle(rate, 0)
    now = passed = 0
    for gap, size in batches:
        now += gap + throttle.wait_ms(now + gap)
        assert throttle.allows(now)
        assert passed <= rate + rate * now / 1000 + 1
        throttle.charge(size, now)
        passed += size


def test_replicas_in_sync_are_never_throttled() -> None:
    """A throttled member of the ISR falls out of it, and acks=all fails."""
    some = ThrottledReplicas("0:1, 0:2,3:1")
    assert some.applies(0, 2, in_sync=False)
    assert not some.applies(0, 2, in_sync=True)
    assert not some.applies(1, 2, in_sync=False)
    assert ThrottledReplicas("*").applies(7, 7, in_sync=False)
    assert not ThrottledReplicas("").applies(0, 1, in_sync=False)


def test_a_list_that_cannot_be_read_says_what_to_write() -> None:
    with pytest.raises(UserError, match="'0-1' is not partition:broker"):
        ThrottledReplicas("0:1,0-1")


def test_what_is_left_is_what_may_be_sent_without_a_debt() -> None:
    throttle = ReplicationThrottle(100, 0)
    assert throttle.left(0) == 100
    throttle.charge(130, 0)
    assert throttle.left(0) == 0
    assert throttle.left(1000) == 70
    throttle.set_rate(None, 1000)
    assert throttle.left(1000) > 2**62
