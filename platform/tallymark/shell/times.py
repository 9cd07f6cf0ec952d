"""Texts and numbers that are times, as milliseconds since the epoch."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, Final

from tallymark import clock

_CLF: Final = re.compile(r"(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}
_AGO: Final = re.compile(r"(\d{1,9})(s|m|h|d)", re.ASCII)
_UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NUMBER: Final = re.compile(r"[+-]?\d{1,19}(\.\d{1,9})?")


def event_time_ms(value: Any) -> int:
    """Milliseconds since the epoch. Raises ValueError with the reason.

    A text is ISO 8601 (without a zone: UTC), the time of an access log, or a number. A number is
    in seconds, ms, µs or ns, by its size: each covers the years 1973 to 5138 without meeting the
    next.
    """
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            return _from_number(float(text) if "." in text else int(text))
        if "/" in text:
            return clf_time_ms(text)
        return _from_iso(text)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _from_number(value)
    raise ValueError(f"{value!r} is not a time")


def ago_ms(text: str, now_ms: int | None = None) -> int | None:
    """``90s``, ``10m``, ``2h``, ``7d`` before now, as ms since the epoch; None: it is no such
    text."""
    long_ms = duration_ms(text)
    if long_ms is None:
        return None
    return (clock.now_ms() if now_ms is None else now_ms) - long_ms


def duration_ms(text: str) -> int | None:
    """``90s``, ``10m``, ``2h``, ``7d`` as ms; None: it is no such text."""
    found = _AGO.fullmatch(text.strip())
    return None if found is None else int(found[1]) * _UNITS_MS[found[2]]


@lru_cache(maxsize=1024)  # a busy server's log has many lines a second
def clf_time_ms(text: str) -> int:
    """``17/May/2015:10:05:03 +0000``. Raises ValueError."""
    match = _CLF.fullmatch(text)
    if not match or match.group(2) not in _MONTHS:
        raise ValueError(f"{text!r} is not a time like 17/May/2015:10:05:03 +0000")
    day, month, year, hour, minute, second, sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    moment = datetime(
        int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second),
        tzinfo=timezone(offset),
    )  # fmt: skip
    return _milliseconds(moment)


def _from_iso(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:100]!r} is not a time") from None
    return _milliseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _from_number(value: float) -> int:
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{value} is not a time")
    for limit, to_ms in ((1e11, 1000), (1e14, 1), (1e17, 1 / 1000), (1e20, 1 / 1_000_000)):
        if value < limit:
            return int(value * to_ms)
    raise ValueError(f"{value} is not a time")


def _milliseconds(moment: datetime) -> int:
    # Not timestamp() * 1000: floats would lose a millisecond now and then.
    milliseconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    if milliseconds < 0:
        raise ValueError(f"{moment.isoformat()} is before 1970, which no record's time can be")
    return milliseconds
