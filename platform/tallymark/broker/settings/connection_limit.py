"""How many connections a broker takes with the descriptors that it has. Pure.

::

    RLIMIT_NOFILE  =  the process itself  |  connections  |  logs
                            32                 half           half

A connection too many is closed; a log without a descriptor cannot begin a segment or be read. So
the logs' half is not given to connections, however many are allowed by ``max.connections``.
"""

from __future__ import annotations

import resource
from typing import Final

OF_THE_PROCESS: Final = 32
"""Standard streams, listeners, event loop, ZooKeeper, metrics, locks, a compaction's pipes."""
_SCARCE: Final = 1024


def connections_allowed(asked: int, descriptors: int) -> int:
    """What ``max.connections`` comes to where a process may have so many descriptors."""
    if descriptors == resource.RLIM_INFINITY:
        return asked
    return max(1, min(asked, (descriptors - OF_THE_PROCESS) // 2))


def is_scarce(descriptors: int) -> bool:
    """Whether a burst of connections alone could take them all."""
    return descriptors != resource.RLIM_INFINITY and descriptors < _SCARCE
