"""The range of a run: UTC, half-open, widened to whole windows."""

from __future__ import annotations

import pytest

from tallymark.errors import UserError
from tallymark_audit.model.time_format import parse_time
from tallymark_spark_jobs.reconcile.shapes.period import DAY_MS, Period, parse_period

W = 60_000
NOW = 1_769_863_205_123  # 2026-01-31T12:40:05.123Z
MIDNIGHT = NOW - NOW % DAY_MS


def test_yesterday_by_default() -> None:
    assert parse_period(None, None, False, W, NOW) == Period(MIDNIGHT - DAY_MS, MIDNIGHT)


def test_dates_and_times_are_utc_unless_they_say_otherwise() -> None:
    assert parse_time("2026-01-31") == MIDNIGHT
    assert parse_time("2026-01-31T12:40:05.123") == NOW
    assert parse_time("2026-01-31T13:40:05.123+01:00") == NOW
    assert parse_time("2026-01-31T12:40:05Z") == NOW - 123


def test_the_edges_are_widened_to_whole_windows() -> None:
    found = parse_period("2026-01-31T12:40:05", "2026-01-31T12:41:01", False, W, NOW)
    assert found == Period(NOW - 5_123, NOW - 5_123 + 2 * W)
    assert found.holds(found.end - W)
    assert not found.holds(found.end)
    assert not found.holds(-W)


def test_all_takes_in_what_carries_no_time() -> None:
    found = parse_period(None, None, True, W, NOW)
    assert found.start is None
    assert found.holds(-W)
    assert found.end == NOW - 5_123 + W
    assert str(found) == "the beginning of the logs to 2026-01-31T12:41:00Z"


@pytest.mark.parametrize(
    ("start", "end", "everything", "says"),
    [
        ("soon", None, False, "'soon' is not a time"),
        ("1969-12-31", None, False, "before 1970"),
        ("2026-02-01", "2026-02-01", False, "is empty"),
        ("2026-02-02", "2026-02-01", False, "is empty"),
        ("2026-02-02", None, True, "--all excludes"),
    ],
)
def test_a_range_that_is_none_is_refused(
    start: str | None, end: str | None, everything: bool, says: str
) -> None:
    with pytest.raises(UserError, match=says):
        parse_period(start, end, everything, W, NOW)


def test_days_before_are_judged_again() -> None:
    plain = parse_period("2026-01-31", "2026-02-01", False, W, NOW)
    again = parse_period("2026-01-31", "2026-02-01", False, W, NOW, 3)
    assert (again.start, again.end) == ((plain.start or 0) - 3 * 86_400_000, plain.end)
    yesterday = parse_period(None, None, False, W, NOW)
    more = parse_period(None, None, False, W, NOW, 1)
    assert ((yesterday.start or 0) - (more.start or 0), more.end) == (86_400_000, yesterday.end)
    with pytest.raises(UserError, match="--recheck-days"):
        parse_period(None, None, True, W, NOW, 1)
