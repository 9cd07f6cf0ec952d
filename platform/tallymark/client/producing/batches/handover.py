"""What the threads that send and the I/O thread share beside the batches: flags, no lock.

A thread that sends begins and seals batches; the I/O thread collects them in its pump
(:meth:`~tallymark.client.producing.sending.sender.Sender._pump`). Waking the I/O thread is a system
call, so it is left out where the pump is about to run anyway. No wake-up is lost, because both
sides keep one order::

    thread that sends                      pump
      1. put the batch in its place          1. clear the flags   (begin_pump)
      2. list its partition                  2. look at what is listed, and into the partitions
      3. read the flags: wake, or not        3. set the flags     (end_pump, plan_scan)

Backpressure: Python runs one thread at a time, and one that waits for its turn gets it after 5 ms
(``sys.getswitchinterval``). The I/O thread gives its turn away with each system call, three of
them for a request; beside a thread that does nothing but send it would get through a few requests
every 15 ms, whatever the broker could do. So a thread that has sealed several batches which the
I/O thread has not dealt with steps aside: it waits until the backlog is small again, at most
:data:`LONGEST` seconds. A broker that is slow then costs a sender that much for each
:data:`AHEAD` batches, not more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.partition_queue import PartitionQueue

AHEAD: Final = 16
"""Batches that may be sealed before the sender steps aside; one that has grown counts as many."""
LOW: Final = 4
"""Batches not yet sent at which it goes on."""
LONGEST: Final = 0.001


class Handover:
    """``run_pump`` schedules the pump in the I/O thread; any thread may call it.

    The counts of backpressure are not exact: threads that send count up, the I/O thread reads.
    This is harmless, because the wait is bounded.
    """

    def __init__(self, run_pump: Callable[[], None]) -> None:
        self.begun: deque[PartitionQueue] = deque()
        """Partitions whose first batch has begun since the I/O thread forgot them."""
        self.full: deque[PartitionQueue] = deque()
        """Partitions with sealed batches that the I/O thread has not taken over."""
        self.backlog = 0
        """Batches that are sealed and wait to be sent; the pump updates it."""
        self._run_pump = run_pump
        self._pump_is_due = False
        self._scan_at = 0.0
        """When the pump will look for batches that have lingered, monotonic seconds; 0: it has not
        planned to."""
        self._since = 0
        self._waiting = False
        self._go_on = threading.Event()

    # --- threads that send ------------------------------------------------------------------

    def wake(self) -> None:
        """Have the pump run soon. Any thread; cheap when the pump is about to run anyway."""
        if not self._pump_is_due:
            self._pump_is_due = True
            self._run_pump()

    def list_queue(self, queue: PartitionQueue) -> None:
        """A batch of ``queue`` is about to begin: the pump must know the partition. Does nothing
        when it is listed. Hold the queue's lock."""
        if not queue.listed:
            queue.listed = True
            self.begun.append(queue)

    def began(self, lingers_until: float) -> None:
        """A batch is in its place: wake the pump unless it will look by then (monotonic s)."""
        if not 0 < self._scan_at <= lingers_until:
            self.wake()

    def sealed(self, queue: PartitionQueue, batch: ProducerBatch, may_wait: bool = True) -> None:
        """``batch`` of ``queue`` was sealed: have it sent, and perhaps wait a moment. Do not hold
        the queue's lock when ``may_wait``."""
        self.full.append(queue)
        if not queue.crowded:
            self.wake()
        self._since += batch.grown
        if may_wait and self._since >= AHEAD:
            self._since = 0
            self._step_aside()

    def _step_aside(self) -> None:
        self._go_on.clear()
        self._waiting = True
        self._go_on.wait(LONGEST)

    # --- the I/O thread ---------------------------------------------------------------------

    def begin_pump(self, ready: Iterable[PartitionQueue]) -> None:
        """The pump runs: from here on threads that send wake it again. ``ready`` are the
        partitions that had batches to send at its end."""
        self._pump_is_due = False
        self._scan_at = 0.0
        for queue in ready:
            queue.crowded = False

    def end_pump(self, crowded: Iterable[PartitionQueue], backlog: int) -> None:
        """The pump has done what it could. ``crowded`` partitions have more batches than may be
        sent now: the pump looks at them again without being woken."""
        for queue in crowded:
            queue.crowded = True
        self.backlog = backlog
        if self._waiting and backlog <= LOW:
            self._waiting = False
            self._go_on.set()

    def plan_scan(self, at: float) -> None:
        """The pump will look at all partitions at ``at`` (monotonic seconds)."""
        self._scan_at = at

    def forget_queue(self, queue: PartitionQueue) -> bool:
        """Take a partition off the list unless a batch has begun meanwhile; whether it is off."""
        with queue.lock:
            if queue.open is None and not queue.sealed:
                queue.listed = False
                return True
            return False
