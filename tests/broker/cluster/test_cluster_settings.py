"""Settings changed at run time in a cluster: all brokers hear of what is set for all, from
ZooKeeper, in Kafka's layout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from admin_wire import BROKER, SET, change, describe
from cluster_members import member, metadata, state_of, zookeeper_or_skip
from eventually import eventually

from tallymark.coordination import ZooKeeper
from tallymark.errors import CODES
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient
from tallymark.testing.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.process
RETENTION = "log.retention.ms"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with zookeeper_or_skip(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


def retention(broker: BrokerThread) -> int:
    return state_of(broker).settings.log_retention_ms


def test_what_is_set_for_all_is_in_force_on_all(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    first, second = (member(tmp_path, zookeeper, "all", n) for n in range(2))
    with first, second:
        eventually(lambda: len(metadata(first.bootstrap_servers).brokers) == 2)
        with WireClient(first.bootstrap_servers) as wire:
            assert change(wire, "", (RETENTION, SET, "6000"), kind=BROKER).error_code == 0
            assert retention(first) == 6000
            eventually(lambda: retention(second) == 6000)
            others = change(wire, "1", (RETENTION, SET, "1"), kind=BROKER)
            assert others.error_code == CODES["INVALID_REQUEST"], "ask broker 1 itself"
        with WireClient(second.bootstrap_servers) as wire:
            assert change(wire, "1", (RETENTION, SET, "7000"), kind=BROKER).error_code == 0
            assert [c.name for c in describe(wire, BROKER, "").configs] == [RETENTION]
        assert (retention(first), retention(second)) == (6000, 7000)
        second.stop()
        second.start()
        assert retention(second) == 7000
        with ZooKeeper(zookeeper.connect, "/all").start() as session:
            for node, value in (("<default>", "6000"), ("1", "7000")):
                kept = json.loads(session.read(f"/config/brokers/{node}").data)
                assert kept == {"version": 1, "config": {RETENTION: value}}
