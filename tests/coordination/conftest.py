"""A real ZooKeeper, and sessions on a cluster of one's own there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tallymark.coordination import ZooKeeper
from tallymark.errors import UserError
from tallymark.testing.zookeeper import ZooKeeperServer

SESSION_MS = 4000
_chroots = itertools.count()


@pytest.fixture(scope="session")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """One for all tests of this room. Skips them, with the reason, where it cannot run."""
    try:
        with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as running:
            yield running
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture
def server(one_server: ZooKeeperServer) -> ZooKeeperServer:
    """The server, running, whatever the test before did to it."""
    if one_server.pid is None:
        one_server.start()
    return one_server


@pytest.fixture
def zookeeper(server: ZooKeeperServer) -> Iterator[ZooKeeper]:
    """A session on a cluster that nobody else uses."""
    session = ZooKeeper(server.connect, f"/cluster{next(_chroots)}", SESSION_MS)
    with session.start(create_root=True):
        yield session


@pytest.fixture
def other(server: ZooKeeperServer, zookeeper: ZooKeeper) -> Iterator[ZooKeeper]:
    """A second session on the same cluster."""
    with ZooKeeper(server.connect, zookeeper.chroot, SESSION_MS) as session:
        yield session
