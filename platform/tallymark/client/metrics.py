"""A client's measurements, for the application: one function, called with name, value, labels.

Every client class takes ``metrics``, a function ``(name, value, labels) -> None``, or a
:class:`Recorder`, which adds up all values::

    recorder = Recorder()
    with Producer(bootstrap_servers="127.0.0.1:9092", metrics=recorder) as producer: ...
    recorder.snapshot()["request_seconds", ("api", "Produce"), ("broker", "127.0.0.1:9092")].count

    name                 value                           labels
    request_seconds      from request to response        api, broker
    request_errors       1: no response will come        api, broker, error (KafkaError's name)
    bytes_out            bytes of one request            api, broker
    bytes_in             bytes received in one read      broker
    connect_seconds      time to open a connection       broker
    connect_errors       1: a connection failed to open  broker, stage
    connections_closed   1: an open connection ended     broker
    records_acknowledged, records_failed, records_in_doubt
                         records of one batch            topic (the producer's)
    records_fetched      records of one fetch            topic, partition
    fetched_bytes        bytes of its batches            topic, partition
    lag                  records after the fetched ones  topic, partition

The function is called often, on threads of the client, and must be quick. An error that it raises
is logged once and ignored. Without ``metrics`` nothing is measured.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tallymark.net.addresses import Address

Metrics: TypeAlias = Callable[[str, float, Mapping[str, str]], None]
Series: TypeAlias = tuple[str | tuple[str, str], ...]
"""A name and its labels, sorted by name: ``("bytes_in", ("broker", "127.0.0.1:9092"))``."""

log: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Total:
    """All values of one series so far."""

    count: int = 0
    sum: float = 0.0
    max: float = 0.0


class Recorder:
    """Adds up the values it is called with, by name and labels. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[Series, Total] = {}

    def __call__(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        series: Series = (name, *sorted(labels.items()))
        with self._lock:
            total = self._totals.setdefault(series, Total())
            total.count += 1
            total.sum += value
            total.max = max(total.max, value)

    def snapshot(self) -> dict[Series, Total]:
        """A copy of all totals."""
        with self._lock:
            return {s: Total(t.count, t.sum, t.max) for s, t in self._totals.items()}

    def sum(self, name: str, **labels: str) -> float:
        """The sum over all series of that name that have these labels."""
        wanted = set(labels.items())
        return sum(t.sum for s, t in self.snapshot().items() if s[0] == name and wanted <= {*s[1:]})

    def count(self, name: str, **labels: str) -> int:
        """The number of values so far in all series of that name that have these labels."""
        wanted = set(labels.items())
        found = self.snapshot().items()
        return sum(t.count for s, t in found if s[0] == name and wanted <= {*s[1:]})


class Guarded:
    """A user's function whose errors do not reach the client."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._failed = False

    def __call__(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        try:
            self._metrics(name, value, labels)
        except Exception:
            if not self._failed:
                self._failed = True
                log.exception("the metrics function failed at %s; told once", name)


def guarded(metrics: Metrics | None) -> Metrics | None:
    """``metrics`` wrapped so that it cannot raise; None stays None."""
    return None if metrics is None else Guarded(metrics)


class StreamMeter:
    """Measures one connection; a :class:`~tallymark.net.client.meter.Meter`."""

    def __init__(self, metrics: Metrics, address: Address) -> None:
        self._metrics = metrics
        self._broker = str(address)
        self._sent: dict[int, tuple[str, float]] = {}

    def sent(self, correlation_id: int, request: str, size: int, *, answered: bool) -> None:
        """A request was written."""
        api = request.removesuffix("Request")
        if answered:
            self._sent[correlation_id] = api, time.monotonic()
        self._metrics("bytes_out", size, {"api": api, "broker": self._broker})

    def received(self, size: int) -> None:
        """Bytes were received."""
        self._metrics("bytes_in", size, {"broker": self._broker})

    def answered(self, correlation_id: int) -> None:
        """The response was received."""
        api, began = self._sent.pop(correlation_id)
        labels = {"api": api, "broker": self._broker}
        self._metrics("request_seconds", time.monotonic() - began, labels)

    def ended(self, error: str) -> None:
        """The connection is over; responses that are still due will not come."""
        sent, self._sent = self._sent, {}
        for api, _ in sent.values():
            self._metrics("request_errors", 1, {"api": api, "broker": self._broker, "error": error})
        self._metrics("connections_closed", 1, {"broker": self._broker})
