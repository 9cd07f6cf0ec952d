"""Rows of live host metrics: one each interval, by psutil."""

from __future__ import annotations

import socket
import time
from typing import Any, Final

import psutil

from tallymark.clock import now_ms
from tallymark.publishing.reading.rows import Row, Rows, Stop


def _field(name: str, kind: Any, doc: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "doc": doc}


def _optional(name: str, kind: str, doc: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "doc": doc}


SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "HostMetrics",
    "namespace": "tallymark.sources",
    "doc": "The state of one host at one time. Counters count since the host started.",
    "fields": [
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        _field("host", "string", "name of the host"),
        _field("cpu_percent", "double", "of all processors, since the row before"),
        _optional("load_1m", "double", "average length of the run queue"),
        _field("memory_total", "long", "bytes"),
        _field("memory_available", "long", "bytes"),
        _field("swap_used", "long", "bytes"),
        _field("disk_total", "long", "bytes of the file system of the current folder"),
        _field("disk_free", "long", "bytes"),
        _optional("disk_read_bytes", "long", "counter; null where the kernel does not tell"),
        _optional("disk_write_bytes", "long", "counter"),
        _optional("net_sent_bytes", "long", "counter, all interfaces"),
        _optional("net_received_bytes", "long", "counter"),
        _field("processes", "int", "number of processes"),
    ],
}


def metric_rows(interval_s: float, stop: Stop) -> Rows:
    """A row of :data:`SCHEMA` each ``interval_s`` seconds until ``stop``; time is now.

    The schedule is kept: a slow row does not move the ones after it, a missed one is left out.
    """
    host = socket.gethostname()
    psutil.cpu_percent()  # the first call has nothing to compare with
    started = time.monotonic()
    number = 0
    while not stop.wait(max(0.0, started + (number + 1) * interval_s - time.monotonic())):
        number = max(number + 1, int((time.monotonic() - started) / interval_s))
        now = now_ms()
        yield Row(number, now, measure(host, now), "")


def measure(host: str, now_ms: int) -> dict[str, Any]:
    """The values of one row."""
    memory, disk = psutil.virtual_memory(), psutil.disk_usage(".")
    disk_io, net_io = psutil.disk_io_counters(), psutil.net_io_counters()
    return {
        "time": now_ms,
        "host": host,
        "cpu_percent": psutil.cpu_percent(),
        "load_1m": psutil.getloadavg()[0],
        "memory_total": memory.total,
        "memory_available": memory.available,
        "swap_used": psutil.swap_memory().used,
        "disk_total": disk.total,
        "disk_free": disk.free,
        "disk_read_bytes": disk_io.read_bytes if disk_io else None,
        "disk_write_bytes": disk_io.write_bytes if disk_io else None,
        "net_sent_bytes": net_io.bytes_sent if net_io else None,
        "net_received_bytes": net_io.bytes_recv if net_io else None,
        "processes": len(psutil.pids()),
    }
