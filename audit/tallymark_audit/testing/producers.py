"""A producer of another client, in memory: what is handed over is kept, and reported when the test
says so, in the order it says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

DeliveryCallback: TypeAlias = Callable[[Any, Any], None]


class Handed(NamedTuple):
    """One record as ``produce`` was given it; ``timestamp`` in ms."""

    topic: str
    value: Any
    key: Any
    partition: int
    timestamp: int
    headers: Any


@dataclass(slots=True)
class MemoryProducer:
    """Answers like ``confluent_kafka.Producer``. ``partitions`` are those of every topic;
    ``room``: how many records it takes until reports are served. ``only_errors``: as with
    ``delivery.report.only.error``. A callback is dropped when its report is served."""

    partitions: int = 2
    room: int = 1 << 30
    cluster_id: str = "memory"
    only_errors: bool = False
    interrupt: Callable[[], None] | None = None
    """Called while the next record is handed over, once; it may raise."""
    handed: list[Handed] = field(default_factory=list[Handed])
    open: list[Handed] = field(default_factory=list[Handed])
    callbacks: list[DeliveryCallback | None] = field(
        default_factory=list["DeliveryCallback | None"]
    )
    """Those of the open records."""
    reports: deque[tuple[Handed, DeliveryCallback | None, Any]] = field(
        default_factory=deque[tuple[Handed, "DeliveryCallback | None", Any]]
    )

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Callable[[Any, Any], None] | None = None,
        on_delivery: Callable[[Any, Any], None] | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """BufferError: there is no room."""
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            interrupt()
        if len(self.open) + len(self.reports) >= self.room:
            raise BufferError("Local: Queue full")
        record = Handed(topic, value, key, partition, timestamp, headers)
        self.handed.append(record)
        self.open.append(record)
        self.callbacks.append(callback or on_delivery)

    def deliver(self, at: int = 0, error: Any = None) -> None:
        """Report the record ``at`` among the open ones with the next poll."""
        self.reports.append((self.open.pop(at), self.callbacks.pop(at), error))

    def poll(self, timeout: float = -1) -> int:
        """Serve the reports; what one raises leaves the rest to the next time."""
        served = 0
        while self.reports:
            record, callback, error = self.reports.popleft()
            served += 1
            if callback is not None and (error is not None or not self.only_errors):
                callback(error, record)
        return served

    def flush(self, timeout: float = -1) -> int:
        """Deliver all that is open; never fails."""
        while self.open:
            self.deliver()
        self.poll(0)
        return 0

    def begin_transaction(self) -> None:
        """Nothing is checked."""

    def commit_transaction(self) -> None:
        """Deliver all."""
        self.flush()

    def abort_transaction(self) -> None:
        """What is open is purged."""
        from confluent_kafka import KafkaError  # which is not always installed

        while self.open:
            self.deliver(error=KafkaError(KafkaError._PURGE_QUEUE))
        self.poll(0)

    def list_topics(self, topic: str = "", timeout: float = -1) -> Any:
        """Every topic that is asked for is there."""
        found = SimpleNamespace(error=None, partitions=dict.fromkeys(range(self.partitions)))
        return SimpleNamespace(topics={topic: found}, cluster_id=self.cluster_id, brokers={})

    def __len__(self) -> int:
        return len(self.open) + len(self.reports)
