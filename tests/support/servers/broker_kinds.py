"""A broker of ours, or one of Apache Kafka, behind one face: what clients are tested against."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from tallymark.processes.apache_kafka import ApacheKafkaServer, NotAvailableError
from tallymark.processes.apache_kafka.jars import VERSION, jars
from tallymark.processes.apache_kafka.server import QUICK_START
from tallymark.testing.broker_thread import BrokerThread

OURS: Final = "ours"
APACHE_KAFKA: Final = pytest.param(
    "apache_kafka", marks=[pytest.mark.apache_kafka, pytest.mark.process]
)
KINDS: Final = (OURS, APACHE_KAFKA)
"""For ``params`` of a fixture."""

AT_ONCE: Final[dict[str, Any]] = {"group_initial_rebalance_delay_ms": 0}
"""A setting of ours: the first member of a group waits for no other. Apache Kafka is started so."""

_numbers = itertools.count()


class AnyBroker(Protocol):
    """What both can do."""

    @property
    def bootstrap_servers(self) -> str: ...
    def start(self) -> Any: ...
    def kill(self) -> None: ...


def either_broker(
    request: pytest.FixtureRequest, folder: Path, **settings: Any
) -> Iterator[AnyBroker]:
    """For a fixture with ``params=KINDS``: a broker of ours with its data in ``folder`` and these
    settings, or the Apache Kafka of all tests."""
    if request.param == OURS:
        with BrokerThread(folder, **settings) as running:
            yield running
    else:
        yield request.getfixturevalue("apache_kafka")


def start_apache_kafka(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    secured: Sequence[str] = (),
    jvm: Sequence[str] = (),
    version: str = VERSION,
) -> ApacheKafkaServer:
    """A running broker of Apache Kafka, with listeners of these protocols beside the plain one and
    these options of its JVM; skips the test, and says why, where it cannot be had. It fetches
    nothing: that is for deploy/ensure-apache-kafka, before the tests."""
    skip_without_jars(version)
    options = (*QUICK_START, *jvm)
    server = ApacheKafkaServer(
        folder, settings, node_id=0, secured=secured, jvm=options, version=version
    )
    try:
        server.start()
    except NotAvailableError as missing:
        pytest.skip(str(missing))
    return server


def skip_without_jars(version: str = VERSION) -> None:
    """Skips the test, and says why, where nobody has fetched Apache Kafka."""
    try:
        jars(fetch=False, version=version)
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
