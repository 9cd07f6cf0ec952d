"""The strip is a clock, and absence is never green."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.judge.states import State
from tallymark_audit.store.reading.heat import HeatCell
from tallymark_audit.store.reading.sums import Sums
from tallymark_dashboards.view.clock import HOUR, MINUTE, clock_of
from tallymark_dashboards.view.marks import NOT_JUDGED, mark
from tallymark_dashboards.view.strip import HEALED, short_count, strip, strip_html

NOON = 1_767_268_800_000
CLOCK = clock_of(NOON - HOUR, NOON, MINUTE)
STATES = st.sampled_from([str(state) for state in State])


def cell(start: int, state: str, **states: int) -> HeatCell:
    return HeatCell(start, state, Sums(states=states or {state: 1}))


def test_two_rows_have_the_same_hours_whatever_they_hold() -> None:
    """Each row ended at its own last window: a tick of 2015 stood under one of now."""
    busy = strip(CLOCK, [cell(list(CLOCK)[-1], "COMPLETE")])
    idle = strip(CLOCK, [])
    assert [(one.start, one.end) for one in busy] == [(one.start, one.end) for one in idle]
    assert busy[-1].end == NOON


def test_a_cell_says_how_much_is_wrong_and_where_to_look() -> None:
    sums = Sums(missing=1_234, states={"LOSS": 1, "OPEN": 1, "COMPLETE": 3})
    first, *rest = strip(CLOCK, [HeatCell(CLOCK.start, "LOSS", sums, "a-to-b", 9)])
    assert (first.symbol, first.tone, first.count) == ("−", "bad", "1.2k")
    assert (first.edge, first.window) == ("a-to-b", 9)
    assert "1 LOSS, 1 OPEN, 3 COMPLETE; 1,234 messages" in first.label
    assert {one.tone for one in rest} == {"none"}


def test_what_was_wrong_and_is_repaired_stays_to_be_seen() -> None:
    """After the repair the windows were ticks as all others, and nothing led back to them."""
    first, *_ = strip(CLOCK, [HeatCell(CLOCK.start, "COMPLETE", Sums(), healed=2)])
    assert first.symbol == HEALED
    assert first.tone == "good"
    assert "2 windows were wrong before" in first.label


def test_what_the_audit_has_not_reached_is_not_judged() -> None:
    """Every collector had stopped for 15 windows, and the strip ended in ticks."""
    judged = NOON - 15 * MINUTE
    cells = strip(CLOCK, [cell(start, "COMPLETE") for start in CLOCK], judged)
    assert {one.tone for one in cells if one.end <= judged} == {"good"}
    later = [one for one in cells if one.end > judged]
    assert {one.state for one in later} == {NOT_JUDGED}
    assert all("the audit stands at 2026-01-01T11:45:00Z" in one.label for one in later)


def test_a_loss_stays_to_be_seen_although_the_audit_stands_still() -> None:
    cells = strip(CLOCK, [cell(list(CLOCK)[-1], "LOSS")], NOON - HOUR)
    assert cells[-1].state == "LOSS"
    assert {one.state for one in cells[:-1]} == {NOT_JUDGED}


@given(
    st.dictionaries(st.sampled_from(list(CLOCK)), STATES),
    st.one_of(st.none(), st.integers(NOON - 2 * HOUR, NOON + HOUR)),
)
def test_no_cell_is_good_unless_all_of_it_is_judged_and_good(
    states: dict[int, str], judged: int | None
) -> None:
    for one in strip(CLOCK, [cell(at, state) for at, state in states.items()], judged):
        if one.tone == "good":
            assert judged is None or one.end <= judged
            assert mark(states[one.start]).tone == "good"


def test_a_state_that_is_not_known_is_a_warning() -> None:
    first, *_ = strip(CLOCK, [cell(CLOCK.start, "BETTER_THAN_GOOD")])
    assert first.tone == "warn"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (999, "999"), (1_000, "1k"), (1_999, "1.9k"), (99_999, "99k"), (999_999, "999k"),
     (1_000_000, "1M"), (123_456_789_012, "123G"), (10**18, ">1T")],
)  # fmt: skip
def test_short_counts_are_cut_and_never_longer_than_four(count: int, text: str) -> None:
    assert short_count(count) == text


@given(st.integers(0, 2**63 - 1))
def test_a_short_count_is_short(count: int) -> None:
    assert len(short_count(count)) <= 4


def test_a_cell_leads_to_what_explains_it_and_is_escaped_whatever_its_topic_is_called() -> None:
    def link(page: str, **values: object) -> str:
        return f"/{page}?{'&'.join(f'{name}={value}' for name, value in values.items())}"

    wrong = HeatCell(CLOCK.start, "LOSS", Sums(missing=3, states={"LOSS": 1}), "a-to-b", 9)
    healed = HeatCell(CLOCK.start, "COMPLETE", Sums(states={"COMPLETE": 1}), healed=1)
    for one, page in ((wrong, "/window?edge=a-to-b&amp;topic="), (healed, "/incidents?topic=")):
        html = strip_html("<b>", strip(CLOCK, [one])[:1], link)
        assert f'href="{page}&lt;b&gt;&amp;' in html
        assert "<b>" not in html
    assert '<small class="n1">3</small>' in strip_html("t", strip(CLOCK, [wrong]), link)
    (empty,) = strip(CLOCK, [])[:1]
    assert "<a " not in strip_html("t", [empty], link)


def test_topics_that_say_the_same_lead_to_their_own_pages() -> None:
    """What cells of several topics have in common is made once; the address is not in common."""

    def link(page: str, **values: object) -> str:
        return f"/{page}?{values['topic']}"

    cells = strip(CLOCK, [cell(CLOCK.start, "COMPLETE")])
    assert strip(CLOCK, [cell(CLOCK.start, "COMPLETE")])[0] is cells[0]
    ours, others = strip_html("ours", cells, link), strip_html('"others', cells, link)
    assert 'href="/topic?ours"' in ours
    assert 'href="/topic?&quot;others"' in others
    assert "ours" not in others
    more = strip(CLOCK, [cell(CLOCK.start, "COMPLETE", COMPLETE=2)])
    assert "2 COMPLETE" in more[0].label
    behind = strip(CLOCK, [cell(CLOCK.start, "COMPLETE")], CLOCK.start)
    assert behind[0].state == NOT_JUDGED
