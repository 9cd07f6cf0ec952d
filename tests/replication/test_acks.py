"""Requests with acks=all that wait."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tallymark.replication.acks import WaitingForAll


def test_requests_are_released_in_the_order_of_their_offsets() -> None:
    waiting = WaitingForAll[str](3)
    for name, end in (("b", 20), ("a", 10), ("c", 30)):
        waiting.add(name, end, 1_000)
    assert waiting.committed(3, 9) == []
    assert waiting.committed(3, 20) == ["a", "b"]
    assert len(waiting) == 1


def test_a_high_watermark_of_another_leader_epoch_releases_nothing() -> None:
    """KAFKA-20634: a partition was cut as a follower and filled again; its high watermark rose, and
    a coordinator took that for the commit of its own records, which were gone."""
    waiting = WaitingForAll[str](3)
    waiting.add("a", 10, 1_000)
    assert waiting.committed(4, 100) == []
    assert waiting.all() == ["a"]


def test_a_request_ends_once() -> None:
    waiting = WaitingForAll[str](3)
    waiting.add("late", 10, 100)
    gone = waiting.add("gone", 20, 100)
    waiting.add("kept", 30, 200)
    waiting.forget(gone)
    assert waiting.expired(150) == ["late"]
    assert waiting.committed(3, 25) == []
    assert waiting.next_deadline_ms == 200
    assert waiting.all() == ["kept"]
    assert waiting.next_deadline_ms is None
    assert len(waiting) == 0


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=20),
    st.lists(st.tuples(st.sampled_from("chx"), st.integers(0, 20)), max_size=20),
)
def test_each_request_ends_exactly_once_and_for_its_reason(
    requests: list[tuple[int, int]], acts: list[tuple[str, int]]
) -> None:
    waiting = WaitingForAll[int](1)
    tickets = [waiting.add(number, *one) for number, one in enumerate(requests)]
    open_ones = set(range(len(requests)))
    for act, value in acts:
        if act == "c":
            ended = waiting.committed(1, value)
            expected = {one for one in open_ones if requests[one][0] <= value}
        elif act == "h":
            ended = waiting.expired(value)
            expected = {one for one in open_ones if requests[one][1] <= value}
        else:
            ended = [value] if value in open_ones else []
            expected = set(ended)
            if value < len(tickets):
                waiting.forget(tickets[value])
        assert (sorted(ended), len(ended)) == (sorted(expected), len(set(ended)))
        open_ones -= expected
        assert len(waiting) == len(open_ones)
        deadline = min((requests[one][1] for one in open_ones), default=None)
        assert waiting.next_deadline_ms == deadline
    assert set(waiting.all()) == open_ones
