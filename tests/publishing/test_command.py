"""``tallymark publish`` end to end: real input, registry, broker; events read back."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from project import ROOT

from tallymark.client import SimpleConsumer
from tallymark.serialization import AvroDecoder, RegistryClient
from tallymark.testing.broker_thread import BrokerThread
from tallymark_schema_registry.embedded import RegistryServer

pytestmark = pytest.mark.process

REAL_LOG = ROOT.parent / "shared/data/apache_access.log"
Publish = Callable[..., "subprocess.CompletedProcess[str]"]


class Stack:
    """A broker, a registry, and the settings file that names them."""

    def __init__(self, folder: Path, broker: BrokerThread, registry: RegistryServer) -> None:
        self.folder = folder
        self.broker = broker
        self.registry = registry
        self.settings = folder / "deployment.toml"
        self.settings.write_text(
            f'data_dir = "{folder / "data"}"\nmirrors = []\n'
            f"[registry]\nport = {registry.url.rpartition(':')[2]}\n"
            '[[clusters]]\nname = "dc1"\n'
            f"brokers = [{{ port = {broker.bootstrap_servers.rpartition(':')[2]} }}]\n"
        )

    def command(self, *arguments: str) -> list[str]:
        settings = ["--settings", str(self.settings)]
        return [sys.executable, "-m", "tallymark", "publish", *arguments, *settings]

    def publish(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONWARNINGS": "default"}
        return subprocess.run(
            self.command(*arguments), input=stdin, capture_output=True, text=True, timeout=90,
            env=environment, check=False,
        )  # fmt: skip

    def events(self, topic: str, partitions: int = 2) -> list[tuple[int, Any]]:
        """(timestamp, value) of all records, decoded."""
        found: list[tuple[int, Any]] = []
        with (
            RegistryClient(self.registry.url) as client,
            SimpleConsumer(bootstrap_servers=self.broker.bootstrap_servers) as consumer,
        ):
            decoder = AvroDecoder(client)
            for partition in range(partitions):
                offset = 0
                while records := consumer.fetch(topic, partition, offset, max_wait_ms=0).records():
                    found.extend((r.timestamp, decoder.decode(r.value or b"")) for r in records)
                    offset = records[-1].offset + 1
        return found


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("publish")
    with (
        BrokerThread(folder) as broker,
        RegistryServer(f"sqlite:///{folder / 'registry.db'}") as registry,
    ):
        yield Stack(folder, broker, registry)


def last_line(process: subprocess.CompletedProcess[str]) -> str:
    return process.stdout.strip().splitlines()[-1]


def test_json_lines_from_a_pipe(stack: Stack) -> None:
    lines = [{"id": 1, "at": "2026-01-01T00:00:00Z"}, {"id": 9}, {"id": 2, "at": 1767225601}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    ran = stack.publish("orders", "--event-time", "at", stdin=text)
    assert ran.returncode == 2, ran.stderr
    assert "orders: read=3 published=2 acknowledged=2 rejected=1 failed=0" in last_line(ran)
    assert sorted(stack.events("orders"), key=lambda event: event[0]) == [
        (1767225600000, {"id": 1, "at": "2026-01-01T00:00:00Z"}),
        (1767225601000, {"id": 2, "at": 1767225601}),
    ]
    (reject,) = (stack.folder / "data/rejects/orders.jsonl").read_text().splitlines()
    assert json.loads(reject)["line"] == 2
    assert "Warning" not in ran.stderr
    assert "Traceback" not in ran.stderr


def test_to_a_cluster_by_its_address_with_the_result_as_json(stack: Stack) -> None:
    """There was no -b and no --json: a script had to take the counts out of a sentence."""
    address = stack.broker.bootstrap_servers
    ran = stack.publish("-t", "addressed", "-b", address, "--json", stdin='{"id": 1}\n{"id": 2}\n')
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert (told["topic"], told["cluster"], told["acknowledged"]) == ("addressed", "dc1", 2)
    assert told["rejects"] is None
    assert len(stack.events("addressed")) == 2
    both = stack.publish("addressed", "-b", address, "--cluster", "dc1", stdin="{}\n")
    assert "give one of them" in both.stderr


def test_csv_in_shards(stack: Stack) -> None:
    path = stack.folder / "items.csv"
    path.write_text("sku,price\n" + "".join(f"a{n},{n}.5\n" for n in range(101)))
    for shard in ("0/2", "1/2"):
        ran = stack.publish("items", "--input", str(path), "--shard", shard, "--partitions", "3")
        assert ran.returncode == 0, ran.stderr
    events = stack.events("items", 3)
    assert sorted(value["price"] for _, value in events) == [n + 0.5 for n in range(101)]


@pytest.mark.skipif(not REAL_LOG.exists(), reason=f"the sample log {REAL_LOG} is not here")
def test_a_real_access_log_is_back_filled(stack: Stack) -> None:
    ran = stack.publish("web", "--input", str(REAL_LOG), "--backfill")
    assert ran.returncode == 2, ran.stderr
    assert "read=10000 published=9999 acknowledged=9999 rejected=1 failed=0" in last_line(ran)
    assert "skewed" not in ran.stderr
    events = stack.events("web")
    assert len(events) == 9999
    assert min(timestamp for timestamp, _ in events) == 1431857100000
    assert sum(value["method"] == "HEAD" for _, value in events) == 42


def test_metrics_for_a_while(stack: Stack) -> None:
    ran = stack.publish("metrics", "--format", "metrics", "--interval", "0.05", "--max-events", "5")
    assert ran.returncode == 0, ran.stderr
    assert len(stack.events("metrics")) == 5


def test_following_until_sigterm(stack: Stack) -> None:
    path = stack.folder / "growing.jsonl"
    path.write_text('{"n": 1}\n')
    command = stack.command("growing", "--input", str(path), "--follow")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            assert "ready" in process.stderr.readline()
            with path.open("a") as file:
                file.write('{"n": 2}\nnonsense\n{"n": 3}\n')
            end = time.monotonic() + 20
            while len(stack.events("growing")) < 3 and time.monotonic() < end:
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    # Rejected rows are told, but who asked to stop asked for nothing else.
    assert process.returncode == 0, err
    assert "read=4 published=3 acknowledged=3 rejected=1 failed=0" in out


def test_a_broker_that_goes_away_and_comes_back(stack: Stack) -> None:
    """Killed in the middle: what was read is there at the end, exactly once."""
    path = stack.folder / "many.jsonl"
    path.write_text("".join(f'{{"n": {n}}}\n' for n in range(40_000)))
    command = stack.command("many", "--input", str(path), "--partitions", "1")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            assert "ready" in process.stderr.readline()
            time.sleep(0.5)
            stack.broker.kill()
            time.sleep(0.5)
            stack.broker.start()
            out, err = process.communicate(timeout=90)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert "read=40000 published=40000 acknowledged=40000" in out
    assert sorted(value["n"] for _, value in stack.events("many", 1)) == list(range(40_000))


def one_line(ran: subprocess.CompletedProcess[str]) -> str:
    """What a user sees who can mend it: one line, exit code 1."""
    assert ran.returncode == 1
    (line,) = ran.stderr.strip().splitlines()
    assert line.startswith("tallymark: ")
    return line


def test_a_schema_that_does_not_follow(stack: Stack) -> None:
    assert stack.publish("evolving", stdin='{"a": 1}\n').returncode == 0
    assert "incompatible with an earlier schema" in one_line(
        stack.publish("evolving", stdin='{"b": 1}\n')
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("t", "--input", "/no/such/file"), "cannot read /no/such/file"),
        (("t", "--input", "/"), "is a folder"),
        (("t/t",), "cannot be the name of a topic"),
        (("t",), "standard input is empty"),
        (("t", "--cluster", "dc9"), "there is no cluster 'dc9'"),
        (("t", "--follow"), "--follow needs a file"),
        (("t", "--format", "metrics", "--shard", "0/2"), "means nothing with --format metrics"),
        (("t", "--input", sys.executable), "is not text"),
        (("t", "--format", "csv", "--input", __file__, "--shard", "2/2"), "is not I/N"),
        (("t", "--input", __file__, "--format", "jsonl"), "no row of .* can be read as jsonl"),
        (("t", "--schema", __file__, "--format", "metrics"), "is not valid Avro"),
        (("t", "--schema", "/no/such.avsc", "--format", "metrics"), "cannot read the schema"),
    ],
)
def test_mistakes_are_one_line(stack: Stack, arguments: tuple[str, ...], text: str) -> None:
    assert re.search(text, one_line(stack.publish(*arguments)))


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("[registry]\nport = ", "[registry]\nport = {port} #", "start the schema registry"),
        ("{ port = ", "{ port = {port} }] #", "cluster dc1 cannot be reached"),
    ],
)
def test_no_registry_and_no_broker(stack: Stack, old: str, new: str, wanted: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    whole = stack.settings.read_text()
    stack.settings.write_text(whole.replace(old, new.replace("{port}", port)))
    try:
        ran = stack.publish("t", stdin='{"a": 1}\n')
    finally:
        stack.settings.write_text(whole)
    assert wanted in one_line(ran)
