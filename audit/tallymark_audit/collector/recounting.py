"""Count again what is in doubt, beside counting on: a chore of every collector, for the partitions
that are its own.

Window by window of a partition: read what lies between the first and the last offset at which it
was seen, put that in place of what was counted (:mod:`.recounted`), and note how far the request
is, all in one transaction that holds only while the partition is ours. So a window is either as it
was counted or as it was counted again, whoever dies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tallymark.errors import TallymarkError
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.collector.reading import EARLIEST, LogReader
from tallymark_audit.collector.recount import Recount
from tallymark_audit.collector.recounted import changed_cells
from tallymark_audit.collector.runs import Rules
from tallymark_audit.collector.trouble import Troubles
from tallymark_audit.sides import Observation
from tallymark_audit.store import counts, recounts
from tallymark_audit.store.counts import FencedError, Place

IDLE_MS: Final = 1000
"""How often it is looked whether there is something to do."""
BUSY_MS: Final = 200
AT_ONCE_MS: Final = 300
"""So long it works before counting goes on."""
Compacted = Callable[[str], bool]
"""Whether a topic keeps only the latest record of each key. TallymarkError: that is not known."""


@dataclass(slots=True)
class _Work:
    """A window of a request under counting."""

    request: recounts.Recount
    window: int
    again: Recount
    bytes: int = 0


class Recounting:
    """Does what :mod:`tallymark_audit.store.recounts` asks for. ``rules`` says how to count now;
    ``commit`` writes what was read before, since only that is replaced, and says whether that held.

    PartitionFencedError from :meth:`step`: another collector has the partition now."""

    name = "counting again"

    def __init__(
        self,
        reader: LogReader,
        ledger: Ledger,
        troubles: Troubles,
        clock: Callable[[], int],
        rules: Callable[[int], Rules],
        commit: Callable[[int], bool],
        compacted: Compacted,
    ) -> None:
        self._reader = reader
        self._ledger = ledger
        self._troubles = troubles
        self._clock = clock
        self._rules = rules
        self._commit = commit
        self._compacted = compacted
        self._work: _Work | None = None

    @property
    def every_ms(self) -> int:
        """How long to leave it alone."""
        return IDLE_MS if self._work is None else BUSY_MS

    def step(self, now: int) -> None:
        """Count again for a while, if there is anything to. A partition that cannot be read now
        waits; the others do not."""
        while True:
            request = self._work.request if self._work else self._next(now)
            if request is None:
                return
            trouble = self.name, request.place
            try:
                if self._work is None:
                    self._work = self._begin(request)
                if self._work is not None:
                    self._go_on(self._work, now)
            except FencedError:
                raise
            except TallymarkError as error:
                self._work = None
                told = f"cannot count {request.topic}-{request.partition} again: {error}"
                self._troubles.begin(trouble, told, now)
            else:
                self._troubles.end(trouble)
            if self._clock() - now >= AT_ONCE_MS:
                return

    def _next(self, now: int) -> recounts.Recount | None:
        """The request to go on with, of a partition that is ours and well."""
        with self._ledger.store.read() as connection:
            for request in recounts.to_do(connection, self._ledger.cluster):
                mine = request.place in self._ledger.positions
                if mine and self._troubles.due((self.name, request.place), now):
                    return request
        return None

    def _begin(self, request: recounts.Recount) -> _Work | None:
        """Begin with the next window of the request; None: there is none, and it is done."""
        cluster, compacted = self._ledger.cluster, self._compacted(request.topic)
        with self._ledger.store.read() as connection:
            window = None if compacted else recounts.next_window(connection, cluster, request)
        if window is None:
            self._finish(replace(request, next_window=request.end, done=True))
            return None
        with self._ledger.store.read() as connection:
            cells = counts.cells_of_window(connection, cluster, *request.place, window)
        return _Work(request, window, self._again(request.place, window, cells))

    def _again(self, place: Place, window: int, cells: list[Observation]) -> Recount:
        first = [seen.first_offset for seen in cells if seen.first_offset >= 0]
        (log_start,) = self._reader.get_offsets_before(*place, EARLIEST)
        return Recount(
            *place,
            at=max(log_start, min(first, default=0)),
            end=1 + max((seen.last_offset for seen in cells), default=-1),
            wanted=lambda key: key.window == window,
            max_ranges=self._ledger.max_ranges,
            log_start=log_start,
        )

    def _go_on(self, work: _Work, now: int) -> None:
        if not work.again.done:
            work.bytes += work.again.step(self._reader, self._rules(now))
        if work.again.done:
            self._work = None
            self._end(work, now)

    def _end(self, work: _Work, now: int) -> None:
        """Put what was counted in place of what had been."""
        place, again = work.request.place, work.again
        if not self._commit(now) or place not in self._ledger.positions:
            return  # the store was away, or others count it now: it is done once more
        # What retention took while it was read is not lost either.
        (log_start,) = self._reader.get_offsets_before(*place, EARLIEST)
        request = replace(
            work.request,
            next_window=work.window + 1,
            bytes=work.request.bytes + work.bytes,
            windows=work.request.windows + 1,
            done=work.window + 1 >= work.request.end,
        )
        self._ledger.recount(
            request,
            work.window,
            again.end,
            lambda before: changed_cells(before, again.cells, log_start),
            now,
        )

    def _finish(self, request: recounts.Recount) -> None:
        with self._ledger.store.write() as connection:
            recounts.advance(connection, self._ledger.cluster, request)
