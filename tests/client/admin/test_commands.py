"""``tallymark topics`` and ``cluster`` against our broker and Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_kinds import KINDS, AnyBroker, either_broker
from commands import run_command
from eventually import eventually

from tallymark.cli.admin import cluster, topics
from tallymark.errors import KafkaError, UserError


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    yield from either_broker(request, tmp_path_factory.mktemp("commands"))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLYMARK_SETTINGS", raising=False)
    monkeypatch.chdir(tmp_path)


def run(broker: AnyBroker, *words: str, code: int = 0) -> str:
    """What ``tallymark topics WORDS`` prints, standard error included."""
    servers = broker.bootstrap_servers
    return run_command(topics.command, *words, "--bootstrap-server", servers, code=code).output


def test_a_topic_is_made_described_grown_and_deleted(broker: AnyBroker) -> None:
    assert run(broker, "create", "new", "--partitions", "2") == "new: created\n"
    assert run(broker, "create", "new") == "new: was there\n"
    assert run(broker, "create", "tried", "--dry-run") == "tried: would be created\n"
    listed = run(broker, "list").splitlines()
    assert listed[0] == "TOPIC\tPARTITIONS\tREPLICAS\tUNDER-REPLICATED\tLEADERLESS"
    assert "new\t2\t1\t0\t0" in listed
    assert not any(line.startswith("tried") for line in listed)
    described = run(broker, "describe", "new").splitlines()
    assert described[0].startswith("new\tid ")
    assert described[3] == "new\t1\t0\t0\t0\t0\t0\t0"
    (first, _) = json.loads(run(broker, "describe", "new", "--json"))
    assert first["replicas"] == [0]
    assert first["next"] == 0

    with pytest.raises(UserError, match="has to be confirmed; give --yes"):
        run(broker, "grow", "new", "--partitions", "3")
    assert "would grow new to 3" in run(broker, "grow", "new", "--partitions", "3", "--dry-run")
    assert run(broker, "grow", "new", "--partitions", "3", "--yes") == "new: 3 partitions\n"
    with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
        run(broker, "grow", "new", "--partitions", "2", "--yes")

    with pytest.raises(UserError, match="has to be confirmed"):
        run(broker, "delete", "new")
    assert "would delete new" in run(broker, "delete", "new", "--dry-run")
    told = run(broker, "delete", "new", "missing", "--yes", code=2)
    assert "new: deleted" in told
    assert "there is no topic missing" in told
    for words in (("delete", "new", "--yes"), ("describe", "new")):
        with pytest.raises(UserError, match="there is no topic new"):
            run(broker, *words)


def test_replicas_placed_by_hand(broker: AnyBroker) -> None:
    assert run(broker, "create", "placed", "--replicas", "0,0,0") == "placed: created\n"
    eventually(lambda: "placed\t3\t1\t0\t0" in run(broker, "list"))  # brokers hear of it one by one
    with pytest.raises(UserError, match="give it alone"):
        run(broker, "create", "x", "--replicas", "0", "--partitions", "1")
    with pytest.raises(UserError, match=r"is not broker:broker"):
        run(broker, "create", "x", "--replicas", "a,b")
    with pytest.raises(UserError, match="is not KEY=VALUE"):
        run(broker, "create", "x", "--config", "nonsense")


def test_configurations(broker: AnyBroker) -> None:
    run(broker, "create", "kept", "--config", "retention.ms=1000")
    assert "retention.ms\t1000\ttopic" in run(broker, "config", "kept")
    told = run(broker, "config", "kept", "--unset", "retention.ms", "--set", "segment.ms=60000")
    assert told.startswith("kept: changed\n")
    assert "segment.ms\t60000\ttopic" in told
    assert "retention.ms" not in told
    assert "retention.ms" in run(broker, "config", "kept", "--all")
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        run(broker, "config", "kept", "--set", "retention.ms=soon", "--dry-run")
    entries = json.loads(run(broker, "config", "0", "--broker", "--all", "--json"))
    assert any(one["name"] == "log.retention.ms" for one in entries)


def test_records_are_deleted(broker: AnyBroker) -> None:
    from tallymark.client import Producer

    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for number in range(10):
            producer.send("short", b"x", timestamp=1_700_000_000_000 + 1000 * number)
            producer.flush()
    asked = ("delete-records", "short", "--before-time", "2023-11-14T22:13:24Z")
    assert "would delete up to 4 messages of short" in run(broker, *asked, "--dry-run")
    assert "short\t0\t0\t4" in run(broker, *asked, "--yes")
    (row,) = json.loads(run(broker, "describe", "short", "--json"))
    assert (row["first"], row["next"]) == (4, 10)
    run(broker, "delete-records", "short", "--everything", "--yes", "--partitions", "0")
    for way in ("--yes", "--dry-run"):  # which said that it would delete what is not there
        told = run(broker, "delete-records", "short", "--before-offset", "99", way, code=1)
        assert "short-0 ends at offset 10, before 99" in told
        assert "would" not in told
    with pytest.raises(UserError, match="which messages"):
        run(broker, "delete-records", "short")
    with pytest.raises(UserError, match="has no partition 7"):
        run(broker, "delete-records", "short", "--everything", "--partitions", "7")


def test_the_cluster_is_named_in_one_way(broker: AnyBroker) -> None:
    with pytest.raises(UserError, match="both say where the cluster is"):
        run(broker, "list", "--cluster", "dc1")
    with pytest.raises(UserError, match="there is no cluster 'dc9'"):
        run_command(topics.command, "list", "--cluster", "dc9")


def test_the_cluster_itself(broker: AnyBroker) -> None:
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    told = run_command(cluster.command, *servers).output
    assert f"0\t{broker.bootstrap_servers}\t-\tyes\tno" in told
    spans = json.loads(run_command(cluster.command, "--api-versions", "--json", *servers).output)
    assert {"broker": 0, "api": "METADATA"}.items() <= next(
        one.items() for one in spans if one["api"] == "METADATA"
    )
