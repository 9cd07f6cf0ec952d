"""One line of time for an incident: order is kept, and a gap of a day does not hide the minutes."""

import re
from itertools import pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from tallymark_dashboards.view.charts.timeline import (
    LEFT,
    MOST,
    WIDTH,
    Happening,
    positions,
    timeline,
)

NOON = 1_767_268_800_000
HOUR = 3_600_000


@given(st.lists(st.integers(0, 4_000_000_000_000), min_size=1, max_size=40))
def test_the_order_of_moments_is_kept_and_all_are_on_the_chart(moments: list[int]) -> None:
    at = positions(moments)
    ordered = sorted(set(moments))
    drawn = [at[moment] for moment in ordered]
    assert drawn == sorted(drawn)
    assert len(set(drawn)) == len(ordered)
    assert all(LEFT <= x < WIDTH for x in drawn)


def test_what_happened_in_a_minute_stays_apart_from_a_repair_a_day_later() -> None:
    """On a scale of hours the alert, the log's cut and the first verdict were one spot."""
    at = positions([NOON, NOON + 5_000, NOON + 65_000, NOON + 24 * HOUR])
    drawn = list(at.values())
    assert min(later - one for one, later in pairwise(drawn)) > 60


def test_an_empty_line_is_not_drawn() -> None:
    assert timeline([]) == ""


def test_names_from_outside_stay_text() -> None:
    hostile = "</title><script>alert(1)</script>\u202e"
    svg = timeline(
        [
            Happening(hostile, NOON, NOON, hostile, "bad", '/x?"><script>'),
            Happening("windows", NOON, NOON + 60_000, hostile, "warn"),
        ]
    )
    tree = ElementTree.fromstring(svg)
    assert not [one for one in tree.iter() if one.tag == "script"]
    assert "\u202e" not in svg
    assert "style=" not in svg  # a strict policy forbids it


def test_lanes_stand_in_the_order_given_and_each_mark_says_what_it_is() -> None:
    svg = timeline(
        [
            Happening("windows", NOON, NOON + 60_000, "2 windows, 38 missing", "bad"),
            Happening("alerts", NOON + 70_000, NOON + 90_000, "MISSING fired", "bad"),
            Happening("repairs", NOON + 24 * HOUR, NOON + 24 * HOUR, "38 copied", "good", "/runs"),
        ]
    )
    lanes = re.findall(r'class="lane"[^>]*>([^<]+)<', svg)
    assert lanes == ["windows", "alerts", "repairs"]
    assert re.findall(r"<title>([^<]+)<", svg) == [
        "2 windows, 38 missing",
        "MISSING fired",
        "38 copied",
    ]
    assert ">23 h 58 min<" in svg  # the long gap says how long it is
    assert 'href="/runs"' in svg


def test_a_thousand_events_are_drawn_as_the_first_and_the_last() -> None:
    svg = timeline([Happening("alerts", NOON + n, NOON + n, f"n{n}.") for n in range(1_000)])
    titles = re.findall(r"<title>([^<]+)<", svg)
    assert len(titles) == MOST
    assert titles[0] == "n0."
    assert titles[-1] == "n999."
