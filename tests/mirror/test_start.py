"""A mirror whose clusters are not there says which, once, and leaves nothing behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallymark.deployment import BrokerAddress, Cluster, Deployment, ZooKeeperSettings
from tallymark.deployment import Mirror as MirrorSettings
from tallymark.errors import ConnectError, TallymarkError, UserError
from tallymark.mirror import Mirror
from tallymark.processes.java import find_java
from tallymark.processes.zookeeper_server import find_jars
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.zookeeper import ZooKeeperServer, free_port

NOWHERE = (BrokerAddress(port=1),)


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """Two brokers, each a cluster of its own, without ZooKeeper."""
    with BrokerThread(tmp_path / "source") as source, BrokerThread(tmp_path / "target") as target:
        brokers = {"source": source, "target": target}
        yield Deployment(
            data_dir=tmp_path,
            zookeeper=ZooKeeperSettings(port=free_port()),
            clusters=tuple(
                Cluster(name=name, brokers=(BrokerAddress(port=broker.settings.port),))
                for name, broker in brokers.items()
            ),
            mirrors=(MirrorSettings(source="source", target="target"),),
        )


def moved(deployment: Deployment, name: str, **changes: Any) -> Deployment:
    clusters = [
        cluster.model_copy(update=changes) if cluster.name == name else cluster
        for cluster in deployment.clusters
    ]
    return deployment.model_copy(update={"clusters": tuple(clusters)})


def refused(deployment: Deployment, kind: type[TallymarkError], text: str) -> None:
    before = {thread.ident for thread in threading.enumerate()}
    began = time.monotonic()
    with pytest.raises(kind, match=text) as caught:
        Mirror(deployment, "source", "target", observers=[], start_timeout_ms=300)
    assert time.monotonic() - began < 60
    assert "\n" not in str(caught.value)
    deadline = time.monotonic() + 60
    while {thread.ident for thread in threading.enumerate()} - before:
        assert time.monotonic() < deadline, threading.enumerate()
        time.sleep(0.01)


def test_no_broker_of_a_cluster_answers(deployment: Deployment) -> None:
    for name in ("source", "target"):
        text = f"no broker of {name} answers: .*[;?] start its brokers, or mend their addresses"
        refused(moved(deployment, name, brokers=NOWHERE), UserError, text)


def test_a_cluster_is_not_copied_into_itself(deployment: Deployment) -> None:
    same = deployment.cluster("target").brokers
    text = "source and target are the same cluster"
    refused(moved(deployment, "source", brokers=same), UserError, text)


def test_no_zookeeper(deployment: Deployment) -> None:
    refused(deployment, ConnectError, "ZooKeeper is not there")


def test_no_such_mirror(deployment: Deployment) -> None:
    with pytest.raises(UserError, match="no mirror from target to source; there is: source to"):
        Mirror(deployment, "target", "source")


@pytest.mark.process
def test_no_such_cluster_in_zookeeper(deployment: Deployment, tmp_path: Path) -> None:
    try:
        find_java()
        find_jars()
    except UserError as error:
        pytest.skip(str(error))
    with ZooKeeperServer(tmp_path) as server:
        there = deployment.zookeeper.model_copy(update={"port": server.port})
        text = "has no /source: there is no such cluster there"
        refused(deployment.model_copy(update={"zookeeper": there}), UserError, text)
