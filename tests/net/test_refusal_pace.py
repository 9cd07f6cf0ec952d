"""When log-ins that failed are told so."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.net.addresses import sender
from tallymark.net.limits import failed_login_delay as refusal_pace
from tallymark.net.limits.failed_login_delay import LONGEST_SECONDS, PER_SECOND, FailedLoginDelay


def test_the_refusals_of_one_address_stand_in_a_line() -> None:
    """Two hundred connections guessed as fast as they were answered, by names that are not there:
    1,700 log-ins a second without one hash, and everybody else waited up to 0.3 s for the event
    loop."""
    pace = FailedLoginDelay()
    dues = [pace.come("attacker", 5.0) for _ in range(200)]
    assert dues == pytest.approx([5 + n / PER_SECOND for n in range(200)])
    assert pace.come("office", 5.0) == 5.0
    assert pace.come("attacker", 100.0) == 100.0
    most = [pace.come("attacker", 200.0) for _ in range(10_000)]
    assert max(most) == 200.0 + LONGEST_SECONDS


def test_who_is_let_in_stands_in_no_line() -> None:
    """A thousand clients of one address come back at once; one of them has a wrong password, and
    is told so at once."""
    pace = FailedLoginDelay()
    for _ in range(1000):
        pace.come("office", 1.0)
    for _ in range(1000):
        pace.let_in("office", 2.0)
    assert pace.come("office", 2.0) <= 2.0 + LONGEST_SECONDS
    pace = FailedLoginDelay()
    for n in range(1000):
        pace.come("office", float(n))
        pace.let_in("office", float(n))
    assert pace.come("office", 1000.0) == 1000.0
    assert len(pace) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.booleans(), st.floats(0, 3)), min_size=1, max_size=200
    )
)
def test_a_refusal_has_its_time(steps: list[tuple[str, bool, float]]) -> None:
    """Neither before it came nor later than the bound, whatever comes and is let in; and as many
    are due in a second as the pace says, apart from those that the bound brings forward."""
    pace, now = FailedLoginDelay(), 0.0
    refused: dict[str, list[float]] = {"a": [], "b": []}
    for host, fits, passed in steps:
        now += passed
        due = pace.come(host, now)
        assert now <= due <= now + LONGEST_SECONDS
        if fits:
            pace.let_in(host, now)
        else:
            refused[host].append(due)
    for dues in refused.values():
        for before, after in itertools.pairwise(dues):
            assert after - before > 0.99 / PER_SECOND


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal_pace, "_MAX_SENDERS", 3)
    pace = FailedLoginDelay()
    for n in range(10):
        pace.come(f"10.0.0.{n}", 0.0)
    assert len(pace) == 3
    assert pace.come("10.0.0.9", 0.0) > 0
    assert pace.come("10.0.0.0", 0.0) == 0


def test_who_is_one_sender() -> None:
    assert sender("10.0.0.1") == "10.0.0.1"
    assert sender("::ffff:10.0.0.1") == "10.0.0.1"
    assert sender("2001:db8:1:2:3:4:5:6") == sender("2001:db8:1:2::") == "2001:db8:1:2::/64"
    assert sender("2001:db8:1:3::") != sender("2001:db8:1:2::")
    assert sender("fe80::1%eth0") == sender("fe80::2%eth0") == "fe80::/64"
    assert sender("local") == "local"
    assert sender("a:b") == "a:b"
