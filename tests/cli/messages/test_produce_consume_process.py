"""``tallymark produce`` and ``consume`` as processes with pipes and signals, and in groups."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from broker_kinds import AT_ONCE, KINDS, AnyBroker, either_broker, new_topic
from commands import run_command

from tallymark.cli.messages import consume
from tallymark.client import Producer
from tallymark.serialization import AvroEncoder, RegistryClient
from tallymark.testing import ZooKeeperServer, read_topic
from tallymark_schema_registry.embedded import RegistryServer

pytest_plugins = ["tallymark.testing.fixtures"]

pytestmark = [pytest.mark.process, pytest.mark.soak_cases("apache_kafka")]


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    yield from either_broker(request, tmp_path_factory.mktemp("data"), **AT_ONCE)


@contextmanager
def tallymark(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-W", "error", "-m", "tallymark", *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "HOME": str(folder)}
    with subprocess.Popen(command, cwd=folder, env=environment, **pipes) as process:  # type: ignore[call-overload] # Popen's overloads do not know **
        try:
            yield process
        finally:
            process.kill()


def wait_for(broker: AnyBroker, topic: str, count: int) -> list[bytes | None]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        values = [message.value for message in read_topic(broker.bootstrap_servers, topic)]
        if len(values) >= count:
            return values
        time.sleep(0.05)
    raise AssertionError(f"{topic} has {len(values)} messages")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_a_signal_ends_produce_and_what_was_read_is_delivered(
    broker: AnyBroker, tmp_path: Path, number: signal.Signals
) -> None:
    """It waits for a pipe that says no more. What lingers is delivered and counted; a line that
    has not ended is none."""
    where = ("--bootstrap-server", broker.bootstrap_servers, "--linger-ms", "700")
    with tallymark(tmp_path, "produce", number.name, *where) as process:
        assert process.stdin is not None
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        wait_for(broker, number.name, 2)  # it has started
        process.stdin.write(b"three\nnot a whole line")
        process.stdin.flush()
        time.sleep(0.3)  # read by now, mostly, and lingering
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    delivered = wait_for(broker, number.name, 2)
    assert delivered == [b"one", b"two", b"three"][: len(delivered)]
    assert f"{len(delivered)} messages delivered to {number.name}\n".encode() in err


def test_consume_prints_until_ctrl_c_and_takes_a_closed_pipe(
    broker: AnyBroker, tmp_path: Path
) -> None:
    topic = new_topic("long")
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for _ in range(5_000):
            producer.send(topic, b"x" * 100)
    where = ("--bootstrap-server", broker.bootstrap_servers, "--from-beginning")
    with tallymark(tmp_path, "consume", topic, *where) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5_000)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert lines == [b"x" * 100 + b"\n"] * 5_000
    assert (process.returncode, err) == (0, b"5000 messages\n")
    with tallymark(tmp_path, "consume", topic, *where) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 0


def test_nobody_there_is_one_line(tmp_path: Path) -> None:
    with tallymark(tmp_path, "consume", "t", "--bootstrap-server", "127.0.0.1:1") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.count(b"\n") == 1
    assert b"127.0.0.1:1" in err


def test_a_group_goes_on_where_it_stands(broker: AnyBroker) -> None:
    topic = new_topic("shared")
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
    where = ("--bootstrap-server", broker.bootstrap_servers, "--group", "g", "--from-beginning")
    first = run_command(consume.command, topic, *where, "--max-messages", "4")
    rest = run_command(
        consume.command, "--pattern", f"{topic[:-1]}[{topic[-1]}]", *where, "--max-messages", "6"
    )
    assert first.stdout.split() == ["0", "1", "2", "3"]
    assert rest.stdout.split() == ["4", "5", "6", "7", "8", "9"]


def test_a_group_in_zookeeper(broker: AnyBroker, tallymark_zookeeper: ZooKeeperServer) -> None:
    topic = new_topic("kept")
    with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
        for number in range(4):
            producer.send(topic, b"%d" % number)
    where = ("--bootstrap-server", broker.bootstrap_servers, "--group", "z", "--from-beginning")
    zookeeper = ("--zookeeper", f"{tallymark_zookeeper.connect}/{topic}", "--max-messages", "2")
    first = run_command(consume.command, topic, *where, *zookeeper)
    rest = run_command(consume.command, topic, *where, *zookeeper)
    assert (first.stdout.split(), rest.stdout.split()) == (["0", "1"], ["2", "3"])


def test_avro_is_decoded_by_the_registry(broker: AnyBroker, tmp_path: Path) -> None:
    topic = new_topic("avro")
    schema = {"type": "record", "name": "E", "fields": [{"name": "page", "type": "string"}]}
    with (
        RegistryServer(f"sqlite:///{tmp_path / 'registry.db'}") as server,
        RegistryClient(server.url) as registry,
    ):
        with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
            producer.send(topic, AvroEncoder(registry, schema)(topic, {"page": "/home"}))
            producer.send(topic, b"not Avro", key=b"\0\0\0\0\1")
            producer.send(topic, None)
        where = ("--bootstrap-server", broker.bootstrap_servers, "--from-beginning", "--until-end")
        decode = ("--registry", server.url)
        lines = run_command(consume.command, topic, *where, *decode).stdout
        objects = run_command(consume.command, topic, *where, *decode, "--json").stdout
    assert lines == '{"page": "/home"}\nnot Avro\nnull\n'
    shown = [json.loads(line) for line in objects.splitlines()]
    assert [one["value"] for one in shown] == [{"page": "/home"}, "not Avro", None]
    assert shown[1]["key"] == "\0\0\0\0\1"
