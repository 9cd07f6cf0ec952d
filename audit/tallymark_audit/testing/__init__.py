"""Doubles for tests of what reads clusters and writes the store.

:class:`MemoryCluster` (:mod:`.clusters`) is a cluster in memory whose logs can be cut, expire and
vanish. :class:`FailingStore` (:mod:`.stores`) makes a real store fail at the statement or commit of
your choice, before or after it took effect. :class:`FailingDisk` (:mod:`.disks`) does so with the
disk under a producer's journal, or lets the process die there. :class:`MemoryProducer`
(:mod:`.producers`) is a confluent-kafka producer in memory, which delivers when the test says so.
"""

from tallymark_audit.testing.clusters import MemoryCluster, MemoryLog, MemoryTopic, Told, stamped
from tallymark_audit.testing.disks import FailingDisk, ProcessDiedError
from tallymark_audit.testing.producers import MemoryProducer
from tallymark_audit.testing.stores import FailingStore, StoreFailure

__all__ = [
    "FailingDisk",
    "FailingStore",
    "MemoryCluster",
    "MemoryLog",
    "MemoryProducer",
    "MemoryTopic",
    "ProcessDiedError",
    "StoreFailure",
    "Told",
    "stamped",
]
