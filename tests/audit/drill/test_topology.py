"""The drill's folder and settings."""

from pathlib import Path

import pytest

from tallymark.deployment import load
from tallymark.errors import UserError
from tallymark_audit.proof.drill.planning.topology import (
    AGGREGATE,
    CONSUMER_HOP,
    DATACENTERS,
    build,
)


def test_a_mirror_behind_a_proxy_has_settings_of_its_own(tmp_path: Path) -> None:
    made = build(tmp_path / "drill", ["dc1-to-aggregate", "producer-to-dc2"])
    try:
        (path,) = made.own.values()
        assert list(made.own) == ["mirror-dc1-to-aggregate"]
        proxied, straight = load(str(path)), load(str(made.settings))
        hop = made.hops["dc1-to-aggregate"]
        assert proxied.cluster(AGGREGATE).bootstrap_servers == hop.bootstrap
        assert [one.target for one in hop.gates] == [straight.cluster(AGGREGATE).bootstrap_servers]
        assert proxied.cluster("dc1") == straight.cluster("dc1")
        assert made.bootstrap("dc2") != made.straight("dc2")
        assert made.bootstrap("dc1") == made.straight("dc1")
        assert straight.audit.content_check
    finally:
        made.release()


def test_of_three_brokers_each_has_a_gate_and_all_a_replica_of_everything(tmp_path: Path) -> None:
    """A client that learnt of a second broker would go past a proxy that stands before one."""
    made = build(tmp_path / "drill", ["dc1-to-aggregate", CONSUMER_HOP], brokers=3)
    try:
        (path,) = made.own.values()
        behind, cluster = load(str(path)).cluster(AGGREGATE), load(str(made.settings)).cluster
        for hop in made.hops.values():
            targets = {gate.node: gate.target for gate in hop.gates}
            assert targets == {one.id: one.address for one in cluster(AGGREGATE).brokers}
        gates = {gate.node: gate.port for gate in made.hops["dc1-to-aggregate"].gates}
        assert {one.id: one.port for one in behind.brokers} == gates
        assert len({gate.port for hop in made.hops.values() for gate in hop.gates}) == 6
        for name in (*DATACENTERS, AGGREGATE):
            settings = cluster(name).broker_settings
            assert settings["default.replication.factor"] == len(made.nodes(name)) == 3
            assert settings["min.insync.replicas"] == 2
            assert settings["auto.create.topics.enable"] is False
    finally:
        made.release()


def test_a_folder_that_holds_anything_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="what no drill has put there"):
        build(tmp_path, [])
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_one_drill_at_a_time_and_the_next_one_begins_with_an_empty_folder(tmp_path: Path) -> None:
    first = build(tmp_path / "drill", [])
    (first.folder / "audit.db").write_text("old")
    (first.sealed).mkdir()
    with pytest.raises(UserError, match="a drill is running"):
        build(tmp_path / "drill", [])
    assert (first.folder / "audit.db").exists()
    first.release()
    build(tmp_path / "drill", []).release()
    assert not (first.folder / "audit.db").exists()
    assert not first.sealed.exists()
