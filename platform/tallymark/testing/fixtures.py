"""pytest fixtures. Name this module in your conftest.py::

    pytest_plugins = ["tallymark.testing.fixtures"]

or call the context managers behind them (:mod:`tallymark.testing`) yourself. Needs pytest.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tallymark.errors import UserError
from tallymark.testing.memory_broker import MemoryBroker
from tallymark.testing.zookeeper import ZooKeeperServer


@pytest.fixture
def tallymark_broker() -> Iterator[MemoryBroker]:
    """A broker for this test alone, in memory; ``bootstrap_servers`` is where it listens."""
    with MemoryBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def tallymark_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper for the whole session (it takes seconds to start): give every test a chroot of
    its own, ``f"{server.connect}/name"``. Without Java the test is skipped, with the reason."""
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    try:
        server.__enter__()
    except UserError as error:
        pytest.skip(str(error))
    try:
        yield server
    finally:
        server.stop()
