"""Commands on Apache Kafka. ``topics``, ``groups`` and ``offsets`` have tests on both kinds of
broker: tests/client/admin/test_commands.py, tests/cli/admin/test_group_commands.py."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from broker_kinds import new_topic
from commands import elsewhere as elsewhere
from commands import run_command
from confluent_kafka import Producer as Confluent

from tallymark.cli.admin import cluster, log_dirs
from tallymark.cli.messages import consume, export, import_file, perf, produce, replay
from tallymark.client import Admin, Producer, SimpleConsumer
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.processes.apache_kafka import ApacheKafkaServer
from tallymark.protocol.records.compression import CODECS

pytestmark = [pytest.mark.apache_kafka, pytest.mark.process]

SECONDS = 20.0
FORMATS = pytest.mark.parametrize("name", ["t.jsonl", "t.avro"])


@pytest.fixture
def run(apache_kafka: ApacheKafkaServer) -> Callable[..., str]:
    """Runs a command there; what it prints to standard output."""

    def run(command: click.Command, *words: str, code: int = 0) -> str:
        where = ("--bootstrap-server", apache_kafka.bootstrap_servers)
        return run_command(command, *words, *where, code=code).stdout

    return run


@pytest.fixture
def topic(apache_kafka: ApacheKafkaServer) -> str:
    """One of two partitions."""
    name = new_topic("commands")
    with Admin(bootstrap_servers=apache_kafka.bootstrap_servers) as admin:
        admin.create_topic(name, 2)
    return name


@pytest.fixture
def transactional(apache_kafka: ApacheKafkaServer, topic: str) -> Iterator[str]:
    """A topic with 20 committed messages, 20 aborted ones, and one of a transaction that has not
    ended, in each of two partitions."""
    producer = Confluent(
        {"bootstrap.servers": apache_kafka.bootstrap_servers, "transactional.id": topic}
    )
    producer.init_transactions(SECONDS)
    for number in range(5):
        producer.begin_transaction()
        for each in range(20):
            kind = "kept" if number % 2 else "gone"
            producer.produce(topic, f"{kind}-{number}-{each}", partition=each % 2)
        producer.flush(SECONDS)
        end = producer.commit_transaction if number % 2 else producer.abort_transaction
        end(SECONDS)
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce(topic, "open", partition=partition)
    producer.flush(SECONDS)
    yield topic
    producer.abort_transaction(SECONDS)


def fill(servers: str, topic: str, count: int = 100) -> None:
    with Producer(bootstrap_servers=servers, audit=False, stamp=True, server="there") as sender:
        for number in range(count):
            sender.send(
                topic,
                bytes([number, 255]) if number % 5 else None,
                key=b"k%d" % number if number % 3 else None,
                partition=number % 2,
                timestamp=1_790_000_000_000 + number,
                headers=[("h", b"\xff"), ("none", None)] if number % 7 else (),
            )


def contents(servers: str, topic: str) -> list[Any]:
    """Everything but offsets, of each partition."""
    found: list[Any] = []
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        for partition, end in sorted(consumer.end_offsets(topic).items()):
            at = 0
            while at < end:
                fetched = consumer.fetch(topic, partition, at)
                found += [
                    (partition, r.key, r.value, list(r.headers), r.timestamp)
                    for r in fetched.records()
                ]
                at = fetched.next_offset
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_lines_come_back(run: Callable[..., str], topic: str, codec: str) -> None:
    Path("lines").write_text("".join(f"k{n}:value {n}\n" for n in range(100)))
    options = ("--input", "lines", "--key-separator", ":", "--header", "from=here", "--json")
    told = json.loads(run(produce.command, topic, *options, "--compression", codec))
    assert (told["sent"], told["acknowledged"], told["failed"]) == (100, 100, 0)
    lines = run(consume.command, topic, "--until-end", "--from-beginning", "--json").splitlines()
    found = {one["key"]: one for one in map(json.loads, lines)}
    assert {key: one["value"] for key, one in found.items()} == {
        f"k{n}": f"value {n}" for n in range(100)
    }
    assert dict(found["k7"]["headers"]) == {"from": "here"}
    assert {one["stamp"]["server"] for one in found.values()} == {socket.gethostname()}
    last = run(consume.command, topic, "--offset", "-1", "--until-end", "--partitions", "1")
    assert len(last.splitlines()) == 1


@FORMATS
def test_there_and_back(
    run: Callable[..., str], apache_kafka: ApacheKafkaServer, topic: str, name: str
) -> None:
    servers, copy = apache_kafka.bootstrap_servers, new_topic("copy")
    fill(servers, topic)
    assert json.loads(run(export.command, topic, name, "--json"))["records"] == 100
    told = json.loads(run(import_file.command, name, copy, "--json"))
    assert told == {"topic": copy, "records": 100, "partitions": {"0": 50, "1": 50}}
    assert contents(servers, copy) == contents(servers, topic)


@FORMATS
def test_only_what_was_committed(run: Callable[..., str], transactional: str, name: str) -> None:
    """The end of what is there is behind markers, aborted messages and a transaction that is open:
    the commands end all the same, with what was committed."""
    committed = ("--isolation", "read_committed")
    reading = (transactional, "--until-end", "--from-beginning")
    kept = sorted(f"kept-{number}-{each}" for number in (1, 3) for each in range(20))
    assert sorted(run(consume.command, *reading, *committed).split()) == kept
    assert len(run(consume.command, *reading).split()) == 102
    told = json.loads(run(export.command, transactional, name, *committed, "--json"))
    assert told["records"] == 40
    copy = new_topic("copy")
    run(import_file.command, name, copy)
    assert sorted(run(consume.command, copy, "--until-end", "--from-beginning").split()) == kept
    figures = json.loads(run(perf.command, "consume", transactional, *committed, "--json"))
    assert figures["records"] == 40


def test_figures(run: Callable[..., str], topic: str) -> None:
    size = ("--num-records", "5000", "--record-size", "200", "--compression", "lz4")
    sent = json.loads(run(perf.command, "produce", topic, *size, "--json"))
    assert sent["records"] == 5000
    assert 0 < sent["latency_ms"]["p50"] <= sent["latency_ms"]["max"]
    read = json.loads(run(perf.command, "consume", topic, "--json"))
    assert read["records"] == 5000


def test_a_replay(run: Callable[..., str], apache_kafka: ApacheKafkaServer, topic: str) -> None:
    servers, copy = apache_kafka.bootstrap_servers, new_topic("replayed")
    fill(servers, topic)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(copy, 2)
    run(replay.command, topic, copy, "--speed", "0", "--keep-timestamps", "--keep-partitions")
    there, back = contents(servers, topic), contents(servers, copy)
    assert [one[:3] for one in back] == [one[:3] for one in there]
    assert [one[4] for one in back] == [one[4] for one in there]
    stamps = [[stamp_of(one[3]) for one in some] for some in (there, back)]
    writers = [{one.instance for one in some if isinstance(one, Stamp)} for some in stamps]
    assert [len(one) for one in writers] == [1, 1]
    assert writers[0] != writers[1]


def test_the_cluster_and_its_disks(
    run: Callable[..., str], apache_kafka: ApacheKafkaServer, topic: str
) -> None:
    fill(apache_kafka.bootstrap_servers, topic)
    (broker,) = json.loads(run(cluster.command, "--json"))
    assert broker["address"] == apache_kafka.bootstrap_servers
    served = json.loads(run(cluster.command, "--api-versions", "--json"))
    assert "INIT_PRODUCER_ID" in {one["api"] for one in served}
    rows = json.loads(run(log_dirs.command, "--topic", topic, "--partitions", "--json"))
    assert sorted((one["partition"], one["bytes"] > 0) for one in rows) == [(0, True), (1, True)]
