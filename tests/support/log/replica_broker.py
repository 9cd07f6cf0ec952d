"""One replica of the partition orders-0 in what a broker has around it: log manager, cleaner and
cutter, on a disk in memory."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from tallymark.broker.maintenance.cleaner import Cleaner
from tallymark.broker.maintenance.cleaner_process import Worker
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.replicas.cutting import CutHook, ReplicaCutter, Saving
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.log import Log, LogConfig, LogManager
from tallymark.log.disk.partition_folder import LogKey
from tallymark.protocol.records.batch import encode_batch, place_batch
from tallymark.testing.memory_files import MemoryFiles

T = TypeVar("T")
ORDERS = LogKey("orders", 0)
TOPIC_ID = uuid.UUID(int=1)
CONFIG = LogConfig(segment_bytes=250, index_interval_bytes=100, retention_ms=-1)
SETTINGS = BrokerSettings(log_dirs=(Path("/d"),), enable_zookeeper=False, log_cleaner_backoff_ms=10)


def batch(offset: int, epoch: int, key: bytes | None = None) -> bytes:
    """Two records, as a leader has them."""
    records = [(key, b"value", (), offset + n) for n in range(2)]
    data = bytearray(encode_batch(records))
    place_batch(data, 0, offset, epoch)
    return bytes(data)


class ReplicaBroker:
    """``partition`` begins where the checkpoint says."""

    def __init__(self, files: MemoryFiles, config: LogConfig = CONFIG) -> None:
        self.files = files
        self.now_ms = 0
        self.manager = LogManager.open(files, ["/d"], config, broker_id=0, now_ms=0, cluster_id="c")
        self.log: Log = self.manager.create(*ORDERS, TOPIC_ID, 0)
        self.partition = Partition(*ORDERS, TOPIC_ID, self.log, self.log.latest_epoch)
        self.partition.begin_replicated(self.manager.high_watermarks.of(*ORDERS))

    def follow(self, *epochs: int, key: bytes | None = None) -> None:
        """Append a batch of a leader in each of these epochs."""
        for epoch in epochs:
            self.log.append_leaders(batch(self.log.end_offset, epoch, key), epoch, 0)

    def commit(self, offset: int) -> None:
        """The leader told of this high watermark, and the checkpoint is written."""
        self.partition.commit(offset)
        self.checkpoint()

    def checkpoint(self) -> None:
        self.manager.high_watermarks.note(*ORDERS, self.partition.high_watermark)
        self.manager.high_watermarks.save()

    def run(
        self,
        work: Callable[[ReplicaCutter, Cleaner], Awaitable[T]],
        hooks: tuple[CutHook, ...] = (),
        worker: Worker | None = None,
        saving: Saving | None = None,
    ) -> T:
        """Run ``work`` on an event loop with a cutter and a cleaner."""
        return asyncio.run(self._run(work, hooks, worker, saving))

    async def _run(
        self,
        work: Callable[[ReplicaCutter, Cleaner], Awaitable[T]],
        hooks: Any,
        worker: Any,
        saving: Any,
    ) -> T:
        partitions = Partitions()
        partitions.add(self.partition)
        cleaner = Cleaner(partitions, [self.log], SETTINGS, self.files, lambda: 0, worker=worker)
        cutter = ReplicaCutter(cleaner, self.manager, lambda: self.now_ms, hooks, saving=saving)
        cleaner.start()
        try:
            return await work(cutter, cleaner)
        finally:
            await cutter.stop()
            await cleaner.stop()
