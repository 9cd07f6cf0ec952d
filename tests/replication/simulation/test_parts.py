"""The parts that simulations share: virtual time, and plans made short."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from simulated_agenda import Agenda
from simulated_shrinking import shrunk


def test_acts_come_in_the_order_of_their_times_then_of_their_making() -> None:
    agenda, done = Agenda(), list[tuple[int, str]]()

    def act(name: str) -> None:
        done.append((agenda.now_ms, name))
        if name == "b":
            agenda.at(0, act, "late is now")

    for delay, name in ((20, "c"), (10, "a"), (10, "b")):
        agenda.after(delay, act, name)
    while agenda.step():
        pass
    assert done == [(10, "a"), (10, "b"), (10, "late is now"), (20, "c")]
    assert len(agenda) == 0


@given(st.lists(st.integers(0, 30), unique=True, max_size=30), st.sets(st.integers(0, 30)))
def test_what_is_left_of_a_plan_is_what_it_fails_by(events: list[int], needed: set[int]) -> None:
    needed &= set(events)

    def fails(kept: Sequence[int]) -> bool:
        return needed <= set(kept)

    assert shrunk(events, fails) == [one for one in events if one in needed]
