"""One partition as the producer sees it: the batch being filled, and the pipeline behind it."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tallymark.client.batch import ProducerBatch
from tallymark.client.pipeline import Pipeline
from tallymark.client.stamps import stamp_ends
from tallymark.protocol.murmur2 import partition_of

Partitioner: TypeAlias = Callable[[str, bytes | None, Sequence[int]], int]
"""``partitioner(topic, key, partitions) -> partition``; called in the thread that sends."""


class Lane:
    """A partition's two halves: ``open`` and ``sealed`` are filled by the threads that send, under
    ``lock``; ``pipeline`` belongs to the I/O thread alone, which takes batches out of ``sealed``.

    ``listed`` says that the I/O thread has been told to look here.
    """

    __slots__ = (
        "listed",
        "lock",
        "next_stamp",
        "open",
        "owner",
        "partition",
        "pipeline",
        "sealed",
        "stamp_prefix",
        "stamp_size",
        "stamp_suffix",
        "topic",
    )

    def __init__(
        self, owner: TopicLanes, partition: int, instance: bytes, server: str, pipeline: Pipeline
    ) -> None:
        self.owner = owner
        self.topic = owner.name
        self.partition = partition
        self.pipeline = pipeline
        self.lock = threading.Lock()
        self.open: ProducerBatch | None = None
        self.sealed: deque[ProducerBatch] = deque()
        self.listed = False
        self.next_stamp = 0
        self.stamp_prefix, self.stamp_suffix = stamp_ends(instance, partition, server)
        # Header name, lengths and a sequence of up to 9 bytes come to it.
        self.stamp_size = 16 + len(self.stamp_prefix) + len(self.stamp_suffix)

    def seal(self) -> bool:
        """Close the open batch, if there is one; hold ``lock``."""
        if self.open is None:
            return False
        self.sealed.append(self.open)
        self.open = None
        self.owner.move_on(self.partition)
        return True


class TopicLanes:
    """The partitions of a topic. Partitions may be added, never taken away.

    Without a key, records stick to one partition until its batch is sealed and then move to
    another one (KIP-480): full batches, evenly spread.
    """

    __slots__ = ("internal", "lanes", "name", "sticky")

    def __init__(self, name: str) -> None:
        self.name = name
        self.internal = name.startswith("_")
        """Internal topics are neither stamped nor tallied."""
        self.lanes: list[Lane] = []
        self.sticky = 0

    def grow(self, count: int, make: Callable[[TopicLanes, int], Lane]) -> None:
        """Have at least ``count`` partitions. One thread at a time."""
        while len(self.lanes) < count:
            self.lanes.append(make(self, len(self.lanes)))

    def choose(self, key: bytes | None) -> Lane:
        """The partition of a record that names none: by key as Kafka's clients do, or sticky."""
        lanes = self.lanes
        if key is not None:
            return lanes[partition_of(key, len(lanes))]
        return lanes[self.sticky % len(lanes)]

    def move_on(self, partition: int) -> None:
        """A batch of ``partition`` is sealed: records without key go elsewhere from now on."""
        count = len(self.lanes)
        if count > 1 and self.sticky % count == partition:
            self.sticky = (partition + random.randrange(1, count)) % count
