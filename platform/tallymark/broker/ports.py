"""Everything that a broker takes from the machine that it runs on.

A broker makes no thread, no process, no file and no connection to ZooKeeper but through these, and
reads no clock but ``now_ms`` and the event loop's. So a test can give it a disk in memory, and a
simulation all of it (:mod:`tallymark.testing.simulation`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from tallymark.broker.maintenance.cleaner_process import Worker, worker_for
from tallymark.broker.security.file_store import FileSecurityStore
from tallymark.broker.security.store import SecurityStore
from tallymark.clock import now_ms
from tallymark.coordination.session.client import OpenClient
from tallymark.coordination.session.kazoo_client import KazooPort
from tallymark.log import Files, OsFiles

MakeThreads: TypeAlias = Callable[[int, str], Executor]
"""(how many, their name) -> threads of one kind of work."""


_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def wall_clock_ms() -> int:
    """The current time, ms UTC."""
    return now_ms()


def kernel_boot_id() -> str:
    """The boot id of this Linux kernel; "" on another kind of machine."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Ports:
    """The defaults are those of a process of its own on a real machine."""

    files: Files = field(default_factory=OsFiles)
    """The disk."""
    now_ms: Callable[[], int] = wall_clock_ms
    """ms UTC."""
    threads: MakeThreads = ThreadPoolExecutor
    """What waits for the disk or for ZooKeeper runs there."""
    zookeeper: OpenClient = KazooPort
    """The connection to ZooKeeper, where there is one."""
    security_store: Callable[[Path], SecurityStore] = FileSecurityStore
    """Users and permissions of a broker without ZooKeeper; the argument is its first folder."""
    boot_id: Callable[[], str] = kernel_boot_id
    """Changes when the machine starts again; "" where it is not known."""
    compaction: Callable[[Files], Worker] = worker_for
    """What compacts: on a real disk it is a process of its own."""
