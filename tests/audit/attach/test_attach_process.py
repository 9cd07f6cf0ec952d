"""``tallymark attach`` beside Apache Kafka, into which nobody has put anything of ours, and a
second cluster that somebody else copies into."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_kinds import new_topic
from confluent_kafka import Producer as Confluent
from eventually import eventually

from tallymark.client import Admin, Producer, SimpleConsumer
from tallymark.processes.apache_kafka import ApacheKafkaServer
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.proof.harness.commands import Command

pytestmark = [pytest.mark.apache_kafka, pytest.mark.process]
SECONDS = 90.0

APPLICATION = """
import confluent_kafka
from tallymark_audit import audited
config = {"bootstrap.servers": SERVERS}
producer = audited(confluent_kafka.Producer(config), config)
for number in range(20):
    producer.produce(TOPIC, str(number))
assert producer.flush(30) == 0
"""


class Attached:
    """The command, and where it writes."""

    def __init__(self, folder: Path, upstream: str, downstream: str, topics: str) -> None:
        self.folder = folder
        self.settings = folder / "tallymark.toml"
        self._arguments = [
            *("attach", upstream, "--downstream", downstream, "--topics", topics),
            *("--settings", str(self.settings), "--data", str(folder / "data")),
            *("--window-ms", "2000", "--free-ports"),
        ]
        self._running: list[Command] = []

    def start(self, *more: str) -> Command:
        name = f"attach-{len(self._running)}"
        command = Command(name, [*self._arguments, *more], self.settings, self.folder / "logs")
        self._running.append(command)
        return command

    def states(self) -> dict[str, set[str]]:
        """The states of windows by edge and topic."""
        done = subprocess.run(
            [sys.executable, "-m", "tallymark", "audit", "verdicts", "--json"],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "TALLYMARK_SETTINGS": str(self.settings)},
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, set[str]] = {}
        for row in json.loads(done.stdout):
            found.setdefault(f"{row['edge']} {row['topic']}", set()).add(row["state"])
        return found

    def stop(self) -> None:
        for command in self._running:
            command.stop()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path / "other") as running:
        yield running


def copy(source: str, target: str, topic: str) -> None:
    """What MirrorMaker does: every record with its time and headers, and nobody is told."""
    with (
        SimpleConsumer(bootstrap_servers=source) as reader,
        Producer(bootstrap_servers=target, audit=False) as writer,
    ):
        for message in reader.fetch(topic, 0, 0):
            writer.send(
                topic,
                message.value,
                partition=0,
                timestamp=message.timestamp,
                headers=message.headers,
            ).result(30)


@pytest.mark.soak
def test_from_a_kafka_without_anything_to_verdicts(
    apache_kafka: ApacheKafkaServer, other: BrokerThread, tmp_path: Path
) -> None:
    """Somebody with a Kafka and a copy of it had to write the settings by hand, make the topic, and
    start each collector and the dashboards alone before the first verdict."""
    servers, copies = apache_kafka.bootstrap_servers, other.bootstrap_servers
    bare, clicks = new_topic("attachbare"), new_topic("attachclicks")
    with Admin(bootstrap_servers=servers) as admin, Admin(bootstrap_servers=copies) as target:
        admin.create_topic(bare, 1, {"message.timestamp.type": "LogAppendTime"})
        admin.create_topic(clicks, 1)
        target.create_topic(clicks, 1)
    foreign = Confluent({"bootstrap.servers": servers, "enable.idempotence": True})
    foreign.produce(bare, b"x", partition=0)
    assert foreign.flush(30) == 0
    attached = Attached(tmp_path, servers, copies, f"{bare}|{clicks}")
    try:
        asking = attached.start()
        assert asking.wait(SECONDS) == 1
        assert asking.said("has to be confirmed; give --yes, or see with --dry-run")
        assert not attached.settings.exists()

        first = attached.start("--yes")
        first.wait_for(lambda: first.said("tallymark audit overview"), "start", SECONDS)
        said = first.log.read_text()
        assert "made the topic _tallymark_audit on downstream" in said
        assert f"{bare} has message.timestamp.type=LogAppendTime" in said
        assert f"{bare} has no copy on downstream, and is left out" in said
        assert f"{bare}: 1 record in 1 partition" in said
        assert "1 idempotent producer" in said
        lines = APPLICATION.replace("SERVERS", repr(servers)).replace("TOPIC", repr(clicks))
        assert "audited(confluent_kafka.Producer(config), config, window_ms=2000)" in said
        # The ports that --free-ports chose are not in the settings that the command wrote.
        assert f"export TALLYMARK_SETTINGS={tmp_path / 'data' / 'deployment.toml'}" in said
        subprocess.run(
            [sys.executable, "-c", lines],
            check=True,
            timeout=60,
            env={**os.environ, "TALLYMARK_SETTINGS": str(attached.settings)},
        )
        copy(servers, copies, clicks)
        wanted = {
            f"producer-to-kafka {bare}": {"UNCLAIMED"},
            f"producer-to-kafka {clicks}": {"COMPLETE"},
            f"kafka-to-downstream {clicks}": {"COMPLETE"},
        }
        eventually(
            lambda: {k: v for k, v in attached.states().items() if k in wanted} == wanted,
            seconds=SECONDS,
            what="every hop has its verdict",
        )
        first.stop()
        before = attached.settings.read_text()

        again = attached.start()
        again.wait_for(lambda: again.said("tallymark audit overview"), "start again", SECONDS)
        assert again.said(f"going on with {attached.settings}")
        assert again.said(f"audited already: {clicks}")
        assert attached.settings.read_text() == before
        assert wanted.items() <= attached.states().items()

        third = attached.start()
        assert third.wait(SECONDS) == 1
        assert third.said("the audit of kafka runs already")
    finally:
        attached.stop()
