"""``tallymark doctor`` says what is missing and what to do."""

import importlib.util
import shutil
import socket
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from tallymark.cli.stack.doctor import command as doctor
from tallymark.deployment import AuditSettings, BrokerAddress, Cluster, Deployment, dump_toml
from tallymark.processes.checks import machine as checks
from tallymark.processes.free_ports import is_taken
from tallymark.processes.ports import with_free_ports
from tallymark.protocol.records import check as record_check
from tallymark.protocol.records import walk as record_walk


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("nonsense", None),
    ],
)
def test_java_versions(text: str, version: int | None) -> None:
    assert checks.java_version(text) == version


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (finding,) = checks.check_java()
    assert finding.grade == "failure"
    assert "install" in finding.do


def test_extras_are_asked_for_where_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collectors and dashboards beside somebody's Kafka could not be started where pyspark is not
    installed, which only ZooKeeper's jars and ``tallymark reconcile`` need."""
    everything = Deployment()
    beside = everything.model_copy(
        update={
            "zookeeper": everything.zookeeper.model_copy(update={"embedded": False}),
            "registry": everything.registry.model_copy(update={"embedded": False}),
        }
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    wrong = [one.what for one in checks.check_packages(everything) if one.grade == "failure"]
    assert wrong == ["extra registry", "extra dashboards", "extra spark"]
    wrong = [one.what for one in checks.check_packages(beside) if one.grade == "failure"]
    assert wrong == ["extra dashboards"]


def test_the_record_kernel_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The image had no kernel, so its brokers looked at the first record of a batch only; nothing
    said so."""
    deployment = Deployment()
    monkeypatch.setattr(record_check, "COMPILED", False)
    (finding,) = checks.check_kernel(deployment)
    assert (finding.grade, "first record only" in finding.text) == ("warning", True)
    assert "make kernel" in finding.do
    monkeypatch.setattr(record_check, "COMPILED", True)
    source = zlib.crc32(Path(record_walk.__file__).read_bytes())
    for compiled, grade in ((source, "ok"), (source + 1, "warning")):
        monkeypatch.setattr(record_check, "_kernel", SimpleNamespace(SOURCE=compiled))
        (finding,) = checks.check_kernel(deployment)
        assert finding.grade == grade
    clusters = tuple(one.model_copy(update={"embedded": False}) for one in deployment.clusters)
    assert checks.check_kernel(deployment.model_copy(update={"clusters": clusters})) == []


def test_a_taken_port_is_named_with_who_wants_it() -> None:
    deployment = with_free_ports(Deployment())
    port = deployment.cluster("dc2").brokers[0].port
    with socket.create_server(("127.0.0.1", port)):
        assert is_taken("127.0.0.1", port)
        wrong = [f for f in checks.check_ports(deployment) if f.grade == "failure"]
    assert [finding.text for finding in wrong] == [f"{port} (broker-dc2-0) is taken"]
    assert "--free-ports" in wrong[0].do


def test_brokers_of_one_machine_cannot_share_their_listeners() -> None:
    """The example of docs/security.md with ``tallymark up --brokers 3``: the second broker died,
    "the port is taken; stop what listens there", which was the first one."""
    shared: dict[str, Any] = {"listeners": "SASL_PLAINTEXT://127.0.0.1:9092"}
    brokers = (BrokerAddress(id=0, port=9092), BrokerAddress(id=1, port=9093))
    cluster = Cluster(name="dc1", brokers=brokers, broker_settings=shared)
    (finding,) = checks.check_listeners(Deployment(clusters=(cluster,), mirrors=()))
    assert finding.grade == "failure"
    assert finding.text == f"the 2 brokers of dc1 would all listen on {shared['listeners']}"
    alone = cluster.model_copy(update={"brokers": brokers[:1]})
    assert checks.check_listeners(Deployment(clusters=(alone,), mirrors=())) == []


def test_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    (finding,) = checks.check_disk(Deployment(data_dir=tmp_path / "data"))
    assert finding.grade == "failure"
    assert "cannot write" in finding.text


def test_a_store_on_another_disk_has_room_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit store was on a disk of 30 MB that was full; all that doctor told of was the disk of
    the data folder."""
    little = tmp_path / "little"
    little.mkdir()
    real = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda at: real._replace(free=1 << 20) if at == little else real
    )
    audit = AuditSettings(store=f"sqlite:///{little}/audit.db")
    _, store = checks.check_disk(Deployment(data_dir=tmp_path / "data", audit=audit))
    assert store.grade == "warning"
    assert store.text == f"1 MiB free below {little} (audit store)"
    assert "make room" in store.do


def test_doctor_exits_with_1_when_something_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "s.toml"
    settings.write_text(dump_toml(with_free_ports(Deployment(data_dir=tmp_path / "d"))))
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(doctor, ["--settings", str(settings)])
    assert result.exit_code == 1
    assert "openjdk-17-jre-headless" in " ".join(result.output.split())
