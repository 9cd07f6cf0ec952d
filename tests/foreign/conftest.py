"""One broker of ours for each file of tests; Apache Kafka for those that ask for both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_kinds import KINDS, OURS

from tallymark.testing.broker_thread import BrokerThread


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    """Auto-created topics have two partitions; the first member of a group waits for no other."""
    folder = tmp_path_factory.mktemp("data")
    with BrokerThread(folder, num_partitions=2, group_initial_rebalance_delay_ms=0) as running:
        yield running


@pytest.fixture(scope="module")
def servers(broker: BrokerThread) -> str:
    """Its ``host:port``."""
    return broker.bootstrap_servers


@pytest.fixture(scope="module")
def data_folder(broker: BrokerThread) -> Path:
    """Where its segments are."""
    return broker.settings.log_dirs[0]


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """A broker's address and the folder of its data."""
    if request.param == OURS:
        return request.getfixturevalue("servers"), request.getfixturevalue("data_folder")
    kafka = request.getfixturevalue("apache_kafka")
    return kafka.bootstrap_servers, kafka.data
