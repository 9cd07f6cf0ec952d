"""Charts are drawn within their frame, and no message is too few to be seen."""

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.view.charts.burn_down import Left, burn_down, points
from tallymark_dashboards.view.charts.delivery import Delivered, delivery
from tallymark_dashboards.view.charts.latency import Took, latency, told
from tallymark_dashboards.view.charts.plot import WIDTH, plot_of, round_up, time_ticks

NOON = 1_767_268_800_000
MINUTE = 60_000
DAY = 1440 * MINUTE


def shapes(svg: str, kind: str) -> list[ElementTree.Element]:
    tree = ElementTree.fromstring(svg)
    return [one for one in tree.iter() if one.get("class") == kind]


def test_a_lost_message_among_a_million_is_drawn() -> None:
    found = [Delivered(NOON, 10**6, 10**6 - 1, missing=1)]
    svg = delivery(found, NOON, NOON + DAY, 10 * MINUTE)
    (lost,) = shapes(svg, "short")
    assert float(lost.get("height") or 0) >= 2
    assert "1 of 1,000,000 missing" in svg


def test_what_may_still_arrive_is_hatched_and_not_missing() -> None:
    svg = delivery([Delivered(NOON, 10, 7, pending=3)], NOON, NOON + DAY, 10 * MINUTE)
    assert shapes(svg, "pending")
    assert not shapes(svg, "short")


def test_a_chart_says_what_is_not_judged() -> None:
    found = [Delivered(NOON, 10, 10)]
    assert "unjudged" not in delivery(found, NOON, NOON + DAY, MINUTE)
    assert "not judged since" in delivery(found, NOON, NOON + DAY, MINUTE, NOON + MINUTE)


def test_nothing_is_no_chart() -> None:
    assert delivery([], NOON, NOON + DAY, MINUTE) == ""
    assert latency("dc1", [], NOON, NOON + DAY, MINUTE) == ""
    assert burn_down([Left(0, 3, 9, "OPEN")]) == ""


def test_lines_of_latency_are_named_and_a_lone_bucket_is_seen() -> None:
    svg = latency("dc<1>", [Took(NOON, 3, 20, 180, 2_000)], NOON, NOON + DAY, 60 * MINUTE)
    assert {"50 %", "95 %", "99 %", "max"} <= set(re.findall(">([^<]+)</text>", svg))
    (line,) = shapes(svg, "line line-3")
    assert "L" in (line.get("d") or "")
    assert "dc&lt;1&gt;" in svg


def test_latencies_for_people() -> None:
    assert [told(ms) for ms in (0.4, 12, 1_500, 90_000)] == ["0 ms", "12 ms", "1.5 s", "1 min 30 s"]


def test_the_burn_down_begins_at_the_end_of_the_window() -> None:
    history = [
        {"judged_at": NOON - 5, "pending": 9, "missing": 0, "claimed": 9, "state": "OPEN"},
        {"judged_at": NOON + 8_000, "pending": 0, "missing": 2, "claimed": 9, "state": "LOSS"},
        {"judged_at": NOON + DAY, "pending": 0, "missing": 0, "claimed": 9, "state": "COMPLETE"},
    ]
    found = points(reversed(history), NOON)
    assert [(one.after, one.absent) for one in found] == [(0, 9), (8_000, 2), (DAY, 0)]
    svg = burn_down(found)
    assert "9 at first, 0 now" in svg
    assert ElementTree.fromstring(svg) is not None


NUMBERS = st.integers(0, 10**12)


@given(
    counts=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=30),
    step=st.sampled_from([1_000, MINUTE, 60 * MINUTE]),
)
def test_every_shape_is_within_the_picture(
    counts: list[tuple[int, int, int, int]], step: int
) -> None:
    found = [
        Delivered(NOON + number * step, sum(four), *four) for number, four in enumerate(counts)
    ]
    svg = delivery(found, NOON, NOON + 20 * step, step)
    for one in ElementTree.fromstring(svg).iter():
        if one.get("x") and one.get("width") and one.get("class") != "hatch":
            left, wide = float(one.get("x") or 0), float(one.get("width") or 0)
            assert 0 <= left <= left + wide <= WIDTH + 1


@given(start=st.integers(0, NOON), length=st.integers(1, 400 * DAY))
def test_the_axis_has_few_round_times_between_its_ends(start: int, length: int) -> None:
    ticks = time_ticks(start, start + length)
    assert len(ticks) <= 8
    assert all(start <= at <= start + length for at in ticks)


@given(value=st.floats(0, 1e15))
def test_a_plot_has_room_for_its_values(value: float) -> None:
    assert round_up(value) >= value
    plot = plot_of(0, 1, [value])
    assert plot.y(plot.greatest) <= plot.y(value) <= plot.foot


def test_charts_have_no_style_of_their_own() -> None:
    """The pages' policy forbids it, so it would not work."""
    svg = delivery([Delivered(NOON, 10, 7, 1, 1, 1)], NOON, NOON + DAY, MINUTE)
    assert "style=" not in svg
