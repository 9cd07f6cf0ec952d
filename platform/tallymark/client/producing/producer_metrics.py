"""What a producer has done, in numbers; counted batch by batch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ProducerMetrics:
    """Counts since the producer was made; times in seconds. Only the I/O thread writes them."""

    records_acknowledged: int = 0
    records_failed: int = 0
    batches_acknowledged: int = 0
    batches_failed: int = 0
    batches_split: int = 0
    batches_retried: int = 0
    requests: int = 0
    bytes_sent: int = 0
    """Of record batches as they leave, compressed, each attempt counted."""
    requests_in_flight: int = 0
    _latency_sum: float = 0.0
    _latency_max: float = 0.0
    _answers: int = 0

    def answered(self, seconds: float) -> None:
        """A request was answered ``seconds`` after it left."""
        self._answers += 1
        self._latency_sum += seconds
        if seconds > self._latency_max:
            self._latency_max = seconds

    def snapshot(self) -> dict[str, float]:
        """By name; latencies of requests in milliseconds."""
        mean = self._latency_sum / self._answers if self._answers else 0.0
        return {
            "records_acknowledged": self.records_acknowledged,
            "records_failed": self.records_failed,
            "batches_acknowledged": self.batches_acknowledged,
            "batches_failed": self.batches_failed,
            "batches_split": self.batches_split,
            "batches_retried": self.batches_retried,
            "requests": self.requests,
            "requests_in_flight": self.requests_in_flight,
            "bytes_sent": self.bytes_sent,
            "request_latency_ms_mean": 1000 * mean,
            "request_latency_ms_max": 1000 * self._latency_max,
        }
