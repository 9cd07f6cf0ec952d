"""``rm -rf`` of ZooKeeper's data, and ZooKeeper comes back empty: brokers say what happened and
what to do, found no second cluster, and go on where the data are brought back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from asked_cluster import wait_for
from broker_process import BrokerProcess
from cluster_members import create, produce, values, zookeeper_or_skip

from tallymark.coordination import ZooKeeper, paths
from tallymark.coordination.session.srvr import last_change

pytestmark = pytest.mark.process


@pytest.mark.soak
def test_brokers_of_an_emptied_zookeeper_say_so_and_go_on_when_its_data_are_back(
    tmp_path: Path,
) -> None:
    """A broker that ran was refused for ever (it has seen more changes than ZooKeeper has), and its
    log had only "no connection". One that started made another cluster's id, and was then told to
    set zookeeper.connect right."""
    broker = BrokerProcess(tmp_path / "broker", zookeeper_session_timeout_ms=1000)
    broker.data.parent.mkdir()
    with zookeeper_or_skip(tmp_path) as server:
        broker.cluster = ("--id", "1", f"--set=zookeeper.connect={server.connect}/c")
        data, copy = server.folder / "data", tmp_path / "copy"
        with broker:
            assert create(broker.address, "t") == 0
            assert produce(broker.address, "t").error_code == 0
            server.stop()
            data.rename(copy)
            server.start()
            wait_for(lambda: "has lost its data" in broker.log.read_text(), "the reason")
            assert produce(broker.address, "t").error_code == 0, "one replica goes on"
            broker.stop()

            with pytest.raises(AssertionError, match="bring back ZooKeeper's data"):
                broker.start()
            with ZooKeeper(f"{server.connect}/c") as zookeeper:
                assert not zookeeper.exists(paths.CLUSTER_ID), "no other cluster was made"

            server.stop()
            shutil.rmtree(data)
            copy.rename(data)
            server.start()
            broker.start()
            assert values(broker.address, "t") == [b"x", b"x"]


@pytest.mark.parametrize(
    ("answer", "change"),
    [
        (b"Latency min/avg/max: 0/0.0/0\nZxid: 0x1a2\nMode: standalone\n", 0x1A2),
        (b"Zxid: 0x0\r\n", 0),
        (b"This ZooKeeper instance is not currently serving requests\n", None),
        (b"srvr is not executed because it is not in the whitelist.\n", None),
        (b"", None),
    ],
)
def test_the_last_change_of_a_server_is_read_from_its_answer(
    answer: bytes, change: int | None
) -> None:
    assert last_change(answer) == change
