"""Which processes a deployment has."""

import pytest

from tallymark.cli.ports import listening, with_free_ports
from tallymark.cli.supervisor.plan import plan
from tallymark.deployment import Deployment, RegistrySettings, ZooKeeperSettings


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


def test_what_runs_elsewhere_is_neither_started_nor_waited_for() -> None:
    deployment = Deployment(
        zookeeper=ZooKeeperSettings(embedded=False), registry=RegistrySettings(embedded=False)
    )
    specs = {spec.name: spec for spec in plan(deployment)}
    assert "zookeeper" not in specs
    assert "registry" not in specs
    assert specs["broker-dc1-0"].after == ()


def test_free_ports_are_all_different() -> None:
    ports = [spec.port for spec in listening(with_free_ports(Deployment()))]
    assert len(set(ports)) == len(ports) == 6
    assert 0 not in ports


def test_an_unknown_cluster_is_named_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"no cluster 'dc3' \(there are: dc1, dc2, aggregate\)"):
        Deployment().cluster("dc3")
