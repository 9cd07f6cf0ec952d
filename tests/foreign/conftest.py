"""One broker for each file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
