"""Apache Kafka for measurements: with its own JVM options, and enough memory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tallymark.processes.apache_kafka import ApacheKafkaCluster
from tallymark.processes.apache_kafka.server import LONG_RUN, ApacheKafkaServer

_HEAP: Final = "768m"
_JVM: Final = (*LONG_RUN, f"-Xms{_HEAP}")


def apache_kafka(folder: Path) -> ApacheKafkaServer:
    """One broker with its data in ``folder``; not started yet."""
    return ApacheKafkaServer(folder, heap=_HEAP, jvm=_JVM)


def apache_kafka_cluster(folder: Path) -> ApacheKafkaCluster:
    """Three brokers with their data in ``folder``; not started yet."""
    return ApacheKafkaCluster(folder, heap=_HEAP, jvm=_JVM)
