"""``audited()`` around the real clients, against our broker and Apache Kafka: they place records
where the client would have, and every record is claimed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from broker_kinds import KINDS, OURS
from kafka import serializer
from kafka.partitioner.abc import Partitioner

from tallymark.client import SimpleConsumer
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.client.reading.message import Message
from tallymark.errors import UserError
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit import audited
from tallymark_audit.events.claim_book import ClaimBook, fold
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.reporters.adapters.partitioners import PARTITIONERS, PartitionChooser

pytestmark = pytest.mark.process

PARTITIONS = 5
COUNT = 400


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerThread(
        tmp_path_factory.mktemp("data"),
        num_partitions=PARTITIONS,
        group_initial_rebalance_delay_ms=0,
    ) as running:
        yield running.bootstrap_servers


@pytest.fixture(params=KINDS)
def servers(request: pytest.FixtureRequest) -> str:
    if request.param == OURS:
        return str(request.getfixturevalue("ours"))
    return str(request.getfixturevalue("apache_kafka").bootstrap_servers)


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def log(servers: str, topic: str) -> list[Message]:
    """All there is."""
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        found: list[Message] = []
        for partition, end in consumer.end_offsets(topic).items():
            offset = 0
            while offset < end:
                fetched = consumer.fetch(topic, partition, offset)
                found += list(fetched)
                offset = fetched.next_offset
        return found


def book(servers: str) -> ClaimBook:
    return fold(decode_event(one.value or b"") for one in log(servers, AUDIT_TOPIC))


def check(servers: str, topic: str, count: int, server: str = "web") -> None:
    """The claims are the records of the log, each once."""
    seen: dict[tuple[str, int], set[int]] = defaultdict(set)
    messages = log(servers, topic)
    for message in messages:
        stamp = stamp_of(message.headers)
        assert isinstance(stamp, Stamp)
        assert (stamp.partition, stamp.server) == (message.partition, server)
        seen[stamp.instance.hex(), message.partition].add(stamp.sequence)
    claimed: dict[tuple[str, int], set[int]] = defaultdict(set)
    for key, claim in book(servers).claims().items():
        if key.topic == topic:
            assert not claim.in_doubt
            for first, last in claim.acknowledged:
                claimed[key.instance, key.partition] |= set(range(first, last + 1))
    assert claimed == seen
    assert len(messages) == count


def options(tmp_path: Path) -> dict[str, Any]:
    return {"window_ms": 1000, "server": "web", "journal_dir": tmp_path / "journal"}


@pytest.mark.parametrize("tells_config", [True, False])
def test_confluent(servers: str, topic: str, tmp_path: Path, tells_config: bool) -> None:
    config = {"bootstrap.servers": servers, "linger.ms": 1}
    inner = confluent_kafka.Producer(config)
    producer = audited(inner, config if tells_config else None, **options(tmp_path))
    told: Counter[Any] = Counter()
    for number in range(COUNT):
        key = b"k%d" % number if number % 2 else None
        tell = (lambda error, _: told.update([error])) if number % 4 == 0 else None
        producer.produce(topic, b"v", key, on_delivery=tell)
        producer.poll(0)
    assert producer.flush(30) == 0
    assert told == {None: COUNT // 4}
    producer.close()
    check(servers, topic, COUNT)
    assert list((tmp_path / "journal").iterdir()) == []


def test_kafka_python(servers: str, topic: str, tmp_path: Path) -> None:
    producer = audited(kafka.KafkaProducer(bootstrap_servers=servers), **options(tmp_path))
    futures = [
        producer.send(topic, b"v", key=b"k%d" % number if number % 2 else None)
        for number in range(COUNT)
    ]
    producer.flush(30)
    assert all(future.succeeded() for future in futures)
    producer.close(30)
    check(servers, topic, COUNT)


def test_kafka_python_with_serializers_and_a_partitioner(
    ours: str, topic: str, tmp_path: Path
) -> None:
    """Reports of a producer with serializers were never published: the second producer, which they
    need, was made with what the first one keeps in its configuration besides its settings."""

    def serialize(self: Any, topic: str, headers: Any, data: Any) -> bytes:
        return str(data).encode()

    def partition(
        self: Any, topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, cluster: Any
    ) -> int:
        assert (key_bytes, value_bytes) == (str(key).encode(), str(value).encode())
        return int(max(cluster.partitions_for_topic(topic)))

    Text: Any = type("Text", (serializer.Serializer,), {"serialize": serialize})
    Last: Any = type("Last", (Partitioner,), {"partition": partition})
    own: Any = {"key_serializer": Text(), "value_serializer": Text(), "partitioner": Last()}
    inner = kafka.KafkaProducer(bootstrap_servers=ours, **own)
    with audited(inner, **options(tmp_path)) as producer:
        for number in range(20):
            producer.send(topic, number, key=number)
    check(ours, topic, 20)
    assert {message.partition for message in log(ours, topic)} == {PARTITIONS - 1}


@pytest.mark.parametrize("name", sorted(PARTITIONERS))
def test_librdkafka_puts_keys_where_we_say(ours: str, topic: str, name: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": ours, "partitioner": name})
    keys: list[str | bytes] = [
        b"",
        *(f"key-{number * 7919}" * (number % 5 + 1) for number in range(60)),
    ]
    for key in keys:
        producer.produce(topic, key, key)
    producer.produce(topic, b"none", None)
    assert producer.flush(30) == 0
    where = {message.value: message.partition for message in log(ours, topic)}
    chooser = PartitionChooser(range(PARTITIONS), PARTITIONERS[name])
    how = PARTITIONERS[name]
    if how.hash is not None:
        for key in keys[how.sticky_empty :]:
            data = key.encode() if isinstance(key, str) else key
            assert where[data] == chooser.choose(key, 0), key
        if not how.sticky_null:
            assert where[b"none"] == chooser.choose(None, 0)


def test_killed_with_a_journal(ours: str, topic: str, tmp_path: Path) -> None:
    """What the application was told is safe is claimed, though it was killed at that moment."""
    journal = tmp_path / "journal"
    code = f"""
