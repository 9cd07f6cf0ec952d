"""Messages that an application acknowledges one by one, joined to runs. Pure.

Counting one message takes as long as counting a run of a thousand, so messages that follow one
another become one run first.
"""

from __future__ import annotations

from typing import NamedTuple

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.processing.messages import ConsumedMessage, run_of

MOST_OPEN = 1000
"""Runs under way at a time, one a partition and origin."""


class ProcessedRun(NamedTuple):
    """A run that the application has processed, read from the partition ``place``."""

    place: TopicPartition
    run: SeenRun
    outcome: Outcome


class AckBatcherState(NamedTuple):
    """What an AckBatcher holds: runs under way by place, origin (instance, partition) and outcome;
    of what is open the timestamps (ms) by offset; the offset behind the last that is done."""

    open: dict[tuple[TopicPartition, str, int, Outcome], SeenRun]
    pending: dict[TopicPartition, dict[int, int]]
    next: dict[TopicPartition, int]


class AckBatcher:
    """The runs that are being joined, and the messages that are still open. Timestamps in ms."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._open: dict[tuple[TopicPartition, str, int, Outcome], SeenRun] = {}
        self._pending: dict[TopicPartition, dict[int, int]] = {}
        self._next: dict[TopicPartition, int] = {}

    def put(self, message: ConsumedMessage) -> None:
        """The application has the message, and is not done with it."""
        if message.offset >= 0:
            self._pending.setdefault(message.place, {})[message.offset] = message.timestamp

    def done(self, message: ConsumedMessage, outcome: Outcome) -> list[ProcessedRun]:
        """The application is done with the message. Returns the runs that it does not continue."""
        place, offset = message.place, message.offset
        self._pending.get(place, {}).pop(offset, None)
        if offset >= 0:
            self._next[place] = max(self._next.get(place, 0), offset + 1)
        run = run_of(message, self._window_ms)
        who = place, run.key.instance, run.key.partition, outcome
        before = self._open.get(who)
        if before is not None and _continues(before, run):
            _join(before, run)
            return []
        finished = self.settle() if len(self._open) >= MOST_OPEN else []
        self._open[who] = run
        return finished if before is None or finished else [ProcessedRun(place, before, outcome)]

    def settle(self) -> list[ProcessedRun]:
        """All runs, complete or not; none is kept."""
        found = [
            ProcessedRun(place, run, outcome) for (place, _, _, outcome), run in self._open.items()
        ]
        self._open.clear()
        return found

    def release(self, place: TopicPartition) -> None:
        """The partition belongs to another consumer now, which is given what is open."""
        self._pending.pop(place, None)
        self._next.pop(place, None)

    @property
    def is_used(self) -> bool:
        """Whether a message was acknowledged here, of a partition that was not released since."""
        return bool(self._open or self._next)

    def state(self) -> AckBatcherState:
        """All that it holds."""
        return AckBatcherState(dict(self._open), dict(self._pending), dict(self._next))

    def restore(self, state: AckBatcherState) -> None:
        """Take what another one held."""
        self._open, self._pending, self._next = state

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """By partition, the offset before which all is done."""
        found: dict[TopicPartition, int] = {}
        for place, offset in self._next.items():
            found[place] = min((offset, *self._pending.get(place, ())))
        return found

    @property
    def oldest(self) -> int | None:
        """The smallest timestamp of what is open, 0 for a message without one; None: nothing is."""
        lows = [at for pending in self._pending.values() for at in pending.values()]
        return max(0, min(lows)) if lows else None


def _continues(run: SeenRun, more: SeenRun) -> bool:
    if run.key != more.key:
        return False
    return not run.key.stamped or more.first == run.last + 1


def _join(run: SeenRun, more: SeenRun) -> None:
    run.count += 1
    run.bytes += more.bytes
    run.malformed += more.malformed
    run.min_timestamp = min(run.min_timestamp, more.min_timestamp)
    run.max_timestamp = max(run.max_timestamp, more.max_timestamp)
