"""The heatmap: quiet where all is well, a symbol and a number where it is not."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.judge.verdicts import State
from tallymark_audit.store.reading.heat import HeatCell
from tallymark_audit.store.reading.sums import Sums
from tallymark_dashboards.view.clock import clock_of
from tallymark_dashboards.view.heat import Spot, cells_html, heads, heat_row

NOON = 1_767_268_800_000
MINUTE = 60_000
CLOCK = clock_of(NOON - 1440 * MINUTE, NOON, MINUTE, 144)


def cell(
    start: int,
    state: str,
    sums: Sums | None = None,
    edge: str = "",
    window: int = -1,
    healed: int = 0,
) -> HeatCell:
    return HeatCell(start, state, sums or Sums(), edge, window, healed)


def where(spot: Spot) -> str:
    return f"/window?{spot.edge}" if spot.window >= 0 else f"/topic?from={spot.start}"


def test_a_day_is_144_columns_of_ten_minutes() -> None:
    assert (len(CLOCK), CLOCK.step) == (144, 10 * MINUTE)


def test_one_bad_window_leads_to_it_and_several_to_the_topic() -> None:
    bad = cell(CLOCK.start, "LOSS", Sums(missing=38, bad=1), "dc1-to-aggregate", CLOCK.start)
    many = cell(CLOCK.start + CLOCK.step, "MIXED", Sums(missing=1234, bad=3), "e", CLOCK.start)
    row = heat_row("clicks", CLOCK, [bad, many])
    one, several = row.spots[0], row.spots[1]
    assert one is not None
    assert several is not None
    assert (one.symbol, one.count, one.window, row.tone) == ("−", "38", CLOCK.start, "bad")
    assert (several.symbol, several.count, several.window) == ("±", "1.2k", -1)
    html = cells_html(row, where)
    assert 'href="/window?dc1-to-aggregate"' in html
    assert f'href="/topic?from={CLOCK.start + CLOCK.step}"' in html
    assert "LOSS, 1 window bad, 38 missing" in html


def test_what_is_not_judged_is_not_good_and_what_is_bad_stays() -> None:
    """Every collector had stopped: the last cells were as quiet as those of a healthy day."""
    good = cell(CLOCK.end - CLOCK.step, "COMPLETE")
    bad = cell(CLOCK.end - 2 * CLOCK.step, "LOSS", Sums(missing=1, bad=1), "e", 5)
    row = heat_row("clicks", CLOCK, [good, bad], judged_through=CLOCK.end - 3 * CLOCK.step)
    assert row.quiet[-1] == "unjudged"
    assert row.spots[-2] is not None
    assert cells_html(row, where).endswith("<td class=u>")
    assert heat_row("clicks", CLOCK, [good]).quiet[-1] == "good"


def test_what_was_repaired_stays_findable() -> None:
    row = heat_row("clicks", CLOCK, [cell(CLOCK.start, "COMPLETE", healed=2)])
    spot = row.spots[0]
    assert spot is not None
    assert (spot.tone, spot.symbol) == ("healed", "◦")
    assert row.tone == ""


def test_names_and_labels_are_escaped() -> None:
    bad = cell(CLOCK.start, "LOSS", Sums(missing=1, bad=1), '"><script>', 5)
    html = cells_html(heat_row("clicks", CLOCK, [bad]), where)
    assert "<script>" not in html


def test_a_page_of_healthy_topics_is_small() -> None:
    cells = [cell(start, "COMPLETE") for start in CLOCK]
    html = cells_html(heat_row("clicks", CLOCK, cells), where)
    assert len(html) <= 144 * 12


@given(
    states=st.lists(st.sampled_from(["", *map(str, State), "strange"]), max_size=144),
    through=st.integers(CLOCK.start, CLOCK.end) | st.none(),
)
def test_every_row_has_as_many_cells_as_the_clock(states: list[str], through: int | None) -> None:
    cells = [
        cell(start, state, Sums(bad=1))
        for start, state in zip(CLOCK, states, strict=False)
        if state
    ]
    row = heat_row("clicks", CLOCK, cells, through)
    assert len(row.spots) == len(row.quiet) == len(CLOCK)
    assert len(re.findall("<td", cells_html(row, where))) == len(CLOCK)


def test_the_axis_has_a_label_over_every_column() -> None:
    for start in range(NOON, NOON + 1440 * MINUTE, 37 * MINUTE):
        clock = clock_of(start - 1440 * MINUTE, start, MINUTE, 144)
        found = heads(clock)
        assert sum(head.columns for head in found) == len(clock)
        assert found[0].date
        assert len([head for head in found if head.date]) == 2
