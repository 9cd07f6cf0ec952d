"""A sketch of how long things took: mergeable, small, right to 2 %.

As DDSketch (Masson, Rim, Lee, VLDB 2019): bucket ``i`` counts values in ``(γ^(i-1), γ^i]`` with
γ = (1+α)/(1-α), so a quantile read from a bucket is off by at most α, and two sketches of the same
γ are merged by adding their buckets. Maxima of percentiles, which others merge, mean nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

ACCURACY: Final = 0.02
_GAMMA: Final = (1 + ACCURACY) / (1 - ACCURACY)
_LOG_GAMMA: Final = math.log(_GAMMA)
ZERO: Final = -1
"""The bucket of values up to 1 ms, those below zero too: clocks of two hosts differ."""
LAST: Final = 600
"""The bucket of everything beyond some 300 days, so that a sketch has a bound."""

Sketch = dict[int, int]
"""Count by bucket."""


def empty() -> Sketch:
    """Without a value: a function, since a call of the type takes five times as long."""
    return {}


def bucket_of(value: float) -> int:
    """The bucket of a value, in the unit the sketch is kept in (ms here)."""
    if value <= 1:
        return ZERO
    return min(LAST, math.ceil(math.log(value) / _LOG_GAMMA))


def value_of(bucket: int) -> float:
    """The value that represents a bucket."""
    return 0.0 if bucket == ZERO else 2 * _GAMMA**bucket / (_GAMMA + 1)


def add(sketch: Sketch, value: float, count: int = 1) -> None:
    """Count a value so many times."""
    bucket = bucket_of(value)
    sketch[bucket] = sketch.get(bucket, 0) + count


def merged(sketches: Iterable[Mapping[int, int]]) -> Sketch:
    """All of them in one."""
    whole: Sketch = {}
    for sketch in sketches:
        merge_into(whole, sketch)
    return whole


def merge_into(sketch: Sketch, more: Mapping[int, int]) -> None:
    """Add what another one counted."""
    for bucket, count in more.items():
        sketch[bucket] = sketch.get(bucket, 0) + count


def quantile(sketch: Mapping[int, int], share: float) -> float | None:
    """The value that ``share`` (0 to 1) of the values do not exceed, right to 2 %; None: empty."""
    total = sum(sketch.values())
    if not total:
        return None
    rank = share * (total - 1)
    below = 0
    for bucket in sorted(sketch):
        below += sketch[bucket]
        if below > rank:
            return value_of(bucket)
    raise AssertionError("a rank beyond all values")


def to_list(sketch: Mapping[int, int]) -> list[int]:
    """Flat, by bucket: ``[bucket, count, bucket, count, ...]``, the form of events and store."""
    return [number for bucket in sorted(sketch) for number in (bucket, sketch[bucket])]


def from_store(flat: Sequence[int]) -> Sketch:
    """As :func:`from_list`, for a value from the store: a sketch that makes no sense is taken as
    empty. It holds durations, and no verdict depends on it."""
    try:
        return from_list(flat)
    except (ValueError, TypeError, KeyError):
        return {}


def from_list(flat: Sequence[int]) -> Sketch:
    """The inverse of :func:`to_list`. ValueError: odd length, a count below 1, no such bucket."""
    if len(flat) % 2:
        raise ValueError(f"a sketch has an even number of numbers, not {len(flat)}")
    sketch: Sketch = {}
    for bucket, count in zip(flat[::2], flat[1::2], strict=True):
        if not ZERO <= bucket <= LAST or count < 1 or bucket in sketch:
            raise ValueError(f"a sketch cannot hold bucket {bucket} {count} times")
        sketch[bucket] = count
    return sketch
