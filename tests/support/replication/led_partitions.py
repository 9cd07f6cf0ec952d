"""Partitions of three replicas that broker 1 leads, their followers played by the test: states and
disks in memory, and a time that the test sets."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from memory_states import MemoryStates

from tallymark.broker.metrics.counters import ReplicationMetrics
from tallymark.broker.partitions.partition import ACKS_ALL, Partition
from tallymark.broker.replicas.lead import ReplicatedLead
from tallymark.broker.replicas.leading import Leads
from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig
from tallymark.protocol.records.batch import encode_batch
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import Assignment, BrokerView, PartitionState, PartitionView
from tallymark.replication.progress import FollowerFetch
from tallymark.replication.truncation import EpochEnd
from tallymark.testing.memory_files import MemoryFiles

ME: Final = 1
EPOCHS: Final = {1: 10, 2: 20, 3: 30}
"""Broker epochs."""
LAG_MS: Final = 30_000
CONFIG: Final = LogConfig(segment_bytes=2000, index_interval_bytes=100)


def views(epochs: Mapping[int, int] = EPOCHS) -> dict[int, BrokerView]:
    """These brokers are registered."""
    return {broker: BrokerView(broker, epoch) for broker, epoch in epochs.items()}


class Answers:
    """Waiters of acks=all, by the offset of their record: the names of their outcomes."""

    def __init__(self) -> None:
        self.found: dict[int, list[str]] = {}

    def waiter(self, offset: int) -> object:
        """One that waits for the record at ``offset``."""
        outcomes = self.found.setdefault(offset, [])

        def answered(error: KafkaError | None) -> None:
            outcomes.append("NONE" if error is None else error.name)

        return answered


class Led:
    """``count`` partitions of the topic t with an ISR of 1, 2 and 3. Use it on an event loop."""

    def __init__(
        self,
        count: int = 1,
        *,
        isr: tuple[int, ...] = (1, 2, 3),
        min_insync: int = 2,
        config: LogConfig = CONFIG,
        known: int = 0,
        records: int = 0,
    ) -> None:
        self.now_ms = 1_000_000
        self.metrics = ReplicationMetrics()
        self.flushes: list[Partition] = []
        state = PartitionState(ME, 0, isr, version=4)
        keys: list[TopicPartition] = [("t", index) for index in range(count)]
        self.states = MemoryStates(dict.fromkeys(keys, state), EPOCHS)
        self.leads = Leads(ME, self.states, lambda: self.now_ms, LAG_MS, self.metrics)
        self.leads.brokers_changed(views())
        self.answers = Answers()
        self.partitions: list[Partition] = []
        for key in keys:
            partition = self.opened(key, config)
            for _ in range(records):
                partition.append(self.batch(), self.now_ms)
            partition.begin_replicated(known)
            view = PartitionView(Assignment((1, 2, 3)), state, min_insync)
            self.leads.begin(partition, view)
            self.partitions.append(partition)

    @property
    def partition(self) -> Partition:
        """The first one."""
        return self.partitions[0]

    @property
    def lead(self) -> ReplicatedLead:
        """That of the first one."""
        return self.lead_of(0)

    @property
    def state(self) -> PartitionState:
        """The state node of the first one."""
        return self.states.states["t", 0]

    def lead_of(self, index: int) -> ReplicatedLead:
        """That of a partition."""
        found = self.leads.get(("t", index))
        assert found is not None
        return found

    def batch(self) -> bytearray:
        """One record."""
        return bytearray(encode_batch([(None, b"value", (), self.now_ms)]))

    def append(self, *, acks: int = 1, index: int = 0) -> int:
        """Append one record; returns its offset."""
        partition = self.partitions[index]
        return partition.append(self.batch(), self.now_ms, acks).last_offset

    def produce(self, timeout_ms: int = 10_000) -> int:
        """Append one record with acks=all, and wait for it; returns its offset."""
        offset = self.append(acks=ACKS_ALL)
        waiter = self.answers.waiter(offset)
        if self.partition.when_exposed(offset, waiter, timeout_ms) is None:  # type: ignore[arg-type]
            self.answers.found[offset].append("NONE")
        return offset

    def fetch(
        self,
        broker: int,
        offset: int | None = None,
        *,
        index: int = 0,
        epoch: int | None = None,
        log_start: int = 0,
    ) -> EpochEnd | None:
        """``broker`` has all before ``offset``, default: all that there is."""
        log = self.partitions[index].log
        offset = log.end_offset if offset is None else offset
        last_epoch = 0 if offset else -1
        broker_epoch = EPOCHS[broker] if epoch is None else epoch
        told = FollowerFetch(broker, broker_epoch, offset, last_epoch, log_start)
        return self.lead_of(index).fetched(told)

    async def after(self, ms: int) -> None:
        """So much later, all have looked at the time."""
        self.now_ms += ms
        await self.leads.look_over()

    async def brokers(self, epochs: Mapping[int, int]) -> None:
        """These are registered now, and the partitions have heard of it."""
        self.states.epochs = dict(epochs)
        self.leads.brokers_changed(views(epochs))
        await self.leads.look_over()

    async def write(self) -> bool:
        """A round of the writer."""
        return await self.leads.writer.write()

    def opened(self, key: TopicPartition, config: LogConfig = CONFIG) -> Partition:
        """A partition in epoch 0, with an empty log and one replica."""
        topic, index = key
        files, folder = MemoryFiles(), f"/d/{topic}-{index}"
        files.make_dirs(folder)
        log = Log.open(files, folder, replace(config), clean=False, now_ms=0)
        log.start_epoch(0)
        return Partition(topic, index, uuid.UUID(int=index + 1), log, 0, self.flushes.append)