import confluent_kafka, os, signal
from tallymark_audit import audited
config = {{"bootstrap.servers": {ours!r}}}
producer = audited(confluent_kafka.Producer(config), config, window_ms=1000, server="web",
                   journal_dir={str(journal)!r})
told = 0
def tell(error, message):
    global told
    told += error is None
    if told == 10:
        print("told", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
for number in range(10):
    producer.produce({topic!r}, b"v", partition=0, on_delivery=tell)
while True:
    producer.poll(1)
"""
    died = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert b"told" in died.stdout
    producer = audited(confluent_kafka.Producer({"bootstrap.servers": ours}), **options(tmp_path))
    producer.produce(f"{topic}-other", b"v")
    producer.flush(30)
    deadline = time.monotonic() + 30
    while len(list(journal.iterdir())) > 1 and time.monotonic() < deadline:
        producer.poll(0.1)
    producer.close()
    check(ours, topic, 10)


def test_a_process_that_forgets_to_close(ours: str, topic: str, tmp_path: Path) -> None:
    code = f"""
import confluent_kafka
from tallymark_audit import audited
config = {{"bootstrap.servers": {ours!r}}}
producer = audited(confluent_kafka.Producer(config), window_ms=1000, server="web",
                   journal_dir={str(tmp_path)!r})
for number in range(10):
    producer.produce({topic!r}, b"v")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    check(ours, topic, 10)


def test_a_forked_child_counts_nothing(ours: str, topic: str, tmp_path: Path) -> None:
    """In a child the threads of neither client are there: the parent's books must stay whole."""
    code = f"""
import confluent_kafka, os
from tallymark_audit import audited
config = {{"bootstrap.servers": {ours!r}}}
producer = audited(confluent_kafka.Producer(config), config, window_ms=1000, server="web",
                   journal_dir={str(tmp_path)!r})
producer.produce({topic!r}, b"before")
child = os.fork()
if child == 0:
    producer.produce({topic!r}, b"child")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
producer.produce({topic!r}, b"after")
producer.close()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)
    check(ours, topic, 2)


def test_many_threads(ours: str, topic: str, tmp_path: Path) -> None:
    config = {"bootstrap.servers": ours}
    producer = audited(confluent_kafka.Producer(config), config, **options(tmp_path))

    def work() -> None:
        for number in range(200):
            producer.produce(topic, b"v", f"k{number}")
            producer.poll(0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.close()
    check(ours, topic, 800)


def test_what_cannot_be_audited_is_refused() -> None:
    config: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    quiet = confluent_kafka.Producer({**config, "on_delivery": print})
    with pytest.raises(UserError, match="callbacks"):
        audited(quiet)
    with pytest.raises(UserError, match="nobody hears"):
        audited(quiet, {**config, "delivery.report.only.error": True})
    with pytest.raises(UserError, match="not known here"):
        audited(object())
    with pytest.raises(UserError, match="window_ms"):
        audited(quiet, config, window_ms=7)
    with pytest.raises(UserError, match="255"):
        audited(quiet, config, server="x" * (1 << 20))
    assert os.getpid()


@pytest.mark.apache_kafka
def test_transactions(request: pytest.FixtureRequest, topic: str, tmp_path: Path) -> None:
    """Reports of a transactional producer go through another one: its own would be aborted too."""
    servers = str(request.getfixturevalue("apache_kafka").bootstrap_servers)
    config = {"bootstrap.servers": servers, "transactional.id": topic}
    producer = audited(confluent_kafka.Producer(config), config, **options(tmp_path))
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(topic, b"v", partition=0)
    producer.commit_transaction(60)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(topic, b"v", partition=0)
    producer.flush(30)
    producer.abort_transaction(60)
    producer.close()
    claims = [claim for key, claim in book(servers).claims().items() if key.topic == topic]
    acknowledged = {n for claim in claims for a, b in claim.acknowledged for n in range(a, b + 1)}
    aborted = {n for claim in claims for a, b in claim.aborted for n in range(a, b + 1)}
    assert (acknowledged, aborted) == (set(range(5)), set(range(5, 10)))
