"""Limits the connections of a broker by its file descriptors. Pure.

::

    RLIMIT_NOFILE  =  the process itself  |  connections  |  logs
                            32                 half           half

Connections beyond the limit are closed; but a log without a descriptor cannot begin a segment or be
read. So connections never get the logs' half, whatever ``max.connections`` allows.
"""

from __future__ import annotations

import resource
from typing import Final

OF_THE_PROCESS: Final = 32
"""Standard streams, listeners, event loop, ZooKeeper, metrics, locks, a compaction's pipes."""
_SCARCE: Final = 1024


def connections_allowed(asked: int, descriptors: int) -> int:
    """The effective ``max.connections`` for a process that may have ``descriptors`` descriptors."""
    if descriptors == resource.RLIM_INFINITY:
        return asked
    return max(1, min(asked, (descriptors - OF_THE_PROCESS) // 2))


def is_scarce(descriptors: int) -> bool:
    """Whether a burst of connections alone could use all descriptors."""
    return descriptors != resource.RLIM_INFINITY and descriptors < _SCARCE
