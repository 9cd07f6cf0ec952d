"""How large a session on this machine alone is made, by the records that its job will read. Pure.

A job of seconds never earns back what the optimizing compiler and adaptive execution cost; one of
minutes needs both.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SMALL_ROWS: Final = 5_000_000
"""What two cores read in some seconds."""
_HUGE_ROWS: Final = 200_000_000
_GIB: Final = 1 << 30
_CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class LocalSize:
    """``heap_mb``: of the one Java machine. ``optimize``: the optimizing compiler, its collector,
    and adaptive execution."""

    heap_mb: int
    shuffle_partitions: int
    optimize: bool


SMALL: Final = LocalSize(heap_mb=1024, shuffle_partitions=2, optimize=False)


def local_size(planned_rows: int | None, cores: int, memory_bytes: int) -> LocalSize:
    """``planned_rows``: what the job will read, None when not known: then it counts as small.
    ``memory_bytes``: of this machine; the heap takes at most a quarter of it, since the Python
    workers, which read and count, live beside it."""
    if planned_rows is None or planned_rows < SMALL_ROWS:
        return SMALL
    wanted = 2 * _GIB if planned_rows < _HUGE_ROWS else 4 * _GIB
    heap = max(_GIB, min(wanted, memory_bytes // 4))
    return LocalSize(heap // (1 << 20), max(2, 2 * cores), optimize=True)


def cores_here() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_here() -> int:
    """Bytes of memory that this process may use: the machine's, or its container's."""
    import psutil

    memory: int = psutil.virtual_memory().total
    try:
        limit = _CGROUP_LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        return memory
    return min(memory, int(limit)) if limit.isdecimal() else memory
