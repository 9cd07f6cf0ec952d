"""Fewer pauses by Python's garbage collector, for a process that holds very many objects.

A full collection looks at all of them while nothing else runs, each time their number has grown by
a quarter: a broker with 10,000 partitions stood still for 0.3 to 0.7 s, again and again while it
took over leads. Most objects are freed without the collector, as their last reference goes; it is
needed for those that refer to each other.
"""

from __future__ import annotations

import gc
from typing import Final

THRESHOLDS: Final = (2_000, 5, 200)
"""New objects until the young are looked at; how often until those that survived once are, too;
how often these until all are, two million objects later. Python's are 2,000, 10 and 10."""


def collect_rarely() -> None:
    """From now on, at the start of the process."""
    gc.set_threshold(*THRESHOLDS)


def keep_loaded() -> None:
    """What is there now stays for as long as the process runs: it is not looked at again. What of
    it becomes garbage in a circle later stays as well, so this is called once, after the start."""
    gc.collect(1)
    gc.freeze()
