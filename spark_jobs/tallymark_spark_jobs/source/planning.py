"""Which offsets to read, fixed once on the driver: pure.

Nothing else may ask the broker for "latest": two answers would be two reads. The reader stops
exactly at the end that was planned, whatever has been appended since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tallymark.errors import UserError
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark_spark_jobs.source.options import Bound, SourceOptions


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Offsets ``start`` (included) to ``end`` (excluded) of one partition.

    ``topic_id`` (text of a UUID; "": not known) and ``leader_epoch`` (-1: not known) are those of
    the time of planning: a task that finds another topic, or a log that was cut since, fails.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""
    leader_epoch: int = -1
    left_out: int = 0
    """Offsets from ``end`` up to this one are not looked at: they begin later than was asked for.
    0: none are."""

    @property
    def offsets(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The bounds of one partition from its broker: the first offset there is, the one after the
    last, and the first whose record is at or after the starting time (None: not asked, or none is).

    ``ending`` is the same for the ending time of ``endingOffsetsByTimestamp``. ``late`` is the
    first offset of what begins later than ``endingTimestamp`` and its lateness; None: the log is
    read to its end."""

    topic: str
    partition: int
    earliest: int
    latest: int
    at_timestamp: int | None = None
    topic_id: str = ""
    leader_epoch: int = -1
    ending: int | None = None
    late: int | None = None


def plan(options: SourceOptions, bounds: Iterable[LogBounds]) -> list[Span]:
    """The spans to read, split for parallel work; empty partitions are left out, unless a row is
    to say what of them is not looked at.

    Raises UserError when wanted offsets are no longer there (unless ``failOnDataLoss=false``), are
    not there yet, or were not given for a partition.
    """
    spans = [_span(options, bound) for bound in bounds]
    says = options.mode != "records"
    return split(
        [span for span in spans if span.offsets > 0 or (says and span.left_out)],
        options.rows_per_partition,
        options.min_partitions,
    )


def split(spans: Sequence[Span], rows: int, at_least: int) -> list[Span]:
    """Cut the spans so that none holds more than ``rows`` offsets and there are ``at_least`` of
    them, if there are so many offsets. The result covers exactly the same offsets."""
    total = sum(span.offsets for span in spans)
    most = max(1, min(rows, total // at_least))
    return [piece for span in spans for piece in _pieces(span, most)]


def _pieces(span: Span, most: int) -> list[Span]:
    count = -(-span.offsets // most)
    cuts = [span.start + span.offsets * at // count for at in range(1, count)]
    ends = pairwise([span.start, *cuts, span.end])
    pieces = [replace(span, start=first, end=last, left_out=0) for first, last in ends]
    pieces[-1] = replace(pieces[-1], left_out=span.left_out)
    return pieces


def _span(options: SourceOptions, bound: LogBounds) -> Span:
    start, end = _start(options, bound), _end(options, bound)
    gone = start < bound.earliest or end > bound.latest
    if gone and options.fail_on_data_loss:
        raise UserError(
            f"{bound.topic}-{bound.partition} holds the offsets {bound.earliest} to "
            f"{bound.latest}, not all of {start} to {end}",
            "ask for what is there, or set failOnDataLoss=false to read the rest",
        )
    start, end = max(start, bound.earliest), min(end, bound.latest)
    last, left_out = max(start, end), 0
    if bound.late is not None and bound.late < last:
        last, left_out = max(start, bound.late), last
    planned = (bound.topic_id, bound.leader_epoch)
    return Span(bound.topic, bound.partition, start, last, *planned, left_out)


def _start(options: SourceOptions, bound: LogBounds) -> int:
    if options.starting_timestamp is None and options.starting_times is None:
        return _resolve(options.starting, bound, "startingOffsets")
    if bound.at_timestamp is not None:
        return max(bound.earliest, bound.at_timestamp)
    if options.fail_without_start:
        raise UserError(
            f"{bound.topic}-{bound.partition} has no record at or after the starting time",
            "ask for an earlier one, or set startingOffsetsByTimestampStrategy=latest",
        )
    return bound.latest


def _end(options: SourceOptions, bound: LogBounds) -> int:
    if options.ending_times is None:
        return _resolve(options.ending, bound, "endingOffsets")
    return bound.latest if bound.ending is None else max(bound.earliest, bound.ending)


def _resolve(wanted: Bound, bound: LogBounds, option: str) -> int:
    if isinstance(wanted, dict):
        offset = wanted.get((bound.topic, bound.partition))
        if offset is None:
            raise UserError(
                f"{option} says nothing of {bound.topic}-{bound.partition}",
                "name every partition, -2 is earliest and -1 latest",
            )
    else:
        offset = wanted
    return {EARLIEST: bound.earliest, LATEST: bound.latest}.get(offset, offset)
