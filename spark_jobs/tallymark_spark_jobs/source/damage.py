"""What of a span could not be given: offsets that cannot be read, and offsets that expired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tallymark.errors import UserError
from tallymark_spark_jobs.source.planning import Span

MOST = 100
"""So many unreadable ranges of a span are kept apart; beyond that the last one grows."""


class DamagedError(UserError):
    """The batch at ``offset`` of a partition cannot be read, its CRC does not hold for instance;
    ``why`` says what. ``since``: the newest time (ms) of what was read of the span before it, -1
    where it was the first."""

    def __init__(self, span: Span, offset: int, why: str, since: int) -> None:
        super().__init__(
            f"{span.topic}-{span.partition} cannot be read from offset {offset} on: {why}",
            "tallymark verify-log on its broker shows what the log has there; "
            "failOnCorruptBatch=false reads what stands before and behind it",
        )
        self.offset = offset
        self.why = why
        self.since = since


class Damage(NamedTuple):
    """Offsets ``offset`` up to ``end``, excluded, that cannot be read, and ``why``; in the span the
    newest time (ms) before is ``since``, the next one behind ``until``; -1 where there is none."""

    offset: int
    end: int
    why: str
    since: int
    until: int = -1


class Expired(NamedTuple):
    """Offsets ``offset`` up to ``end``, excluded, that retention deleted between the plan and the
    read."""

    offset: int
    end: int


class Notes:
    """What of a span could not be read. One damage is held back until it is known what follows."""

    def __init__(self, span: Span, passes: bool) -> None:
        self._span = span
        self._passes = passes
        self._newest = -1
        self._open: Damage | None = None
        self._told = 0

    def unreadable(self, offset: int, end: int, why: str) -> Iterator[Damage]:
        """Offsets up to ``end`` (-1: not known), excluded. DamagedError: they may not be passed
        over. Batches that follow one another are one, and so is all behind the first many."""
        if not self._passes or end < 0:
            raise DamagedError(self._span, offset, why, self._newest)
        last = self._open
        if last is not None and (last.end == offset or self._told >= MOST):
            self._open = last._replace(end=end, until=-1)
            return
        yield from self.ended()
        self._told += 1
        self._open = Damage(offset, end, why, self._newest)

    def read(self, timestamp: int) -> Iterator[Damage]:
        """A batch of that time (ms) could be read."""
        self.passed(timestamp)
        if self._told < MOST:
            yield from self.ended()

    def passed(self, timestamp: int) -> None:
        """A batch of that time (ms) was not looked at."""
        self._newest = max(self._newest, timestamp)
        if self._open is not None and self._open.until < 0:
            self._open = self._open._replace(until=timestamp)

    def ended(self) -> Iterator[Damage]:
        """Nothing more will be learned about the offsets held back."""
        if self._open is not None:
            yield self._open
        self._open = None
