"""Which processes a deployment has."""

import pytest

from tallymark.deployment import (
    BrokerAddress,
    Cluster,
    Deployment,
    RegistrySettings,
    ZooKeeperSettings,
)
from tallymark.processes.ports import listening, with_brokers, with_free_ports
from tallymark.processes.supervisor.plan import plan


def test_the_default_stack() -> None:
    assert [spec.name for spec in plan(Deployment())] == [
        "zookeeper",
        "broker-dc1-0",
        "broker-dc2-0",
        "broker-aggregate-0",
        "registry",
        "mirror-dc1-to-aggregate",
        "mirror-dc2-to-aggregate",
        "collector-dc1",
        "collector-dc2",
        "collector-aggregate",
        "dashboards",
    ]


def test_a_mirror_waits_for_both_its_ends() -> None:
    mirror = {spec.name: spec for spec in plan(Deployment())}["mirror-dc2-to-aggregate"]
    assert mirror.after == ("broker-dc2-0", "broker-aggregate-0")


def test_clusters_of_apache_kafka_have_its_brokers() -> None:
    """They do not know ZooKeeper, but the group of a mirror from there is in it."""
    clusters = tuple(
        one.model_copy(update={"kind": "apache-kafka"}) if one.name == "dc1" else one
        for one in Deployment().clusters
    )
    specs = {spec.name: spec for spec in plan(Deployment(clusters=clusters))}
    broker = specs["broker-dc1-0"]
    assert broker.arguments == ("apache-kafka", "--cluster", "dc1", "--id", "0")
    assert broker.after == ()
    mirror = specs["mirror-dc1-to-aggregate"]
    assert mirror.after == ("zookeeper", "broker-dc1-0", "broker-aggregate-0")


def test_several_brokers_of_apache_kafka_are_not_started() -> None:
    two = (BrokerAddress(id=1, port=1), BrokerAddress(id=2, port=2))
    with pytest.raises(ValueError, match="only a cluster of one broker can be started"):
        Cluster(name="dc1", kind="apache-kafka", brokers=two)
    assert Cluster(name="dc1", kind="apache-kafka", brokers=two, embedded=False).brokers == two


def test_a_cluster_may_have_several_brokers() -> None:
    brokers = tuple(BrokerAddress(id=n, port=0) for n in (4, 7, 2))
    clusters = (Cluster(name="dc1", brokers=brokers), *Deployment().clusters[1:])
    deployment = with_free_ports(Deployment(clusters=clusters))
    specs = {spec.name: spec for spec in plan(deployment)}
    assert specs["broker-dc1-7"].arguments == ("broker", "--cluster", "dc1", "--id", "7")
    waited = specs["mirror-dc1-to-aggregate"].after
    assert waited == ("broker-dc1-4", "broker-dc1-7", "broker-dc1-2", "broker-aggregate-0")
    assert len(set(deployment.cluster("dc1").bootstrap_servers.split(","))) == 3


def test_two_brokers_of_a_cluster_with_one_id_are_refused() -> None:
    twice = (BrokerAddress(id=1, port=1), BrokerAddress(id=1, port=2))
    with pytest.raises(ValueError, match="two brokers of dc1 have the same id"):
        Cluster(name="dc1", brokers=twice)


def test_what_runs_elsewhere_is_neither_started_nor_waited_for() -> None:
    deployment = Deployment(
        zookeeper=ZooKeeperSettings(embedded=False), registry=RegistrySettings(embedded=False)
    )
    specs = {spec.name: spec for spec in plan(deployment)}
    assert "zookeeper" not in specs
    assert "registry" not in specs
    assert specs["broker-dc1-0"].after == ()


def test_a_mirror_of_somebody_else_is_not_started() -> None:
    """MirrorMaker copies between two clusters: the hop stands in the settings, so that it is
    judged, and ``tallymark up`` started a second mirror beside it: everything came twice."""
    first, second = Deployment().mirrors
    elsewhere = first.model_copy(update={"embedded": False})
    names = [spec.name for spec in plan(Deployment(mirrors=(elsewhere, second)))]
    assert "mirror-dc1-to-aggregate" not in names
    assert "mirror-dc2-to-aggregate" in names


def test_free_ports_leave_alone_what_runs_elsewhere() -> None:
    first, *rest = Deployment().clusters
    elsewhere = first.model_copy(update={"embedded": False})
    moved = with_free_ports(Deployment(clusters=(elsewhere, *rest)))
    assert moved.cluster("dc1") == elsewhere
    assert moved.cluster("dc2") != Deployment().cluster("dc2")


def test_what_runs_elsewhere_keeps_its_port() -> None:
    """With --free-ports, a ZooKeeper and a registry of other machines were looked for on ports that
    were free on this one."""
    zookeeper = ZooKeeperSettings(embedded=False, host="zk.example")
    registry = RegistrySettings(embedded=False, host="schemas.example")
    moved = with_free_ports(Deployment(zookeeper=zookeeper, registry=registry))
    assert (moved.zookeeper, moved.registry) == (zookeeper, registry)
    assert moved.dashboards.port != Deployment().dashboards.port


def test_free_ports_are_all_different() -> None:
    ports = [spec.port for spec in listening(with_free_ports(Deployment()))]
    assert len(set(ports)) == len(ports) == 6
    assert 0 not in ports


def test_an_unknown_cluster_is_named_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"no cluster 'dc3' \(there are: dc1, dc2, aggregate\)"):
        Deployment().cluster("dc3")


def test_more_brokers_have_ports_ids_and_settings_of_their_own() -> None:
    grown = with_brokers(Deployment(), 3)
    for cluster in grown.clusters:
        assert [broker.id for broker in cluster.brokers] == [0, 1, 2]
        assert cluster.broker_settings["default.replication.factor"] == 3
        assert cluster.broker_settings["min.insync.replicas"] == 2
    ports = [broker.port for cluster in grown.clusters for broker in cluster.brokers]
    assert len(set(ports)) == len(ports)
    assert [one.brokers[0] for one in grown.clusters] == [
        one.brokers[0] for one in Deployment().clusters
    ]
    names = [spec.name for spec in listening(grown) if spec.name.startswith("broker")]
    assert len(set(names)) == len(ports)


def test_what_the_settings_say_of_replicas_stands() -> None:
    first, *rest = Deployment().clusters
    chosen = first.model_copy(update={"broker_settings": {"min.insync.replicas": 1}})
    elsewhere = rest[0].model_copy(update={"embedded": False})
    grown = with_brokers(Deployment(clusters=(chosen, elsewhere), mirrors=()), 3)
    assert grown.clusters[0].broker_settings["min.insync.replicas"] == 1
    assert grown.clusters[1] == elsewhere, "it runs elsewhere"
    assert with_brokers(grown, 2) == grown, "there are more already"
