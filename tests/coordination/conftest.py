"""A real ZooKeeper and the one in memory, and sessions on a cluster of one's own there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tallymark.coordination import ZooKeeper
from tallymark.errors import UserError
from tallymark.testing.zookeeper import ZooKeeperServer
from tallymark.testing.zookeeper_tree.threaded import MemoryZooKeeper

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


@pytest.fixture(params=[pytest.param("server", marks=pytest.mark.process), "memory"])
def make_session(request: pytest.FixtureRequest) -> Callable[..., ZooKeeper]:
    """``make_session(chroot)``: a session that is not started, on a real server and on the one in
    memory, which is held to the same tests."""
    options: dict[str, Any] = {}
    if request.param == "memory":
        memory = MemoryZooKeeper()
        connect, options["client"] = memory.connect, memory.client
    else:
        server: ZooKeeperServer = request.getfixturevalue("server")
        connect = server.connect
    return lambda chroot, **more: ZooKeeper(connect, chroot, SESSION_MS, **options, **more)


@pytest.fixture
def zookeeper(make_session: Callable[..., ZooKeeper]) -> Iterator[ZooKeeper]:
    """A session on a cluster that nobody else uses."""
    with make_session(f"/cluster{next(_chroots)}").start(create_root=True) as session:
        yield session


@pytest.fixture
def other(make_session: Callable[..., ZooKeeper], zookeeper: ZooKeeper) -> Iterator[ZooKeeper]:
    """A second session on the same cluster."""
    with ExitStack() as stack:
        yield stack.enter_context(make_session(zookeeper.chroot))
