"""The records in flight: those that an application was given and has not processed. Pure.

They are kept as runs, one for a healthy batch, so that many records cost little.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.record_runs import SeenRun

MOST_RUNS: Final = 50_000
"""Of one partition, some 20 MB: an application that never commits has everything in flight."""


class InFlight:
    """By partition, in the order of their offsets; ``most`` runs of each."""

    def __init__(self, most: int = MOST_RUNS) -> None:
        self._most = most
        self._runs: dict[TopicPartition, deque[SeenRun]] = {}

    def take(self, place: TopicPartition, runs: Iterable[SeenRun]) -> list[SeenRun]:
        """These runs were handed out. They replace what was in flight from their first offset on:
        the application seeked back. Returns the oldest runs, for which there is no room any more;
        they are never counted as processed."""
        mine = self._runs.setdefault(place, deque())
        for run in runs:
            while mine and mine[-1].offset >= run.offset:
                mine.pop()
            if mine and mine[-1].last_offset >= run.offset:
                mine.append(_before(mine.pop(), run.offset))
            if mine and _continues(mine[-1], run):
                mine.append(_joined(mine.pop(), run))
            else:
                mine.append(run)
        return [mine.popleft() for _ in range(len(mine) - self._most)]

    def done(self, positions: Mapping[TopicPartition, int]) -> list[tuple[TopicPartition, SeenRun]]:
        """All records before these offsets are processed. Returns them; they are no longer in
        flight."""
        found: list[tuple[TopicPartition, SeenRun]] = []
        for place, offset in positions.items():
            mine = self._runs.get(place, deque())
            while mine and mine[0].last_offset < offset:
                found.append((place, mine.popleft()))
            if mine and mine[0].offset < offset:
                run = mine.popleft()
                found.append((place, _before(run, offset)))
                mine.appendleft(_from(run, offset))
        return found

    def cut(self, place: TopicPartition, offset: int) -> list[SeenRun]:
        """The log was cut there. Returns what was handed out from that offset on, which is no
        longer in flight."""
        mine, gone = self._runs.get(place, deque()), list[SeenRun]()
        while mine and mine[-1].last_offset >= offset:
            run = mine.pop()
            if run.offset < offset:
                mine.append(_before(run, offset))
                run = _from(run, offset)
            gone.append(run)
        return gone[::-1]

    def drop(self, places: Collection[TopicPartition]) -> None:
        """These partitions belong to another consumer now."""
        for place in places:
            self._runs.pop(place, None)

    @property
    def places(self) -> list[TopicPartition]:
        """The partitions that may have records in flight."""
        return list(self._runs)

    def runs(self) -> list[tuple[TopicPartition, SeenRun]]:
        """All that is in flight."""
        return [(place, run) for place, runs in self._runs.items() for run in runs]

    @property
    def oldest(self) -> int | None:
        """The smallest timestamp (ms) in flight, 0 for a record without one; None: nothing is."""
        lows = [run.min_timestamp for runs in self._runs.values() for run in runs]
        return max(0, min(lows)) if lows else None


def _continues(run: SeenRun, more: SeenRun) -> bool:
    if (run.key, run.last_offset + 1) != (more.key, more.offset):
        return False
    if bool(run.malformed) != bool(more.malformed):
        return False
    return not run.key.stamped or run.last + 1 == more.first


def _joined(run: SeenRun, more: SeenRun) -> SeenRun:
    return replace(
        run,
        count=run.count + more.count,
        bytes=run.bytes + more.bytes,
        malformed=run.malformed + more.malformed,
        skewed=run.skewed + more.skewed,
        min_timestamp=min(run.min_timestamp, more.min_timestamp),
        max_timestamp=max(run.max_timestamp, more.max_timestamp),
    )


def _before(run: SeenRun, offset: int) -> SeenRun:
    """The records of a run before an offset."""
    return _part(run, 0, offset - run.offset)


def _from(run: SeenRun, offset: int) -> SeenRun:
    return _part(run, offset - run.offset, run.last_offset - offset + 1)


def _part(run: SeenRun, skip: int, count: int) -> SeenRun:
    """``count`` records after the first ``skip``, with their share of what is only known for the
    whole run."""
    return replace(
        run,
        first=run.first + skip if run.key.stamped else run.first,
        offset=run.offset + skip,
        count=count,
        bytes=run.bytes * count // run.count,
        malformed=count if run.malformed else 0,
        skewed=min(run.skewed, count),
    )
