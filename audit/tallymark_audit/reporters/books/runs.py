"""A batch cut into runs for the books: consecutive sequences that fall in one window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tallymark_audit.model.cells import window_of


class TallyKey(NamedTuple):
    """A cell of a reporter. ``server`` and ``instance`` are those of the sender in a consumer's
    books; in a producer's books they are ``""``, since they are the reporter's own."""

    topic: str
    partition: int
    window: int
    server: str = ""
    instance: str = ""


class Run(NamedTuple):
    """Consecutive sequences of one batch that fall in one window; timestamps in ms."""

    key: TallyKey
    first: int
    last: int
    min_timestamp: int
    max_timestamp: int


def runs_of(
    topic: str,
    partition: int,
    first_sequence: int,
    timestamps: Sequence[int],
    window_ms: int,
    span: tuple[int, int] | None = None,
) -> list[Run]:
    """A batch, cut where the window changes. ``timestamps`` has one (ms) a record, in order;
    ``span`` is the smallest and the largest of them, where that is known already."""
    if not timestamps:
        return []
    low, high = span or (min(timestamps), max(timestamps))
    window = window_of(low, window_ms)
    last = first_sequence + len(timestamps) - 1
    if high < window + window_ms:
        return [Run(TallyKey(topic, partition, window), first_sequence, last, low, high)]
    return list(_cut(topic, partition, first_sequence, timestamps, window_ms))


def _cut(
    topic: str, partition: int, first_sequence: int, timestamps: Sequence[int], window_ms: int
) -> Iterator[Run]:
    start = 0
    windows = [window_of(timestamp, window_ms) for timestamp in timestamps]
    for at in range(1, len(windows) + 1):
        if at == len(windows) or windows[at] != windows[start]:
            some = timestamps[start:at]
            key = TallyKey(topic, partition, windows[start])
            yield Run(key, first_sequence + start, first_sequence + at - 1, min(some), max(some))
            start = at
