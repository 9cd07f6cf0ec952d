"""One run of a producer of another library, tallied by the interceptor of our own producer.

The wrapper hands records over, each under a number of its
:class:`~.partition_tracker.PartitionTracker`; a thread looks regularly what has happened
since, calls the interceptor as
:mod:`tallymark.client.producing.interceptors.producer_interceptor` says, and lets it report.
:meth:`settle` brings the books up to date at once; the wrapper calls it before it reports to the
application how its records ended.

Inside a transaction the interceptor holds the acknowledgements until it is committed.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
from tallymark.clock import now_ms
from tallymark_audit.reporters.adapters.partition_tracker import (
    Drained,
    PageMaker,
    PartitionTracker,
)
from tallymark_audit.reporters.adapters.record_path import StampOrigin
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor

log: Final = logging.getLogger(__name__)
_LEAST_SECONDS: Final = 0.1
_SECONDS_PER_PARTITION: Final = 0.002
_MOST_SECONDS: Final = 1.0
"""How often the thread looks: with more partitions less often, so that it costs little."""


class Publisher(Protocol):
    """How reports leave: the thread calls ``serve`` each time it looks."""

    def serve(self) -> None:
        """Do what is due without waiting, such as serving delivery reports."""

    def close(self, seconds: float) -> None:
        """Wait at most so long until what was published is acknowledged."""


class AdapterRun:
    """The books of one run. Hold ``lock`` to hand a record over, to take a number, and to drain."""

    def __init__(
        self, interceptor: AuditInterceptor, context: ProducerContext, publisher: Publisher
    ) -> None:
        self.lock = threading.RLock()
        self.who = StampOrigin(context.instance, context.server, context.backfill)
        self.over = False
        """True after :meth:`close`, and in a forked child: nothing is counted any more."""
        self._interceptor = interceptor
        self._publisher = publisher
        self._trackers: list[PartitionTracker] = []
        self._interceptor_lock = (
            threading.RLock()
        )  # the interceptor is called by one thread at a time
        self._stop = threading.Event()
        self._process = os.getpid()
        interceptor.attach(context)
        self._thread = threading.Thread(target=self._look, name="tallymark-audit", daemon=True)
        self._thread.start()

    def taken(self) -> Iterator[object]:
        """Each turn of a loop over it takes the lock. This is ``with lock`` at half the price, for
        what every record passes::

            for _ in taken:
                try:
                    ...
                    return
                finally:
                    lock.release()

        As with ``with``, no signal handler runs between taking the lock and ``try``; it may after
        a call of ``lock.acquire()``, and what it raises would leave the lock taken for ever."""
        return iter(self.lock.acquire, False)

    def tracker(
        self,
        topic: str,
        partition: int,
        deliver: Callable[[PartitionTracker], PageMaker],
        only_errors: bool = False,
    ) -> PartitionTracker:
        """Begin a partition; see :class:`.partition_tracker.PartitionTracker`."""
        tracker = PartitionTracker(topic, partition, self.who, deliver, only_errors)
        with self.lock:
            self._trackers.append(tracker)
        return tracker

    def refuse(self, tracker: PartitionTracker, number: int) -> None:
        """The record with this number was not accepted; hold the lock. The number is used again,
        unless others were taken since: then it counts as failed."""
        if tracker.next == number + 1 and tracker.times:
            tracker.times.pop()
            tracker.begin()
        else:
            tracker.failed.append((number, Outcome.FAILED))

    def settle(self) -> None:
        """Bring the books up to date with what was handed over and reported so far."""
        with self._interceptor_lock:
            self._notify(self._drained())

    def flushed(self) -> None:
        """The application has flushed: bring the books up to date, and publish them soon."""
        with self._interceptor_lock:
            self.settle()
            with self.lock:
                now, oldest = now_ms(), self._oldest()
            self._guarded(self._interceptor.on_flush, now, oldest)

    def begin(self) -> None:
        """A transaction begins. Its end is known only when the application asks for it through the
        wrapper, so it may be committed from now on."""
        self.settle()
        self._transaction_is(TransactionStage.ENDING)

    def commit(self) -> None:
        """It was committed: claim what was acknowledged in it."""
        with self._interceptor_lock:
            self.settle()
            self._transaction_is(TransactionStage.COMMITTED)

    def abort(self) -> None:
        """It was aborted: no consumer will see what was written in it."""
        with self._interceptor_lock:
            with self.lock:
                drained = [tracker.settle_open(Outcome.ABORTED) for tracker in self._trackers]
            self._notify(drained)
            self._transaction_is(TransactionStage.ABORTED)

    def close(self, seconds: float = 10.0) -> None:
        """What is still pending is in doubt; the last report closes the run. Waits at most
        ``seconds`` until it is acknowledged; else the journal stays, and the next run publishes
        it."""
        with self.lock:
            if self.over or os.getpid() != self._process:
                return
            self.over = True
        self._stop.set()
        with self._interceptor_lock:
            with self.lock:
                drained = [tracker.settle_open(Outcome.IN_DOUBT) for tracker in self._trackers]
            self._notify(drained)
            self._guarded(self._interceptor.on_close, now_ms())
        self._publisher.close(seconds)

    def forked(self) -> None:
        """In a forked child: this run is the parent's, and the producer's threads do not run."""
        self.lock = threading.RLock()
        self._interceptor_lock = threading.RLock()
        self.over = True

    def tick(self) -> None:
        """Bring the books up to date, and report when it is time to."""
        with self._interceptor_lock:
            with self.lock:
                now = now_ms()
                drained = [tracker.drain() for tracker in self._trackers]
                oldest = self._oldest()
            self._notify(drained)
            self._guarded(self._interceptor.on_tick, now, oldest)
        self._publisher.serve()

    def _look(self) -> None:
        while not self._stop.wait(self._pause):
            self._guarded(self.tick)

    @property
    def _pause(self) -> float:
        return min(max(_LEAST_SECONDS, len(self._trackers) * _SECONDS_PER_PARTITION), _MOST_SECONDS)

    def _oldest(self) -> int | None:
        lows = [
            low
            for tracker in self._trackers
            if tracker.pending and (low := tracker.oldest) is not None
        ]
        return min(lows, default=None)

    def _drained(self) -> list[Drained]:
        with self.lock:
            return [tracker.drain(thorough=True) for tracker in self._trackers if tracker.changed]

    def _notify(self, drained: Iterable[Drained]) -> None:
        with self._interceptor_lock:
            for each in drained:
                if each.begun is not None:
                    self._guarded(self._interceptor.on_send, each.begun)
                for batch, parts in each.split:
                    if len(parts) > 1:
                        split = [part.batch for part in parts]
                        self._guarded(self._interceptor.on_split, batch, split)
                    for part, outcome in parts:
                        if outcome is not None:
                            self._guarded(self._interceptor.run.settle, part, outcome)

    def _transaction_is(self, stage: TransactionStage) -> None:
        with self._interceptor_lock:
            self._guarded(self._interceptor.on_transaction, stage)

    def _guarded(self, call: Callable[..., None], *arguments: object) -> None:
        """Log an error of the audit: it never reaches the application."""
        try:
            call(*arguments)
        except Exception:
            log.exception("the audit of a producer failed; its records are not touched by that")
