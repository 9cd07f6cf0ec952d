"""Numbers as people read them: absolute, thousands separated, never rounded up."""

from __future__ import annotations

from typing import Final

_BYTES: Final = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def number(value: object) -> str:
    """``1234567`` → ``1,234,567``; None → ``–``; a text stays."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else str(value)


def share(part: int, whole: int) -> str:
    """``part`` of ``whole`` in percent, rounded down to two places: 100.00 % only when it is all.
    Of nothing: ``–``."""
    if whole <= 0:
        return "–"
    hundredths = max(0, min(part, whole)) * 10_000 // whole
    return f"{hundredths // 100}.{hundredths % 100:02d} %"


def size(count: int) -> str:
    """Bytes in decimal units, rounded down to three digits: ``1.23 MB``."""
    unit = 0
    scaled = count * 100
    while scaled >= 100_000 and unit < len(_BYTES) - 1:
        scaled //= 1000
        unit += 1
    if unit == 0 or scaled >= 10_000:
        return f"{scaled // 100} {_BYTES[unit]}"
    whole, hundredths = divmod(scaled, 100)
    fraction = f"{hundredths:02d}" if whole < 10 else f"{hundredths // 10}"
    return f"{whole}.{fraction} {_BYTES[unit]}"
