"""Java's kafka-clients, 3.9 and 4.x, unmodified: one run of a JVM for each, many findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from foreign_clients import aio, confluent, java, kafka_python, ours
from foreign_clients.rows import COUNT, Row, columns, from_tsv, rows, stored_codecs, to_tsv

from tallymark.protocol.records.compression import CODECS
from tallymark.testing.broker_thread import BrokerThread

pytestmark = [pytest.mark.process, pytest.mark.soak_cases("3.9.1")]

OTHERS: dict[str, tuple[Any, str]] = {
    "confluent": (confluent, "lz4"),
    "kafka-python": (kafka_python, "gzip"),
    "aiokafka": (aio, "zstd"),
}
OURS = {f"ours-{codec}": codec for codec in CODECS}
SCENARIOS = (
    *("produce", "read", "big", "group-range", "group-cooperative", "group-static"),
    *("admin-topics", "admin-configs", "admin-records", "admin-cluster", "admin-groups"),
    *("admin-operations", "transactions"),
)


class Run:
    """What one version found on a broker, and its files."""

    def __init__(self, version: str, broker: BrokerThread, folder: Path) -> None:
        self.prefix = "java-" + version.replace(".", "-")
        self.folder = folder
        self.lines = java.run(
            version,
            broker.bootstrap_servers,
            self.prefix,
            folder,
            [f"from-{name}" for name in (*OTHERS, *OURS)],
        )

    def facts(self, scenario: str) -> dict[str, Any]:
        """Of a scenario that must have come to its end."""
        line = self.lines[scenario]
        assert line["error"] is None, line
        found: dict[str, Any] = line["facts"]
        return found


@pytest.fixture(scope="module")
def written(servers: str) -> dict[str, list[Row]]:
    """Topics that other clients wrote."""
    for name, (client, codec) in OTHERS.items():
        client.write(servers, f"from-{name}", rows(name), codec)
    found = {f"from-{name}": rows(name) for name in OTHERS}
    for name, codec in OURS.items():
        found[f"from-{name}"] = rows(codec, True) + columns(codec)
        ours.write(servers, f"from-{name}", rows(codec, True), codec)
        ours.write_columns(servers, f"from-{name}", columns(codec), codec)
    return found


@pytest.fixture(scope="module", params=java.VERSIONS)
def run(
    request: pytest.FixtureRequest,
    broker: BrokerThread,
    written: dict[str, list[Row]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    java.driver(request.param)
    folder = tmp_path_factory.mktemp("java")
    to_tsv(rows("java", True), folder / "rows.tsv")
    return Run(request.param, broker, folder)


def test_every_scenario_came_to_its_end(run: Run) -> None:
    assert [line["scenario"] for line in run.lines.values()] == list(SCENARIOS)
    assert {name: line["error"] for name, line in run.lines.items() if line["error"]} == {}


def test_produces_with_every_codec_and_others_read_it(
    run: Run, servers: str, data_folder: Path
) -> None:
    facts = run.facts("produce")
    topic, times = facts["topic"], 7  # five codecs, then acks of 1 and of 0
    assert facts["offsets"] == list(range(COUNT * (times - 1)))
    assert facts["unknown"] == -1
    assert confluent.read(servers, topic, COUNT * times) == rows("java", True) * times
    assert aio.read(servers, topic, COUNT * times) == rows("java", True) * times
    for name, read in ours.READERS.items():
        assert read(servers, topic, COUNT * times) == rows("java", True) * times, name
    assert stored_codecs(data_folder, topic) == {"none", "gzip", "snappy", "lz4", "zstd"}


def test_reads_what_others_wrote(run: Run, written: dict[str, list[Row]]) -> None:
    assert run.facts("read") == {topic: len(some) for topic, some in written.items()}
    for topic, some in written.items():
        assert from_tsv(run.folder / f"read-{topic}.tsv") == some


def test_messages_near_the_limit(run: Run) -> None:
    assert run.facts("big") == {"same": 4}


@pytest.mark.parametrize("assignor", ["range", "cooperative"])
def test_members_come_and_go(run: Run, assignor: str) -> None:
    facts = run.facts(f"group-{assignor}")
    assert facts["shares"] == [4, 2, 2, 4]
    assert facts["sent"] == facts["seen"] == facts["different"] == 120
    assert facts["committed"] == {"0": 30, "1": 30, "2": 30, "3": 30}


def test_a_static_member_comes_back_unnoticed(run: Run) -> None:
    facts = run.facts("group-static")
    assert (facts["same"], facts["generations"]) == (True, 0)
    assert (facts["state"], facts["state after"]) == ("Stable", "Empty")


def test_admin_of_topics(run: Run) -> None:
    facts = run.facts("admin-topics")
    assert facts == {
        "created": 2,
        "again": "TopicExistsException",
        "fewer": "InvalidPartitionsException",
        "partitions": 5,
        "leaders": 5,
        "same id": True,
        "listed": True,
        "listed after": False,
        "unknown": "UnknownTopicOrPartitionException",
    }


def test_admin_of_configs(run: Run) -> None:
    facts = run.facts("admin-configs")
    assert facts.pop("broker") > 20
    assert facts == {
        "default": True,
        "set": "777000",
        "source": "DYNAMIC_TOPIC_CONFIG",
        "appended": "delete,compact",
        "wrong": "InvalidConfigurationException",
        "kept": "777000",
        "deleted": True,
    }


def test_admin_of_records(run: Run) -> None:
    assert run.facts("admin-records") == {
        "earliest": 0,
        "latest": 20,
        "by time": 7,
        "max timestamp": 19,
        "producers": [{"epoch": 0, "sequence": 19}],
        "low watermark": 12,
        "earliest after": 12,
        "beyond": "OffsetOutOfRangeException",
    }


def test_admin_of_the_cluster(run: Run, broker: BrokerThread) -> None:
    facts = run.facts("admin-cluster")
    assert facts["nodes"] == facts["log directories"] == 1
    assert facts["controller is a node"] is True
    assert len(facts["cluster id"]) == 22
    assert facts["log bytes"] > 4 * 900_000, "the big messages are among them"


def test_admin_of_groups(run: Run) -> None:
    facts = run.facts("admin-groups")
    groups = {name.removeprefix(f"{run.prefix}-"): state for name, state in facts["groups"].items()}
    readers = ("group-cooperative-readers", "group-range-readers", "group-static-readers")
    assert groups == dict.fromkeys(("by-hand", *readers), "Empty")
    told = ("offset", "metadata", "state", "members", "left", "unknown")
    expected = (15, "note", "Empty", 0, 0, "GroupIdNotFoundException")
    assert tuple(facts[name] for name in told) == expected


def test_admin_of_a_running_cluster(run: Run) -> None:
    """Settings at run time, levels of loggers, quotas of a user with a client id, elections, moves,
    and which record of a batch is to blame (KIP-467)."""
    facts = run.facts("admin-operations")
    blamed = facts.pop("blamed")
    assert facts == {
        "partitions": 3,
        "setting": [
            "6000 DYNAMIC_DEFAULT_BROKER_CONFIG",
            "7000 DYNAMIC_BROKER_CONFIG",
            "0 DEFAULT_CONFIG",
        ],
        "fixed": "InvalidRequestException",
        "level": "ERROR DYNAMIC_BROKER_LOGGER_CONFIG",
        "quota": 1e9,
        "quota after": 0,
        "elected": "ElectionNotNeededException",
        "elected of all": 0,
        "moving": 0,
        "feature": "InvalidUpdateVersionException",
        "moved to where it is": "none",
        "moved to nowhere": "LogDirNotFoundException",
    }
    assert "has no key" in blamed.pop("2")
    assert sorted(blamed) == ["0", "1", "3"]
    assert all("part of a batch" in why for why in blamed.values())


def test_transactions_commit_abort_and_fence(run: Run) -> None:
    """Java's 4.x follows the protocol in which each end raises the epoch (KIP-890)."""
    found = run.facts("transactions")
    assert found["committed"] == "first,second"
    assert found["zombie"] in ("ProducerFencedException", "InvalidProducerEpochException")
