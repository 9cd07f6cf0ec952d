"""The records of one partition on their way through a producer of another library. No I/O, no
clock.

::

    produce ──► take a number ──► hand over ──► delivery report
                    │ times                        │ done, failed
                    ▼                              ▼
                 drain: ─────► a batch of what was handed over, and what became of earlier ones

Each record costs a few operations only: the next stamp and report (:mod:`.record_path`), and a
number that its report appends to a list. :meth:`PartitionTracker.drain` does the rest now and then,
for all records at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from tallymark.client.producing.batches.tally import BatchTally
from tallymark_audit.model.ranges import Range, RangeSet
from tallymark_audit.reporters.adapters.record_path import (
    PAGE,
    Deliver,
    DeliveryReport,
    Header,
    ReportPage,
    StampOrigin,
    StampPages,
    counts_references,
)
from tallymark_audit.reporters.books.tally_cell import Outcome

T = TypeVar("T")
_MOST_PAGES: Final = 2048
PageMaker: TypeAlias = Callable[[list[int], dict[object, Any]], Deliver]


class BatchOutcome(NamedTuple):
    """How a batch ended; None: it is not known yet."""

    batch: BatchTally
    outcome: Outcome | None


@dataclass(slots=True)
class Drained:
    """``begun``: what was handed over since the last time. ``split``: each earlier batch with
    records that ended since, and its parts."""

    begun: BatchTally | None = None
    split: list[tuple[BatchTally, list[BatchOutcome]]] = field(
        default_factory=list[tuple[BatchTally, list[BatchOutcome]]]
    )


class PartitionTracker:
    """One partition. Hold the owner's lock to hand a record over and to drain; reports come from
    any thread without it.

    ``headers`` and ``reports`` give the header and the report of the next sequence, and those of
    all that follow: take one of each for a record. ``asked`` holds the callbacks that the
    application gave for records of the page in use, by ``report.__self__``. ``times`` (ms, one a
    record, the first of sequence ``first``) and ``size`` (bytes of keys and values) are of what was
    handed over since the last drain. ``done`` and ``failed`` are what was reported since.

    With ``only_errors`` the library reports failures only, and drops the other reports uncalled:
    records whose reports are dropped and that did not fail are acknowledged.
    """

    __slots__ = (
        "_ended",
        "_in_flight",
        "_make",
        "_open",
        "_spare",
        "_stamps",
        "asked",
        "done",
        "failed",
        "first",
        "headers",
        "only_errors",
        "partition",
        "reports",
        "size",
        "times",
        "topic",
        "who",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        who: StampOrigin,
        deliver: Callable[[PartitionTracker], PageMaker],
        only_errors: bool = False,
    ) -> None:
        """``deliver(tracker)`` returns what makes the function of a page of reports; see
        :class:`.record_path.ReportPage`."""
        self.topic = topic
        self.partition = partition
        self.who = who
        self.only_errors = only_errors
        self.first = 0
        self.times: list[int] = []
        self.size = 0
        self.done: list[int] = []
        self.failed: list[tuple[int, Outcome]] = []
        self.asked: dict[object, Any] = {}
        self._open: list[BatchTally] = []
        self._ended: list[Range] = []
        self._in_flight: deque[ReportPage] = deque()
        self._spare: list[ReportPage] = []
        self._make = deliver(self)
        self._stamps = StampPages(who, partition)
        self.begin()

    @property
    def next(self) -> int:
        """The next sequence."""
        return self.first + len(self.times)

    def begin(self) -> None:
        """Let ``headers`` and ``reports`` give those of the numbers from ``next`` on."""
        page, place = divmod(self.next, PAGE)
        self.headers: Iterator[Header] = chain.from_iterable(self._header_pages(page, place))
        self.reports: Iterator[DeliveryReport] = chain.from_iterable(
            self._report_pages(page * PAGE, place)
        )

    def _header_pages(self, page: int, place: int) -> Iterator[Iterator[Header]]:
        while True:
            yield self._stamps.headers(page, place)
            page, place = page + 1, 0

    def _report_pages(self, first: int, place: int) -> Iterator[Iterator[DeliveryReport]]:
        while True:
            yield islice(self._page(first).reports, place, None)
            first, place = first + PAGE, 0

    def _page(self, first: int) -> ReportPage:
        """The page whose first sequence this is: the one in use, or the next one."""
        flying = self._in_flight
        if flying and flying[-1].first == first:
            return flying[-1]
        while flying and counts_references() and flying[0].ended(PAGE):
            self._turn(flying.popleft())
        if len(flying) > _MOST_PAGES and not self.only_errors:
            flying.popleft()  # somebody keeps a report: its page lives as long as that
        page = self._spare.pop() if self._spare else ReportPage(self._make)
        page.begin(first)
        flying.append(page)
        self.asked = page.asked
        return page

    def _turn(self, page: ReportPage) -> None:
        """All records of a full page have ended: it can serve others."""
        if self.only_errors:
            self._ended.append((page.first, page.first + PAGE - 1))
        self._spare.append(page)

    @property
    def pending(self) -> bool:
        """Whether there are records that have not ended."""
        return bool(self._open or self.times)

    @property
    def changed(self) -> bool:
        """Whether :meth:`drain` may find something."""
        return bool(self.times or self.done or self.failed or (self.only_errors and self._open))

    @property
    def oldest(self) -> int | None:
        """A time (ms) that no pending record is older than; at most one drain before the smallest
        timestamp among them."""
        lows = [_span(batch)[0] for batch in self._open]
        if self.times:
            lows.append(min(self.times))
        return min(lows, default=None)

    def drain(self, thorough: bool = False) -> Drained:
        """What has happened since the last time. With ``only_errors`` this finds a record that was
        delivered among others of its page that were not; if it is not ``thorough``, only where the
        first or the last of that page was delivered."""
        drained = Drained()
        if self.times:
            drained.begun = self._begun()
            self._open.append(drained.begun)
        fates = self._reported(thorough)
        if fates:
            drained.split = self._settle(fates)
        return drained

    def settle_open(self, outcome: Outcome) -> Drained:
        """Drain, and end all that is still pending with this outcome."""
        drained = self.drain(thorough=True)
        fate = [(batch, [BatchOutcome(batch, outcome)]) for batch in self._open]
        self._open = []
        drained.split += fate
        return drained

    def _begun(self) -> BatchTally:
        times, size, first, who = self.times, self.size, self.first, self.who
        self.first, self.times, self.size = self.next, [], 0
        span = min(times), max(times)
        return BatchTally(
            self.topic,
            self.partition,
            who.instance,
            who.server,
            first,
            times,
            size,
            who.backfill,
            span,
        )

    def _reported(self, thorough: bool) -> list[tuple[RangeSet, Outcome]]:
        """The ranges of what was reported, failures first. Other threads append meanwhile."""
        ended = (
            self._dropped(thorough) if self.only_errors else ()
        )  # before the failures, see _dropped()
        done = _take(self.done)
        failed = _take(self.failed)
        fates: list[tuple[RangeSet, Outcome]] = []
        for outcome in {outcome for _, outcome in failed}:
            numbers = [number for number, each in failed if each is outcome]
            fates.append((RangeSet.of(numbers), outcome))
        if done:
            fates.append((runs(done), Outcome.ACKNOWLEDGED))
        if ended:
            fates.append((RangeSet(ended), Outcome.ACKNOWLEDGED))
        return fates

    def _dropped(self, thorough: bool) -> list[Range]:
        """The ranges of records whose reports the library has dropped, some of them anew each
        time. A failure is in ``failed`` before its report is dropped; so what is in these ranges,
        and not in a ``failed`` that is read later, was delivered."""
        still: deque[ReportPage] = deque()
        for page in self._in_flight:
            count = min(PAGE, self.next - page.first)
            if count == PAGE and page.ended(PAGE):
                self._turn(page)
                continue
            still.append(page)
            if thorough or page.any_ended(count):
                places = page.places_ended(count)
                self._ended += [(page.first + place, page.first + place) for place in places]
        self._in_flight = still
        ended, self._ended = self._ended, []
        return ended

    def _settle(
        self, fates: Sequence[tuple[RangeSet, Outcome]]
    ) -> list[tuple[BatchTally, list[BatchOutcome]]]:
        split: list[tuple[BatchTally, list[BatchOutcome]]] = []
        still: list[BatchTally] = []
        for batch in self._open:
            parts = cut(batch, fates)
            if any(part.outcome is not None for part in parts):
                split.append((batch, parts))
                still += [part.batch for part in parts if part.outcome is None]
            else:
                still.append(batch)
        self._open = still
        return split


def runs(numbers: list[int]) -> RangeSet:
    """The distinct numbers as ranges, mostly one."""
    low, high = min(numbers), max(numbers)
    if high - low + 1 == len(numbers):
        return RangeSet.single(low, high)
    return RangeSet.of(numbers)


def cut(batch: BatchTally, fates: Sequence[tuple[RangeSet, Outcome]]) -> list[BatchOutcome]:
    """A batch in parts, in order; the records of each part ended alike. What several fates name
    ended as the first of them says."""
    whole = RangeSet.single(batch.first_sequence, batch.last_sequence)
    rest = whole
    found: list[tuple[Range, Outcome | None]] = []
    for ranges, outcome in fates:
        common = rest & ranges
        found += [(each, outcome) for each in common]
        rest -= common
    found += [(each, None) for each in rest]
    if len(found) == 1:
        return [BatchOutcome(batch, found[0][1])]
    return [
        BatchOutcome(part_of(batch, *each), outcome) for each, outcome in sorted(found, key=_first)
    ]


def part_of(batch: BatchTally, first: int, last: int) -> BatchTally:
    """The records ``first..last`` of a batch; its size in proportion."""
    start, stop = first - batch.first_sequence, last - batch.first_sequence + 1
    times = batch.timestamps[start:stop]
    return BatchTally(
        batch.topic,
        batch.partition,
        batch.instance,
        batch.server,
        first,
        times,
        batch.sizes * (stop - start) // batch.count,
        batch.backfill,
        (min(times), max(times)),
    )


def _span(batch: BatchTally) -> tuple[int, int]:
    return batch.span or (min(batch.timestamps), max(batch.timestamps))


def _first(found: tuple[Range, Outcome | None]) -> int:
    return found[0][0]


def _take(reported: list[T]) -> list[T]:
    """Take out what is in a list to which other threads append."""
    number = len(reported)
    taken = reported[:number]
    del reported[:number]
    return taken
