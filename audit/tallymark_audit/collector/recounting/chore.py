"""Count again what is in doubt, while new records are counted too: a chore of every collector, for
its own partitions.

Window by window of a partition: read the log between the first and the last offset of the window,
replace its counts (:mod:`tallymark_audit.collector.counting.comparison`), and store the progress of
the request, all in one transaction that commits only while the partition is ours. So a window has
either its first or its second count, whatever process dies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tallymark.errors import CorruptMessageError, CorruptRecordError, TallymarkError
from tallymark.protocol.topic_partition import EARLIEST, TopicPartition
from tallymark_audit.collector import corrections
from tallymark_audit.collector.backoff import Backoff
from tallymark_audit.collector.counting.comparison import changed_cells
from tallymark_audit.collector.ledger import ABSURD, Ledger
from tallymark_audit.collector.limits.window_bound import overflow_window
from tallymark_audit.collector.recounting.recount import FETCH_BYTES, Recount
from tallymark_audit.collector.recounting.slow_scrub import SlowScrub
from tallymark_audit.model.absurd import AbsurdError, reason_of
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.log_reader import LogReader
from tallymark_audit.model.record_runs import Rules
from tallymark_audit.model.sides import Observation
from tallymark_audit.model.time_format import utc
from tallymark_audit.store.counted import counts, recounts
from tallymark_audit.store.counted.deleted import deleted_places
from tallymark_audit.store.counted.incidents import Incident, fold_incident
from tallymark_audit.store.counted.openings import hidden_records
from tallymark_audit.store.counted.positions import FencedError

IDLE_MS: Final = 1000
"""How often it is looked whether there is something to do."""
BUSY_MS: Final = 200
AT_ONCE_MS: Final = 300
"""So long it works before counting goes on."""
UNREADABLE: Final = "unreadable"
"""The kind of the incident when a batch that was counted cannot be read any more."""
MAX_REASON: Final = 200
Compacted = Callable[[str], bool]
"""Whether a topic keeps only the latest record of each key. TallymarkError: that is not known."""


@dataclass(slots=True)
class _Work:
    """A window of a request under counting; ``mixed``: see
    :func:`tallymark_audit.collector.counting.comparison.changed_cells`."""

    request: recounts.RecountRequest
    window: int
    again: Recount
    mixed: bool
    bytes: int = 0


class Recounting:
    """Does what :mod:`tallymark_audit.store.counted.recounts` asks for. ``rules`` says how to count
    now; ``commit`` writes what was read before, since only stored counts are replaced, and returns
    whether it succeeded.

    PartitionFencedError from :meth:`step`: another collector has the partition now."""

    name = "counting again"

    def __init__(
        self,
        reader: LogReader,
        ledger: Ledger,
        troubles: Backoff,
        clock: Callable[[], int],
        rules: Callable[[int], Rules],
        commit: Callable[[int], bool],
        compacted: Compacted,
        scrub: SlowScrub,
    ) -> None:
        self._reader = reader
        self._ledger = ledger
        self._troubles = troubles
        self._clock = clock
        self._rules = rules
        self._commit = commit
        self._compacted = compacted
        self._scrub = scrub
        self._work: _Work | None = None
        self._slow: _Work | None = None
        self._unread: dict[TopicPartition, int] = {}

    @property
    def every_ms(self) -> int:
        """How long to leave it alone."""
        return IDLE_MS if self._work is None else BUSY_MS

    def step(self, now: int) -> None:
        """Count again for a while, if there is anything to count: requests first, then the slow
        scrub, as far as there is time."""
        while True:
            request = self._work.request if self._work else self._next(now)
            if request is not None:
                self._work = self._try(request, self._work, now)
            elif self._scrub.due(now):
                slow = self._slow.request if self._slow else self._next_slow(now)
                if slow is None:
                    return
                self._slow = self._try(slow, self._slow, now)
            else:
                return
            if self._clock() - now >= AT_ONCE_MS:
                return

    def _try(self, request: recounts.RecountRequest, work: _Work | None, now: int) -> _Work | None:
        """Continue a request, or begin with its next window; returns what is left of it. A
        partition that cannot be read now waits; the others do not."""
        trouble = self.name, request.place
        try:
            left = self._go_on(work, now) if work else self._begin(request)
        except FencedError:
            raise
        except TallymarkError as error:
            told = f"cannot count {request.topic}-{request.partition} again: {error}"
            self._troubles.begin(trouble, told, now)
            if work and isinstance(error, CorruptMessageError | CorruptRecordError):
                self._cannot_read(work, error, now)
            return None
        except AbsurdError as error:
            if work is None:
                raise
            self._pass_over(request, work.window, error)
            return None
        self._troubles.end(trouble)
        return left

    def _next(self, now: int) -> recounts.RecountRequest | None:
        """The request to go on with, of a partition that is ours and well."""
        with self._ledger.store.read() as connection:
            for request in recounts.to_do(connection, self._ledger.cluster):
                if self._may_read(request.place, now):
                    return request
        return None

    def _next_slow(self, now: int) -> recounts.RecountRequest | None:
        with self._ledger.store.read() as connection:
            gone = deleted_places(connection, self._ledger.cluster)
            known = recounts.slow_ones(connection, self._ledger.cluster)
        places = [p for p in self._ledger.positions if p not in gone and self._may_read(p, now)]
        request = self._scrub.choose(places, known, now)
        if request is not None and request.place not in known:
            with self._ledger.store.write() as connection:
                recounts.ask(connection, self._ledger.cluster, [request])
        return request

    def _may_read(self, place: TopicPartition, now: int) -> bool:
        ours = place in self._ledger.positions and place[0] != AUDIT_TOPIC
        return ours and self._troubles.due((self.name, place), now)

    def _begin(self, request: recounts.RecountRequest) -> _Work | None:
        """Begin with the next window of the request; None: there is none, and it is done."""
        cluster, compacted = self._ledger.cluster, self._compacted(request.topic)
        with self._ledger.store.read() as connection:
            # Records that were counted in the overflow window say of themselves another window.
            overflow = overflow_window(self._rules(self._clock()).window_ms)
            window = (
                None
                if compacted
                else recounts.next_window(connection, cluster, request, leave_out=overflow)
            )
        if window is None:
            self._finish(request)
            return None
        try:
            with self._ledger.store.read() as connection:
                cells = counts.cells_of_window(connection, cluster, *request.place, window)
        except AbsurdError as error:
            self._pass_over(request, window, error)
            return None
        again, mixed = self._again(request.place, window, cells), self._is_mixed(request, window)
        if mixed:  # of which there may be more than can be kept
            again.wanted = {seen.key for seen in cells}.__contains__
        return _Work(request, window, again, mixed)

    def _is_mixed(self, request: recounts.RecountRequest, window: int) -> bool:
        window_ms = self._rules(self._clock()).window_ms
        with self._ledger.store.read() as connection:
            there = (connection, self._ledger.cluster, request.topic, [window], window_ms)
            return bool(hidden_records(*there))

    def _pass_over(self, request: recounts.RecountRequest, window: int, error: AbsurdError) -> None:
        """The stored counts make no sense, so nothing can be compared with them: the window stays
        UNKNOWN, and the next ones are counted again."""
        told = f"what was counted of {utc(window)} cannot be compared: {reason_of(error)}"
        done = request.job != recounts.SLOW and window + 1 >= request.end
        left = replace(request, next_window=window + 1, done=done)
        with self._ledger.store.write() as connection:
            incident = Incident(ABSURD, told[:MAX_REASON], *request.place)
            fold_incident(connection, self._ledger.cluster, incident, self._clock())
            recounts.advance(connection, self._ledger.cluster, left)

    def _again(self, place: TopicPartition, window: int, cells: list[Observation]) -> Recount:
        first = [seen.first_offset for seen in cells if seen.first_offset >= 0]
        (log_start,) = self._reader.get_offsets_before(*place, EARLIEST)
        return Recount(
            *place,
            at=max(log_start, min(first, default=0)),
            end=1 + max((seen.last_offset for seen in cells), default=-1),
            wanted=lambda key: key.window == window,
            max_ranges=self._ledger.max_ranges,
            log_start=log_start,
            known=self._ledger.holes(place),
        )

    def _go_on(self, work: _Work, now: int) -> _Work | None:
        if not work.again.done:
            slow = work.request.job == recounts.SLOW
            most = self._scrub.portion if slow else FETCH_BYTES
            read = work.again.step(self._reader, self._rules(now), most)
            work.bytes += read
            if slow:
                self._scrub.spend(read, now)
        if not work.again.done:
            return work
        self._end(work, now)
        return None

    def _end(self, work: _Work, now: int) -> None:
        """Put what was counted in place of what had been."""
        place, again = work.request.place, work.again
        if not self._commit(now) or place not in self._ledger.positions:
            return  # the store was away, or others count it now: it is done once more
        # What retention took while it was read is not lost either.
        (log_start,) = self._reader.get_offsets_before(*place, EARLIEST)
        corrections.recount(
            self._ledger,
            _behind(work),
            work.window,
            again.end,
            lambda before: changed_cells(before, again.cells, log_start, work.mixed),
            now,
        )

    def _cannot_read(self, work: _Work, error: TallymarkError, now: int) -> None:
        """A batch is damaged. If it is so the second time too, the window keeps its counts, and an
        incident reports that the batch cannot be read any more."""
        place, at = work.request.place, getattr(error, "offset", work.again.at)
        if self._unread.get(place) != at:
            self._unread[place] = at
            return
        reason = f"cannot be read any more at offset {at}: {getattr(error, 'reason', error)}"
        incident = Incident(UNREADABLE, reason[:MAX_REASON], *place, at, work.again.end)
        with self._ledger.store.write() as connection:
            fold_incident(connection, self._ledger.cluster, incident, now)
            recounts.advance(connection, self._ledger.cluster, _behind(work))

    def _finish(self, request: recounts.RecountRequest) -> None:
        """There is nothing more to do of it; the slow scrub begins anew when it is time."""
        slow = request.job == recounts.SLOW
        with self._ledger.store.write() as connection:
            if slow:
                again = self._scrub.again(request, self._clock())
                recounts.ask(connection, self._ledger.cluster, [again])
            else:
                ended = replace(request, next_window=request.end, done=True)
                recounts.advance(connection, self._ledger.cluster, ended)


def _behind(work: _Work) -> recounts.RecountRequest:
    """The request when its window is done."""
    request = work.request
    return replace(
        request,
        next_window=work.window + 1,
        bytes=request.bytes + work.bytes,
        windows=request.windows + 1,
        done=request.job != recounts.SLOW and work.window + 1 >= request.end,
    )
