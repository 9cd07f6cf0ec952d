"""A data directory that was copied while its broker runs, and a second broker on the copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from brokers_in_memory import BrokersInMemory
from starts import ABLE, epoch_of

from tallymark.broker.metadata.image import BrokerImage
from tallymark.broker.metadata.zookeeper_membership import NoLogs
from tallymark.broker.metadata.zookeeper_registration import Registration
from tallymark.broker.settings.listeners import Endpoint
from tallymark.coordination import BrokerRegistry, ZooKeeper
from tallymark.errors import UserError
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_files import MemoryFiles
from tallymark.testing.zookeeper_tree.threaded import MemoryZooKeeper

SESSION_MS = 1000
"""A broker waits half as long again, and a second, for what may be its own earlier process."""


def test_a_broker_on_a_copy_is_refused_while_the_other_one_runs(tmp_path: Path) -> None:
    """A user copied the directory of a running broker to look at it, and started a broker there on
    another port. The copy has the folder's id, too, so the broker that ran was taken for an earlier
    process: its registration was removed, and the copy took its place in the ISR with a log that
    ended where the copy was made."""
    with BrokersInMemory(tmp_path, 2, on_disk=True) as cluster:
        cluster.create("t", 2)
        leader = cluster.leader("t")
        running = BrokerRegistry(cluster.zookeeper).brokers()[leader]
        shutil.copytree(tmp_path / f"broker-{leader}", tmp_path / "copy")
        twin = BrokerThread(
            tmp_path / "copy",
            zookeeper=cluster.server.client,
            node_id=leader,
            enable_zookeeper=True,
            zookeeper_connect="memory:1/c",
            zookeeper_session_timeout_ms=SESSION_MS,
        )
        with pytest.raises(UserError, match=f"broker id {leader} is in use by {running.address}"):
            twin.start()
        assert BrokerRegistry(cluster.zookeeper).brokers()[leader] == running
        assert epoch_of(cluster.zookeeper, leader) == running.epoch
        assert cluster.produce("t", b"x", leader=leader).error_code == 0


@pytest.mark.parametrize(
    ("ports", "goes"),
    [
        ({"PLAINTEXT": 9092}, True),
        ({"PLAINTEXT": 9093, "SSL": 9092}, True),
        ({"PLAINTEXT": 9093}, False),
    ],
)
def test_a_registration_goes_where_the_start_has_one_of_its_addresses(
    ports: dict[str, int], goes: bool
) -> None:
    """No two processes listen at one address; a folder's id alone may be that of a copy."""
    server, files = MemoryZooKeeper(), MemoryFiles()
    files.make_dirs("/d")

    def registration(name: str) -> tuple[ZooKeeper, Registration]:
        session = ZooKeeper(server.connect, "/c", 60_000, client=server.client)
        session.start(create_root=True)
        return session, Registration(session, 1, files, "/d", lambda: 0)

    before, earlier = registration("before")
    first = me({"PLAINTEXT": 9092})
    earlier.check_free(first)
    earlier.register(first, lambda error: None, NoLogs(), lambda epoch: None)
    now, later = registration("now")
    later.check_free(me(ports))
    assert (1 not in BrokerRegistry(now).brokers()) == goes
    now.close()
    before.close()


def me(ports: dict[str, int]) -> BrokerImage:
    return BrokerImage(
        1, {name: Endpoint("127.0.0.1", port, name) for name, port in ports.items()}, features=ABLE
    )
