"""Apache Kafka for measurements: with its own JVM options, and enough memory."""

from __future__ import annotations

from pathlib import Path

from tallymark.processes.apache_kafka.server import LONG_RUN, ApacheKafkaServer


def apache_kafka(folder: Path) -> ApacheKafkaServer:
    """One broker with its data in ``folder``; not started yet."""
    return ApacheKafkaServer(folder, heap="768m", jvm=(*LONG_RUN, "-Xms768m"))
