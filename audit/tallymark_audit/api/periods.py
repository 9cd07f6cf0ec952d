"""What answers about a period share: which one is asked for, and its sums."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from tallymark.clock import now_ms
from tallymark_audit.api import params
from tallymark_audit.api.fields import BALANCED, Field, Fields, number
from tallymark_audit.api.problems import Problem
from tallymark_audit.api.state import AuditApi
from tallymark_audit.store.reading.sums import Sums
from tallymark_audit.store.schema.rows import Row

DAY: Final = 86_400_000
MOST_BUCKETS: Final = 2_000
FEW: Final = 200
"""Buckets of an answer that names no length."""
LENGTHS: Final = (1, 5, 10, 30, 60, 180, 360, 720, 1_440, 10_080)
"""Minutes of a bucket that are offered."""
SUMS: Final[Fields] = {
    **BALANCED,
    "windows": number("Windows in all."),
    "bad": number("Windows that are wrong or UNKNOWN, and not accepted."),
    "accepted": number("Windows that are wrong or UNKNOWN, and were accepted."),
    "states": Field("object", "How many windows are in each state."),
}


def within(period: params.Period) -> tuple[int, int]:
    """The period that was asked for; without an end up to now, without a start the day before."""
    end = now_ms() if period.end is None else period.end
    start = max(0, end - DAY) if period.start is None else period.start
    if start >= end:
        raise Problem(422, "to has to be after from", "mend the period")
    return start, end


def period_of(
    api: AuditApi, period: params.Period, bucket: int | None, least_minutes: int = 0
) -> tuple[int, int, int]:
    """The period and the length of a bucket (ms)."""
    start, end = within(period)
    least = max(api.deployment.audit.window_ms, least_minutes * 60_000)
    if bucket is None:
        offered = [least, *(minutes * 60_000 for minutes in LENGTHS)]
        fitting = [one for one in offered if one >= least and (end - start) / one <= FEW]
        bucket = min(fitting, default=max(least, -(-(end - start) // FEW)))
    if (end - start) / bucket > MOST_BUCKETS:
        raise Problem(
            422,
            f"the period has more than {MOST_BUCKETS:,} buckets of {bucket} ms",
            "give a longer bucket or a shorter period",
        )
    return start, end, bucket


def sums_row(sums: Sums) -> Row:
    """The fields :data:`SUMS`."""
    return {**asdict(sums), "states": dict(sums.states), "windows": sums.windows}
