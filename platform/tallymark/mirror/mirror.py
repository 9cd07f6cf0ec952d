"""One mirror: consume a cluster, produce into another, store offsets once they are acknowledged.

The copied record keeps key, value, headers (so the stamp) and timestamp. A mirror neither stamps
nor tallies records again, and mostly does not decode them (:mod:`tallymark.mirror.copying.copier`).
Delivery is at least once: a mirror that is killed goes on at the offsets that it stored last, so
what it copied after these is in the target twice. A setting bounds how much that can be, whatever
the speed (:mod:`tallymark.mirror.copying.duplicate_bound`), and the audit names those messages.

A rebalance duplicates nothing: before partitions are given up, the mirror waits for what is in
flight and stores the offsets. If a lost session or a slow target prevents that, the mirror
recognises the messages when it reads them again (:mod:`tallymark.mirror.progress`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from tallymark.coordination import CoordinationError, SessionLostError
from tallymark.deployment import Deployment
from tallymark.errors import ConnectError, KafkaError, TimedOutError
from tallymark.mirror.monitoring.lag import MirrorState
from tallymark.mirror.monitoring.progress_log import ProgressLog
from tallymark.mirror.monitoring.reports import Reports
from tallymark.mirror.observer import MirrorObserver, ObserverChain, load_observers
from tallymark.mirror.offsets.checkpoints import Checkpoints
from tallymark.mirror.offsets.offset_sync_writer import OffsetSyncWriter
from tallymark.mirror.opening import open_parts
from tallymark.mirror.progress import Partition
from tallymark.mirror.settings import find_mirror
from tallymark.mirror.source.source import SourceBatch

STORE_SECONDS = 1.0
"""How often offsets are stored at least, where any have changed."""
FULL_SECONDS = 0.05
"""How long to wait for acknowledgements before the next attempt to store offsets, while nothing may
be sent."""
FULL_PATIENCE = 2.0
"""How long nothing may be acknowledged meanwhile before that is reported."""
TOPIC_CHECK_SECONDS = 2.0
"""How often to check whether topics were deleted and created again."""
TICK_SECONDS = 0.5
POLL_SECONDS = 0.2
DRAIN_SECONDS = 5.0
"""How long a rebalance waits for a target that does not answer."""
START_TIMEOUT_MS = 15_000

_log = logging.getLogger("mirror")


class Mirror:
    """Copies the topics of ``source`` that the settings name into ``target``, until closed.

    Call :meth:`step` in a loop; it raises errors that waiting does not cure. ConnectError or
    UserError at construction, after about ``start_timeout_ms``: ZooKeeper or a cluster is not
    there, or there is no such mirror. ``observers`` are called with what is copied and what is not
    (default: those installed under the entry point ``tallymark.mirror_observers``).
    """

    def __init__(
        self,
        deployment: Deployment,
        source: str,
        target: str,
        *,
        observers: Sequence[MirrorObserver] | None = None,
        start_timeout_ms: int = START_TIMEOUT_MS,
    ) -> None:
        self._settings = find_mirror(deployment, source, target)
        self._lock = threading.Lock()
        self._releasing = threading.Event()
        self._waiting: deque[SourceBatch] = deque()
        self._problems: dict[str, str] = {}
        self._full_since: float | None = None
        self._closed = False
        self._store_at = self._check_topics_at = self._tick_at = 0.0
        self._progress_log = ProgressLog(self._settings.name)
        self._observers = ObserverChain(
            [*(load_observers() if observers is None else observers), self._progress_log]
        )
        with ExitStack() as opened:
            parts = open_parts(
                opened,
                deployment,
                self._settings,
                self._observers,
                start_timeout_ms,
                self._before_release,
            )
            self._source, self._target, self._copier = parts.source, parts.target, parts.copier
            self._offset_syncs = OffsetSyncWriter(
                self._settings.name, self._target, self._source.topic_id
            )
            self._reports = Reports(self._observers, self._progress_log, self._source, self._copier)
            if self._settings.checkpoint_groups:
                checkpoints = Checkpoints(deployment, source, target)
                checkpoints.start()
                opened.callback(checkpoints.close)
            self._source.open()
            self._opened = opened.pop_all()

    @property
    def copied(self) -> int:
        """How many messages have arrived."""
        return self._copier.copied

    @property
    def state(self) -> MirrorState:
        """Counts and lag as of the last half second; from any thread."""
        return self._progress_log.state

    @property
    def observer_errors(self) -> int:
        """How often an observer raised."""
        return self._observers.errors

    def step(self) -> None:
        """Copy batches that were read, and store the offsets of acknowledged ones."""
        if self._releasing.is_set():  # locks are not fair: let the connector's thread have it
            time.sleep(POLL_SECONDS / 10)
            return
        if not self._tried("join the group", self._source.open):
            return
        with self._lock:
            if not self._waiting:
                self._waiting.extend(self._source.poll(POLL_SECONDS))
            stale: set[Partition] = set()
            going = self._tried("copy", lambda: stale.update(self._copy_waiting()))
            self._copier.settle()
            self._take_arrived()
            self._restart()
            if self._copier.failure is not None:
                raise self._copier.failure
            self._on_time(stale)
        if stale:
            self._tried("start over", lambda: self._start_over(stale))
        if not going:
            time.sleep(POLL_SECONDS)  # not while holding the lock: a rebalance may want it

    def close(self) -> None:
        """Wait for what is in flight, store the offsets, leave the group. Idempotent."""
        if self._closed:
            return
        self._closed = True
        with self._opened:
            self._source.close()
            self._take_arrived()
            self._offset_syncs.close()
            self._reports.close()
        _log.info("copied %d messages", self.copied)

    # -- copying ------------------------------------------------------------------------------

    def _copy_waiting(self) -> set[Partition]:
        """Copy what was read, oldest first, until the connector wants to give partitions up: it
        waits for the lock, and what was read and not sent is read again. Returns the partitions
        that must start over."""
        stale = self._take_gaps()
        while self._waiting and not stale and not self._releasing.is_set():
            piece = self._waiting[0]
            partition = (piece.topic, piece.partition)
            if not self._source.knows(partition):
                stale = self._check_topics()
                if stale:
                    break
            self._reports.begun()
            if not self._source.knows(partition):  # another consumer has it now; nothing was sent
                self._waiting.popleft()
            elif not self._copier.copy(self._waiting):
                self._make_room()
                break
            else:
                self._full_since = None
                if self._copier.duplicates.is_due:
                    self._copier.settle()
                    self._tried("store offsets", self._store)
        return stale

    def _restart(self) -> None:
        """Go back, in the partitions that the target refuses a message of, to that message."""
        restarted = self._copier.restarted
        if restarted:
            kept = [one for one in self._waiting if (one.topic, one.partition) not in restarted]
            self._waiting = deque(kept)
            for partition, offset in restarted.items():
                self._source.go_back(partition, offset)
            restarted.clear()

    def _make_room(self) -> None:
        """Nothing more may be sent until offsets are stored: store those that were acknowledged.
        TimedOutError: the target has not acknowledged anything for a while."""
        opened = self._copier.progress.open_count
        self._copier.settle(FULL_SECONDS)
        self._tried("store offsets", self._store)
        now = time.monotonic()
        if self._full_since is None or self._copier.progress.open_count < opened:
            self._full_since = now
        elif self._copier.progress.open_count and now - self._full_since > FULL_PATIENCE:
            raise self._target.not_taken()

    def _take_gaps(self) -> set[Partition]:
        """Report the gaps that the connector has found. It reports a gap before it returns what
        comes after the gap."""
        gaps, stale = self._source.gaps, set[Partition]()
        while gaps:
            gap = gaps[0]
            partition = (gap.topic, gap.partition)
            if gap.reason == "truncated":
                # A log that is shorter than it was may be another one by the same name.
                stale |= self._check_topics()
                copy = self._copier.progress.get(partition)
                if copy is not None:
                    copy.cut_somewhere()
            gaps.popleft()
            if gap.reason == "expired":
                self._source.gap_notes.reported(partition, gap.from_offset, gap.to_offset)
            if partition not in stale:
                reason = "retention" if gap.reason == "expired" else "truncation"
                self._observers.on_gap(*partition, gap.from_offset, gap.to_offset, reason)
        return stale

    def _check_topics(self) -> set[Partition]:
        """Begin the partitions that are new to this run. Returns those whose topic was deleted and
        created again since it was copied."""
        began = time.monotonic()
        found = self._source.check_topics()
        progress = self._copier.progress
        for partition, stored in found.fresh.items():
            progress.assigned(partition, stored, self._source.topic_id(partition))
        took = time.monotonic() - began
        pause = max(TOPIC_CHECK_SECONDS, 20 * took)  # rarer with many topics
        self._check_topics_at = time.monotonic() + pause
        return set(found.stale)

    def _start_over(self, stale: set[Partition]) -> None:
        """Topics were deleted and created again: copy them from their beginning."""
        with self._lock:
            self._waiting.clear()
            reached = {partition: self._reached(partition) for partition in stale}
            for partition in stale:
                self._copier.progress.forget(partition)
            self._source.forget(stale)
        self._source.start_over(sorted(stale))
        for (topic, number), offset in sorted(reached.items()):
            _log.warning("%s-%d was made again, copying it from its start", topic, number)
            self._observers.on_gap(topic, number, offset, offset, "recreated")

    def _reached(self, partition: Partition) -> int:
        copy = self._copier.progress.get(partition)
        return max(copy.next if copy is not None else self._source.stored(partition), 0)

    def _before_release(self) -> Mapping[Partition, int]:
        """Called in the connector's thread before it gives partitions up. Returns the offsets to
        store."""
        self._releasing.set()
        try:
            with self._lock:
                self._waiting.clear()  # read and not sent: the next owner reads it again
                if not self._copier.drain(DRAIN_SECONDS):
                    count = self._copier.progress.open_count
                    _log.warning("the target has not answered for %d batches yet", count)
                self._reports.released(self._copier.progress.passed())
                return self._copier.progress.release()
        finally:
            self._releasing.clear()

    # -- now and again ------------------------------------------------------------------------

    def _on_time(self, stale: set[Partition]) -> None:
        now = time.monotonic()
        if now >= self._store_at:
            self._store_at = now + STORE_SECONDS
            self._tried("store offsets", self._store)
            self._offset_syncs.publish()
        if now >= self._check_topics_at:
            self._check_topics_at = now + TOPIC_CHECK_SECONDS
            self._tried("look at topics", lambda: stale.update(self._check_topics()))
        if now >= self._tick_at:
            self._tick_at = now + TICK_SECONDS
            self._reports.begun()
            self._reports.stopped()
            self._reports.refused()
            if self._source.refused.due(now):
                self._target.reopen()
            self._pass_empty()
            self._reports.copied()
            self._reports.passed()
            self._reports.tick(self._waiting)

    def _store(self) -> None:
        progress, owned = self._copier.progress, self._source.owned
        offsets = progress.to_store(owned)
        try:
            lost = self._source.store(offsets) if offsets else set[Partition]()
            progress.stored({at: offset for at, offset in offsets.items() if at not in lost})
            for partition in lost:
                # Another consumer has the partition now, and went on from what was stored.
                progress.forget(partition)
            self._source.forget(lost)
        finally:
            self._copier.duplicates.stored(progress.unstored(owned))

    def _take_arrived(self) -> None:
        arrived = self._copier.arrived
        while arrived:
            pending = arrived.popleft()
            self._progress_log.arrived(pending)
            self._offset_syncs.arrived(pending)

    def _pass_empty(self) -> None:
        """What was left out at the end of a log counts as done: there may never be a batch behind
        it."""
        waiting = {(piece.topic, piece.partition) for piece in self._waiting}
        for partition, end in self._source.empty_until().items():
            if partition not in waiting:
                self._tried("look at topics", partial(self._copier.pass_over, partition, end))

    def _tried(self, what: str, work: Callable[[], object]) -> bool:
        """Call ``work``. False after a temporary error: it is tried again later."""
        try:
            work()
        except _PASSING as error:
            if isinstance(error, KafkaError) and not error.retriable:
                raise
            if str(error) != self._problems.get(what):
                self._problems[what] = str(error)
                _log.warning("cannot %s, trying on: %s", what, error)
            return False
        if self._problems.pop(what, ""):
            _log.info("can %s again", what)
        return True


_PASSING = (ConnectError, TimedOutError, KafkaError, SessionLostError, CoordinationError)
