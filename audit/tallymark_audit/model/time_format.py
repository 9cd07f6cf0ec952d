"""Times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from tallymark.errors import UserError
from tallymark.shell.times import ago_ms

TIME_FORMS = (
    "a date (2026-01-31), a time (2026-01-31T12:40:05Z; without an offset it is UTC), or 10m for "
    "ten minutes ago"
)
LARGEST: Final = 2**63 - 1
"""What the store can hold of a time, ms."""
DIGITS: Final = 19


@lru_cache(maxsize=10_000)  # a page shows the same times in many rows
def utc(timestamp_ms: int) -> str:
    """``2026-01-31T12:40:05Z``; a time outside the calendar stays a number of ms."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def percent(part: int, whole: int) -> str:
    """``part`` of ``whole`` in percent, never rounded up: one message missing of a million shows
    as 99.9999, and only all is 100. Nothing of nothing is ``-``."""
    if whole <= 0:
        return "-"
    if part >= whole:
        return "100"
    ten_thousandths = part * 1_000_000 // whole
    return f"{ten_thousandths // 10_000}.{ten_thousandths % 10_000:04}"


@lru_cache(maxsize=1_000)
def duration(ms: int) -> str:
    """``2 h 13 min``, ``4 min 5 s``, ``41 s``: the two largest units, cut, not rounded."""
    seconds = max(0, ms) // 1000
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for name, length in units:
        many, seconds = divmod(seconds, length)
        if many or parts:
            parts.append(f"{many} {name}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 ")) or "0 s"


def parse_time(text: str, now_ms: int | None = None) -> int:
    """ISO date or time (UTC where it names no zone), ms, or ``90s``, ``10m``, ``2h``, ``7d`` before
    now, as ms UTC. UserError: none of these, or before 1970."""
    text = text.strip()
    if text.isdecimal():
        if len(text) > DIGITS or int(text) > LARGEST:
            raise UserError(f"{text[:50]} ms is too late to be a time", f"give {TIME_FORMS}")
        return int(text)
    ago = ago_ms(text, now_ms)
    if ago is not None and ago >= 0:
        return ago
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{text!r} is not a time", f"give {TIME_FORMS}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    if since < timedelta(0):
        raise UserError(f"{text!r} is before 1970", f"give {TIME_FORMS}")
    return since // timedelta(milliseconds=1)
