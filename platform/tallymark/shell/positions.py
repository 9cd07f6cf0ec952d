"""Places in a log as people write them: ``beginning``, an offset, ``-10``, a time. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from tallymark.errors import UserError
from tallymark.shell.times import ago_ms, event_time_ms


@dataclass(frozen=True, slots=True)
class Position:
    """``value`` is the offset, how many records before the end, or milliseconds UTC."""

    kind: Literal["beginning", "end", "offset", "last", "time"]
    value: int = 0

    def resolve(self, start: int, end: int, at_time: Callable[[int], int | None]) -> int:
        """The offset in a log that holds [``start``, ``end``), within these. ``at_time`` finds the
        first record of a time or later, None when there is none (that is the end)."""
        if self.kind == "beginning":
            return start
        if self.kind == "end":
            return end
        if self.kind == "time":
            found = at_time(self.value)
            return end if found is None else found
        wanted = end - self.value if self.kind == "last" else self.value
        return min(max(wanted, start), end)


BEGINNING: Final = Position("beginning")
END: Final = Position("end")


def parse_offset(text: str) -> Position:
    """``beginning``, ``end``, ``1234``, ``-10`` (the last ten of each partition), or ``s@TIME`` as
    kcat has it. UserError."""
    if text in ("beginning", "earliest", "smallest"):
        return BEGINNING
    if text in ("end", "latest", "largest"):
        return END
    if text.startswith("s@"):  # as kcat
        return parse_time(text[2:])
    if re.fullmatch(r"-?\d{1,18}", text):
        number = int(text)
        return Position("last", -number) if text[0] == "-" else Position("offset", number)
    raise UserError(
        f"{text!r} is no place in a log", "give beginning, end, an offset, or -N for the last N"
    )


def parse_time(text: str, now_ms: int | None = None) -> Position:
    """A time: ISO 8601 (without a zone: UTC), seconds or ms since 1970, or ``90s``, ``10m``,
    ``2h``, ``7d`` before now. UserError."""
    ago = ago_ms(text, now_ms)
    if ago is not None:
        return Position("time", ago)
    try:
        return Position("time", event_time_ms(text))
    except ValueError as error:
        raise UserError(
            str(error), "give 2026-01-31T12:00:00Z, or 10m for ten minutes ago"
        ) from None


def parse_partitions(text: str | None) -> frozenset[int] | None:
    """``0,2-4`` -> {0, 2, 3, 4}; None for all. UserError."""
    if text is None:
        return None
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise UserError(f"{text!r} are no partitions", "give numbers, for example 0,2-4")
        numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(numbers)
