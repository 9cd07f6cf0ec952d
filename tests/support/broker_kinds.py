"""A broker of ours, or one of Apache Kafka, behind one face: what clients are tested against."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from tallymark.apache_kafka import ApacheKafkaServer, NotAvailableError
from tallymark.apache_kafka.jars import jars
from tallymark.testing.broker_thread import BrokerThread

OURS: Final = "ours"
APACHE_KAFKA: Final = pytest.param(
    "apache_kafka", marks=[pytest.mark.apache_kafka, pytest.mark.process]
)
KINDS: Final = (OURS, APACHE_KAFKA)
"""For ``params`` of a fixture."""

_numbers = itertools.count()


class AnyBroker(Protocol):
    """What both can do."""

    @property
    def bootstrap_servers(self) -> str: ...
    def start(self) -> Any: ...
    def kill(self) -> None: ...


def start_apache_kafka(
    folder: Path, settings: Mapping[str, str] | None = None
) -> ApacheKafkaServer:
    """A running broker of Apache Kafka; skips the test, and says why, where it cannot be had. It
    fetches nothing: that is for deploy/ensure-apache-kafka, before the tests."""
    skip_without_jars()
    server = ApacheKafkaServer(folder, settings, node_id=0)
    try:
        server.start()
    except NotAvailableError as missing:
        pytest.skip(str(missing))
    return server


def skip_without_jars() -> None:
    """Skips the test, and says why, where nobody has fetched Apache Kafka."""
    try:
        jars(fetch=False)
    except NotAvailableError as missing:
        pytest.skip(str(missing))


def partition_folder(broker: AnyBroker, topic: str, partition: int = 0) -> Path:
    """Where the segments of a partition are."""
    if isinstance(broker, ApacheKafkaServer):
        return broker.data / f"{topic}-{partition}"
    assert isinstance(broker, BrokerThread)
    return broker.settings.log_dirs[0] / f"{topic}-{partition}"


def new_topic(prefix: str = "t") -> str:
    """A name that no other test of this run uses: Apache Kafka is one for all of them."""
    return f"{prefix}{next(_numbers)}"
