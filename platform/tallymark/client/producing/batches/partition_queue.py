"""One partition as the producer sees it: the batch being filled, and the pipeline behind it."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tallymark.client.producing.batches.batch import ProducerBatch
from tallymark.client.producing.batches.pipeline import Pipeline
from tallymark.client.producing.stamps import STAMP_HEADER, stamp_ends
from tallymark.protocol.murmur2 import partition_of
from tallymark.protocol.records.column_writer import RunningHeader
from tallymark.protocol.records.writer import header_key

Partitioner: TypeAlias = Callable[[str, bytes | None, Sequence[int]], int]
"""``partitioner(topic, key, partitions) -> partition``; called in the thread that sends."""

RECORD_OVERHEAD: Final = 20
"""What a record needs at most besides its key, value and headers: its length 3, attributes 1, time
delta 3 (within a linger of minutes), offset delta 3, lengths of key and value 4 each, headers 2."""
_STAMP_OVERHEAD: Final = 9
"""Name and length of the stamp 5, a sequence of 4 bytes (2**28 records; then one more)."""


class PartitionQueue:
    """A partition's two halves: ``open`` and ``sealed`` are filled by the threads that send, under
    ``lock``; ``pipeline`` belongs to the I/O thread alone, which takes batches out of ``sealed``.

    ``listed`` says that the handover lists the partition; ``crowded``, that the pump has more
    than it may send now, and looks again as soon as it may: it need not be woken. Batches that
    begin then would only wait, so they may grow beyond the usual size, if the partition ``grows``.
    """

    __slots__ = (
        "crowded",
        "grows",
        "listed",
        "lock",
        "need",
        "next_stamp",
        "open",
        "owner",
        "partition",
        "pipeline",
        "sealed",
        "stamp_ends",
        "stamp_size",
        "topic",
    )

    def __init__(
        self, owner: TopicQueues, partition: int, instance: bytes, server: str, pipeline: Pipeline
    ) -> None:
        self.owner = owner
        self.topic = owner.name
        self.partition = partition
        self.pipeline = pipeline
        self.lock = threading.Lock()
        self.open: ProducerBatch | None = None
        self.sealed: deque[ProducerBatch] = deque()
        self.listed = False
        self.crowded = False
        self.grows = True
        """False once the broker has found a batch too large."""
        self.next_stamp = 0
        """Sequence of the first stamp of the next batch."""
        self.stamp_ends = (header_key(STAMP_HEADER), *stamp_ends(instance, partition, server))
        self.stamp_size = _STAMP_OVERHEAD + len(self.stamp_ends[1]) + len(self.stamp_ends[2])
        self.need = RECORD_OVERHEAD + (self.stamp_size if owner.stamped else 0)
        """Bytes that a record without key and headers takes besides its value."""

    def stamp(self) -> RunningHeader:
        """The stamps of a batch that begins now."""
        key, prefix, suffix = self.stamp_ends
        return RunningHeader(key, prefix, self.next_stamp, suffix)

    def seal(self) -> bool:
        """Close the open batch, if there is one; hold ``lock``."""
        batch = self.open
        if batch is None:
            return False
        batch.size = batch.reserved - batch.room
        if batch.stamped:
            self.next_stamp += batch.count
        self.sealed.append(batch)
        self.open = None
        self.owner.move_on(self.partition)
        return True


class TopicQueues:
    """The partitions of a topic. Partitions may be added, never taken away.

    Without a key, records stick to one partition until its batch is sealed and then move to
    another one (KIP-480): full batches, evenly spread.
    """

    __slots__ = ("internal", "name", "queues", "stamped", "sticky")

    def __init__(self, name: str, stamped: bool = True) -> None:
        self.name = name
        self.internal = name.startswith("_")
        """Internal topics are neither stamped nor tallied."""
        self.stamped = stamped and not self.internal
        """Whether records of it are stamped, unless they are an interceptor's own."""
        self.queues: list[PartitionQueue] = []
        self.sticky: PartitionQueue
        """Where records without a key go now; there once there is a partition."""

    def grow(self, count: int, make: Callable[[TopicQueues, int], PartitionQueue]) -> None:
        """Have at least ``count`` partitions. One thread at a time."""
        while len(self.queues) < count:
            self.queues.append(make(self, len(self.queues)))
            if len(self.queues) == 1:
                self.sticky = self.queues[0]

    def choose(self, key: bytes | None) -> PartitionQueue:
        """The partition of a record that names none: by key as Kafka's clients do, or sticky."""
        if key is None:
            return self.sticky
        queues = self.queues
        return queues[partition_of(key, len(queues))]

    def move_on(self, partition: int) -> None:
        """A batch of ``partition`` is sealed: records without key go elsewhere from now on."""
        count = len(self.queues)
        if count > 1 and self.sticky.partition == partition:
            self.sticky = self.queues[(partition + random.randrange(1, count)) % count]
