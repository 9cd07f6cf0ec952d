"""Values in an address may be anything: a page says what it took instead, and nothing fails."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.store.reading.age import AuditAge
from tallymark_dashboards.access.user import VIEWER
from tallymark_dashboards.frame.ask import LONGEST_VALUE, MOST_VALUES, Ask, bounded
from tallymark_dashboards.frame.missing import nearest
from tallymark_dashboards.frame.time_range import DAY, LONGEST, NAMED, STEPS, time_range

NOW = 1_767_268_800_000
DIGITS = st.text("0123456789+-", max_size=30)
TEXTS = st.one_of(
    st.text(max_size=400), DIGITS, st.sampled_from(["2026-01-01", "10m", "7d", "9" * 26])
)


def ask(**query: str) -> Ask:
    nothing = cast(Any, None)
    age = AuditAge((), NOW, 0)
    return Ask(nothing, nothing, NOW, query, VIEWER, time_range(query, NOW)[0], age)


@given(TEXTS)
def test_a_number_is_always_one_that_may_be(text: str) -> None:
    """``page=abc`` was refused with an error in JSON."""
    one = ask(page=text)
    number = one.number("page", 1, 1, 14)
    assert 1 <= number <= 14
    assert bool(one.notes) == (text.strip() not in ("", *map(str, range(1, 15)))) or (
        not one.notes and int(text) == number
    )


@given(TEXTS)
def test_a_time_is_one_or_none(text: str) -> None:
    one = ask(at=text)
    at = one.moment("at")
    assert at is None or 0 <= at < 2**63
    assert bool(one.notes) == (at is None and bool(text.strip()))


@pytest.mark.parametrize(
    ("said", "taken", "note"),
    [
        ("abc", 1, "page=abc is no number: 1 is taken"),
        ("99", 14, "page=99 is more than 14: 14 is taken"),
        ("-1", 1, "page=-1 is below 1: 1 is taken"),
        ("²", 1, "page=² is no number: 1 is taken"),
        (" 3 ", 3, ""),
    ],
)
def test_what_was_taken_instead_is_said(said: str, taken: int, note: str) -> None:
    one = ask(page=said)
    assert one.number("page", 1, 1, 14) == taken
    assert one.notes == ([note] if note else [])


def test_one_of_several() -> None:
    one = ask(state="LOST", other="OPEN")
    assert one.one_of("state", ("OPEN", "REPAIRED"), "OPEN") == "OPEN"
    assert one.one_of("other", ("OPEN", "REPAIRED"), "REPAIRED") == "OPEN"
    assert one.notes == ["state=LOST is none of OPEN, REPAIRED: OPEN is taken"]


def test_a_value_for_which_nothing_is_taken_is_left_out() -> None:
    """It said “kind=LOST is none of , LOSS: is taken”."""
    one = ask(kind="LOST")
    assert one.one_of("kind", ("", "LOSS"), "") == ""
    assert one.notes == ["kind=LOST is none of LOSS: it is left out"]


@given(st.lists(st.tuples(st.text(max_size=400), st.text(max_size=400)), max_size=60))
def test_a_query_is_bounded(pairs: list[tuple[str, str]]) -> None:
    query, notes = bounded(pairs)
    assert len(query) <= MOST_VALUES
    assert all(len(text) <= LONGEST_VALUE for pair in query.items() for text in pair)
    for text in (*query, *query.values()):
        assert "\0" not in text
        text.encode()  # no lone surrogate: a database would refuse it
    assert all(len(note) < 120 for note in notes)


@given(st.fixed_dictionaries({}, optional={"range": TEXTS, "from": TEXTS, "to": TEXTS}))
def test_a_range_is_always_one_that_can_be_read(query: dict[str, str]) -> None:
    span, notes = time_range(query, NOW)
    assert 0 <= span.start < span.end
    assert span.end - span.start <= LONGEST
    again, _ = time_range(span.query, NOW)
    assert (again.start // 1000, again.end // 1000) == (span.start // 1000, span.end // 1000)
    assert not notes or any(text.strip() for text in query.values())


def test_the_longest_range_is_cut_to_whole_seconds() -> None:
    """366 days were taken before the ends became whole seconds, which made the range a second
    longer than a range may be."""
    span, notes = time_range({"from": "0", "to": "32000000001"}, NOW)
    assert (span.end - span.start, span.end) == (LONGEST, 32_000_001_000)
    assert notes == ("more than 366 days: the last 366 days before the end are shown",)
    assert time_range(span.query, NOW) == (span, ())


@pytest.mark.parametrize("name", NAMED)
def test_named_ranges_end_now(name: str) -> None:
    span, notes = time_range({"range": name}, NOW)
    assert (span.end, span.end - span.start, notes) == (NOW, NAMED[name][0], ())


@pytest.mark.parametrize("name", NAMED)
def test_a_named_range_does_not_move_with_each_second(name: str) -> None:
    """Quiet live pages were sent again every minute: with each window that left the range at its
    start their sums changed, though nothing had happened."""
    begin = time_range({"range": name}, NOW)[0].start
    later = [time_range({"range": name}, NOW + 1000 * second)[0].start for second in range(60)]
    assert len({begin, *later}) <= 2
    assert NOW - NAMED[name][0] <= begin < NOW - NAMED[name][0] + STEPS[name]


def test_a_range_from_only_ends_now_and_one_to_only_is_a_day() -> None:
    span, _ = time_range({"from": "2025-12-31"}, NOW)
    assert span.end == NOW
    span, _ = time_range({"to": "2025-12-31"}, NOW)
    assert span.end - span.start == DAY


def test_a_range_that_is_the_wrong_way_round_is_said() -> None:
    span, notes = time_range({"from": "2026-01-02", "to": "2026-01-01"}, NOW)
    assert span.name == "24h"
    assert "from is not before to" in notes[0]


def test_the_nearest_names_are_those_that_contain_it_and_those_with_few_other_letters() -> None:
    names = ["orders", "order-items", "payments", "clicks", "clicks.eu"]
    assert nearest("click", names) == ["clicks", "clicks.eu"]
    assert nearest("odrers", names)[0] == "orders"
    assert nearest("", names) == []
