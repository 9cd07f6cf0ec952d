"""Lags as texts and pictures."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.snapshots.shapes import Status
from tallymark_dashboards.view.clusters.group_lag import (
    STATUS_MARKS,
    delay_text,
    lag_chart,
    spark,
    status_mark,
)

courses = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**12)), max_size=40).map(
    sorted
)


def test_every_status_has_a_mark_of_its_own_and_an_unknown_one_is_not_good() -> None:
    assert set(STATUS_MARKS) == {str(one) for one in Status}
    assert len({one.symbol for one in STATUS_MARKS.values()}) == len(Status)
    assert status_mark("SOMETHING").tone != "good"


@pytest.mark.parametrize(
    ("ms", "least", "text"),
    [(None, False, "–"), (0, False, "0 s"), (61_000, False, "1 min 1 s"), (5_000, True, "≥ 5 s")],
)
def test_a_delay_is_told(ms: int | None, least: bool, text: str) -> None:
    assert delay_text(ms, least) == text


@given(courses, st.text(max_size=40))
def test_a_course_of_any_numbers_is_drawn(points: list[tuple[int, int]], label: str) -> None:
    for svg in (spark(points, label), lag_chart(points, "messages"), lag_chart(points, "time")):
        assert bool(svg) == (len(points) > 1)
        if svg:
            ElementTree.fromstring(svg)


def test_a_flat_course_looks_the_same_a_minute_later() -> None:
    """A page is sent again when its picture differs: that of a group without lag must not."""
    now = [(at, 0) for at in range(0, 100_000, 10_000)]
    later = [(at + 60_000, 0) for at, _ in (now[0], now[-1])]
    assert spark(later, "x") == spark([now[0], now[-1]], "x")
