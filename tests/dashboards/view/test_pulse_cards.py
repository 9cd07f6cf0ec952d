"""The numbers at the top: messages, each once, and nothing good about what is not known."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.store.reading.age import AuditAge, SilentCollector
from tallymark_audit.store.reading.latency import Percentiles
from tallymark_audit.store.reading.pulse import Pulse
from tallymark_audit.store.reading.sums import Sums
from tallymark_dashboards.view.pulse_cards import Card, pulse_cards, span
from tallymark_dashboards.view.wall_verdict import wall_verdict

NOON = 1_767_268_800_000
DAY = 86_400_000
GOOD = AuditAge((), NOON - 5_000, 125_000)
BEHIND = AuditAge((SilentCollector("dc1", "c-1", "silent", NOON - DAY, 0),), NOON - DAY, 125_000)
NEVER = AuditAge((SilentCollector("dc1", "", "never", 0, 0),), 0, 125_000)
NEW = replace(NEVER, begun=False)


def cards(age: AuditAge, **sums: Any) -> dict[str, Card]:
    pulse = Pulse(NOON - DAY, NOON, Sums(**sums), through=NOON - 60_000, topics=1)
    return {one.name: one for one in pulse_cards(pulse, age, {}, 900_000)}


def test_one_of_a_million_is_not_100_percent() -> None:
    found = cards(GOOD, claimed=1_000_000, observed=999_999, missing=1)
    assert found["complete"].value == "99.99 %"
    assert found["missing"].value == "1"
    assert found["missing"].note == "of 1,000,000 claimed"
    assert found["missing"].tone == "bad"


def test_what_is_pending_is_neither_missing_nor_there() -> None:
    found = cards(GOOD, claimed=100, observed=90, pending=10)
    assert found["complete"].value == "100.00 %"
    assert found["missing"].note == "of 100 claimed, 10 pending"


def test_a_silent_audit_is_unknown_since_then() -> None:
    """It said 100 % for a day after the last collector had stopped."""
    found = cards(BEHIND, claimed=100, observed=100)
    assert (found["complete"].value, found["complete"].at) == ("unknown since", NOON - DAY)
    assert {found[name].tone for name in ("missing", "duplicated", "complete", "audit")} == {"warn"}
    assert found["audit"].note == "not counted: dc1"
    assert cards(NEVER)["complete"].value == "unknown"


def test_a_new_store_has_no_numbers() -> None:
    """Just installed, the first page said in yellow that the audit is behind and 0 are missing."""
    found = cards(NEW)
    for name in ("missing", "duplicated", "unclaimed", "complete"):
        assert (found[name].value, found[name].note) == ("–", "nothing is judged yet")
    assert (found["audit"].value, found["audit"].tone) == ("not begun", "warn")
    assert wall_verdict((), 0, found.values(), 0, 0).text == "Nothing is counted yet"
    assert cards(NEW, claimed=5)["missing"].value == "0"


def test_unknown_windows_are_never_100_percent() -> None:
    found = cards(GOOD, claimed=100, observed=90, pending=10, states={"UNKNOWN": 3})
    assert found["complete"].value == "unknown"
    assert found["complete"].note == "3 windows are UNKNOWN"


def test_who_holds_the_watermark_is_named() -> None:
    def through(at: int) -> Card:
        pulse = Pulse(NOON - DAY, NOON, Sums(), {}, at, "a-to-b", "clicks")
        return next(
            one for one in pulse_cards(pulse, GOOD, {}, 900_000) if one.name == "complete through"
        )

    assert through(NOON - DAY).note == "held by clicks on a-to-b"
    assert through(NOON - DAY).tone == "warn"
    assert through(NOON - 60_000).tone == ""
    assert through(0).value == "not yet"
    assert through(-1).value == "–"


def test_the_slowest_cluster_is_the_latency() -> None:
    delays = {
        name: Percentiles(name, 0, 10, 200.0, 900.0, p99, 70_000.0)
        for name, p99 in (("dc1", 950.0), ("aggregate", 1_990.0))
    }
    pulse = Pulse(NOON - DAY, NOON, Sums())
    (card,) = (one for one in pulse_cards(pulse, GOOD, delays, 0) if one.name == "delivery latency")
    assert card.value == "1.9 s"
    assert card.note == "99 % to aggregate; half in 200 ms, slowest 1 min 10 s"


@pytest.mark.parametrize(("ms", "text"), [(0.9, "0 ms"), (999.9, "999 ms"), (59_999, "59.9 s")])
def test_latencies_are_cut(ms: float, text: str) -> None:
    assert span(ms) == text


SUMS = st.builds(
    Sums,
    claimed=st.integers(0, 99),
    pending=st.integers(0, 9),
    missing=st.integers(0, 9),
    duplicates=st.integers(0, 9),
    unclaimed=st.integers(0, 9),
    bad=st.integers(0, 3),
    states=st.dictionaries(st.sampled_from(["UNKNOWN", "LOSS", "COMPLETE"]), st.integers(1, 3)),
)


@given(SUMS, st.sampled_from([GOOD, BEHIND, NEVER]))
def test_the_wall_is_calm_only_while_all_is_known_and_well(sums: Sums, age: AuditAge) -> None:
    pulse = Pulse(NOON - DAY, NOON, sums, through=NOON - 60_000, topics=1)
    found = wall_verdict([], 0, pulse_cards(pulse, age, {}, 900_000), sums.bad, 1)
    calm = found.text == "Every message arrived"
    wrong = sums.missing or sums.duplicates or sums.unclaimed or sums.bad
    assert calm == (age.ok and not wrong and not sums.states.get("UNKNOWN"))
    assert calm == (found.tone == "")
