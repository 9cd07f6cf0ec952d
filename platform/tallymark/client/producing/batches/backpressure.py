"""Keeps threads that send from starving the thread that does the I/O.

Python runs one thread at a time, and one that waits for its turn gets it after 5 ms
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
from collections.abc import Callable
from typing import Final

from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.partition_queue import PartitionQueue

AHEAD: Final = 16
"""Batches that may be sealed before the sender steps aside; one that has grown counts as many."""
LOW: Final = 4
"""Batches not yet sent at which it goes on."""
LONGEST: Final = 0.001


class Pace:
    """``sealed`` counts up in the threads that send, ``sent`` in the I/O thread; neither counts
    exactly, which harms nothing: the wait is bounded."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.backlog = 0
        """Batches that are sealed and wait to be sent; the I/O thread says so from time to time."""
        self.full: deque[PartitionQueue] = deque()
        """Partitions with sealed batches that the I/O thread has not taken over."""
        self._since = 0
        self._wake = wake
        self._waiting = False
        self._go_on = threading.Event()

    def sealed(self, queue: PartitionQueue, batch: ProducerBatch, may_wait: bool = True) -> None:
        """``batch`` of ``queue`` was sealed: have it sent, and perhaps wait a moment. Do not hold
        the lane's lock when ``may_wait``."""
        self.full.append(queue)
        if not queue.crowded:
            self._wake()
        self._since += batch.grown
        if may_wait and self._since >= AHEAD:
            self._since = 0
            self._step_aside()

    def note(self, backlog: int) -> None:
        """The I/O thread has done what it could."""
        self.backlog = backlog
        if self._waiting and backlog <= LOW:
            self._waiting = False
            self._go_on.set()

    def _step_aside(self) -> None:
        self._go_on.clear()
        self._waiting = True
        self._go_on.wait(LONGEST)
