"""Figures of a performance run: rates, latencies and their percentiles. Pure."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from typing import Any, Final

MIB: Final = 1024 * 1024
_PERCENTILES: Final = (0.5, 0.95, 0.99, 0.999)


def percentile(ordered: array[float] | list[float], share: float) -> float:
    """The smallest value that at least ``share`` of them do not exceed; 0 when there are none."""
    if not ordered:
        return 0.0
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(slots=True)
class Figures:
    """Messages, their bytes and latencies (ms) of a stretch of ``seconds``."""

    records: int = 0
    size: int = 0
    seconds: float = 0.0
    latencies_ms: array[float] = field(default_factory=lambda: array("d"))

    def document(self) -> dict[str, Any]:
        """As JSON: rates a second, latencies in milliseconds."""
        seconds = max(self.seconds, 1e-9)
        ordered = sorted(self.latencies_ms)
        found: dict[str, Any] = {
            "records": self.records,
            "bytes": self.size,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(self.records / seconds, 1),
            "mb_per_second": round(self.size / MIB / seconds, 3),
        }
        if ordered:
            found["latency_ms"] = {
                "avg": round(sum(ordered) / len(ordered), 2),
                "max": round(ordered[-1], 2),
                **{
                    f"p{100 * share:g}": round(percentile(ordered, share), 2)
                    for share in _PERCENTILES
                },
            }
        return found

    def text(self, verb: str) -> str:
        """As kafka-producer-perf-test prints it."""
        found = self.document()
        text = (
            f"{found['records']} records {verb}, {found['records_per_second']:.1f} records/sec "
            f"({found['mb_per_second']:.2f} MB/sec)"
        )
        latency = found.get("latency_ms")
        if latency is None:
            return text
        return (
            f"{text}, {latency['avg']:.2f} ms avg latency, {latency['max']:.2f} ms max latency, "
            f"{latency['p50']:.2f} ms 50th, {latency['p95']:.2f} ms 95th, "
            f"{latency['p99']:.2f} ms 99th, {latency['p99.9']:.2f} ms 99.9th"
        )
