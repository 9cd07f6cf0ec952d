"""Which folder of a table a record belongs to: the hour of its event time, UTC. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tallymark_spark_jobs.lake.table import Place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HOUR_MS: Final = 3_600_000
_FIRST: Final = 0
_LAST: Final = 253_402_300_799_999 // HOUR_MS
"""9999-12-31, 23 o'clock: the last hour that has a date of ten characters."""


def hour_of(timestamp: int) -> int:
    """Hours since 1970. A record without a time (-1), or with one that is no date from 1970 to
    9999, belongs to the nearest hour that has one: nothing is left out for its time."""
    return max(_FIRST, min(timestamp // HOUR_MS, _LAST))


def hours_of(timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
    """:func:`hour_of` each."""
    return (timestamps // HOUR_MS).clip(_FIRST, _LAST)


@lru_cache(maxsize=4096)
def place_of(topic: str, hour: int) -> Place:
    """The place of an hour that :func:`hour_of` gave."""
    begin = datetime.fromtimestamp(hour * 3600, UTC)
    return Place(topic, begin.strftime("%Y-%m-%d"), begin.strftime("%H"))


def first_on_time(loaded_at_ms: int | None, late_after_ms: int) -> int:
    """The first hour whose rows are not late, if the load before this one was at ``loaded_at_ms``
    (None: there was none). A reader of an hour then, that long after its end, took it for
    complete."""
    return _FIRST if loaded_at_ms is None else max(0, loaded_at_ms - late_after_ms) // HOUR_MS
