"""The background task as a whole: threads, and their end."""

import threading
import time

from eventually import eventually

from tallymark.deployment import (
    BrokerAddress,
    Cluster,
    Deployment,
    RegistrySettings,
    ZooKeeperSettings,
)
from tallymark.protocol.api import ADVERTISED, ApiKey
from tallymark.testing import ScriptedBroker
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_dashboards.snapshots.watch import Watch, zookeeper_of


def test_no_zookeeper_is_looked_for_where_none_is_needed() -> None:
    """``tallymark attach`` beside a cluster of Apache Kafka: the dashboards tried to connect to
    127.0.0.1:2181 again and again, thirty warnings in the first minute."""
    brokers = (BrokerAddress(port=9092),)
    kafka = Cluster(name="kafka", kind="apache-kafka", embedded=False, brokers=brokers)
    ours = Cluster(name="ours", brokers=brokers)
    none = ZooKeeperSettings(embedded=False)
    attached = Deployment(clusters=(kafka,), mirrors=(), zookeeper=none)
    assert zookeeper_of(attached, kafka) == ""
    named = ZooKeeperSettings(embedded=False, host="zk.example")
    with_groups = attached.model_copy(update={"zookeeper": named})
    assert zookeeper_of(with_groups, kafka) == f"zk.example:2181{kafka.root}"
    both = attached.model_copy(update={"clusters": (kafka, ours)})
    assert zookeeper_of(both, ours) == f"127.0.0.1:2181{ours.root}"


def test_clusters_are_looked_at_side_by_side_and_no_thread_is_left() -> None:
    """``far`` is at an address where no broker listens, as are ZooKeeper and the registry: ``near``
    is known all the same."""
    before = {one.name for one in threading.enumerate()}
    served: dict[ApiKey, tuple[int, int]] = {
        key: span for key, span in ADVERTISED.items() if key is not ApiKey.DESCRIBE_CLUSTER
    }
    with ScriptedBroker({"t": 1}, served=served) as broker:
        port = int(broker.address.rpartition(":")[2])
        deployment = Deployment(
            clusters=(
                Cluster(name="far", brokers=(BrokerAddress(port=1),)),
                Cluster(name="near", brokers=(BrokerAddress(port=port),)),
            ),
            mirrors=(),
            registry=RegistrySettings(port=1),
            zookeeper=ZooKeeperSettings(port=1),
        )
        snapshots = Snapshots.of(deployment)
        watch = Watch(deployment, snapshots)
        watch.start()
        try:
            eventually(lambda: all(one.brokers.tried for one in snapshots.clusters))
            eventually(lambda: bool(snapshots.registry.subjects.tried))
        finally:
            begun = time.monotonic()
            watch.close()
            took = time.monotonic() - begun
        watch.close()
    near, far = snapshots.cluster("near"), snapshots.cluster("far")
    assert near is not None
    assert far is not None
    assert list(near.topics.value) == ["t"]
    assert far.brokers.at == 0
    assert "127.0.0.1:1" in far.brokers.error
    assert "registry" in snapshots.registry.subjects.error
    assert took < 60
    left = {one.name for one in threading.enumerate()} - before
    assert {name for name in left if "snapshot" in name or "dashboards" in name} == set()
