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

from tallymark.client import Admin, SimpleConsumer
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.client.reading.message import Message
from tallymark.errors import UserError
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.zookeeper import free_port
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


ONLY_ERRORS = {"delivery.report.only.error": True}


def ends(servers: str, topic: str) -> dict[str, set[tuple[int, int]]]:
    """The (partition, number) under each end."""
    found: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for key, claim in book(servers).claims().items():
        for name in ("accepted", "acknowledged", "failed", "in_doubt"):
            for first, last in getattr(claim, name) if key.topic == topic else ():
                found[name] |= {(key.partition, n) for n in range(first, last + 1)}
    return found


@pytest.mark.parametrize("idempotent", [True, False])
def test_confluent_that_reports_only_errors(
    servers: str, topic: str, tmp_path: Path, idempotent: bool
) -> None:
    """No callback is called for what is delivered, and each delivery is claimed nevertheless."""
    config = {"bootstrap.servers": servers, "enable.idempotence": idempotent, **ONLY_ERRORS}
    producer = audited(confluent_kafka.Producer(config), config, **options(tmp_path))
    told: Counter[Any] = Counter()
    for number in range(10 * COUNT):
        key = b"k%d" % number if number % 2 else None
        tell = (lambda error, _: told.update([error])) if number % 4 == 0 else None
        producer.produce(topic, b"v", key, on_delivery=tell)
        producer.poll(0)
    assert producer.flush(30) == 0
    assert not told
    producer.close()
    check(servers, topic, 10 * COUNT)


@pytest.mark.parametrize("only_errors", [True, False])
def test_confluent_with_a_full_queue(
    ours: str, topic: str, tmp_path: Path, only_errors: bool
) -> None:
    config = {
        "bootstrap.servers": ours,
        "queue.buffering.max.messages": 50,
        "delivery.report.only.error": only_errors,
    }
    producer = audited(confluent_kafka.Producer(config), config, **options(tmp_path))
    refused = 0
    for number in range(COUNT):
        while True:
            try:
                producer.produce(topic, b"%d" % number, partition=number % 2)
                break
            except BufferError:
                refused += 1
                producer.poll(0.01)
    producer.close()
    assert refused
    check(ours, topic, COUNT)


@pytest.mark.parametrize("only_errors", [True, False])
def test_confluent_with_records_that_fail(
    ours: str, topic: str, tmp_path: Path, only_errors: bool
) -> None:
    """Records that are purged before they were sent, that are too large for the topic, and all that
    was delivered before and after them: each ends as librdkafka says."""
    with Admin(bootstrap_servers=ours) as admin:
        admin.create_topic(topic, 2, {"max.message.bytes": "2000"})
    config = {
        "bootstrap.servers": ours,
        "linger.ms": 60_000,
        "delivery.report.only.error": only_errors,
    }
    producer = audited(confluent_kafka.Producer(config), config, **options(tmp_path))
    errors: Counter[int] = Counter()

    def tell(error: Any, message: Any) -> None:
        errors[error.code() if error else 0] += 1

    for number in range(10):
        size = 5000 if number % 5 == 0 else 50
        producer.produce(topic, b"v" * size, partition=0, on_delivery=tell)
        assert producer.flush(30) == 0
    for _ in range(30):
        producer.produce(topic, b"v", partition=1, on_delivery=tell)
    producer.purge(in_flight=False)
    assert producer.flush(30) == 0
    producer.produce(topic, b"v", partition=0, on_delivery=tell)
    producer.close()
    found = ends(ours, topic)
    stamps = [stamp_of(message.headers) for message in log(ours, topic)]
    logged = {(s.partition, s.sequence) for s in stamps if isinstance(s, Stamp)}
    too_large = {(0, number) for number in range(0, 10, 5)}
    assert errors[confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE] == 2
    purged = errors[confluent_kafka.KafkaError._PURGE_QUEUE]
    assert purged
    assert found["acknowledged"] == logged
    assert too_large <= found["failed"]
    assert len(found["failed"]) == 2 + purged
    assert found["accepted"] == found["acknowledged"] | found["failed"] | found["in_doubt"]
    assert len(found["accepted"]) == 41


@pytest.mark.parametrize("only_errors", [True, False])
def test_confluent_with_records_that_time_out(
    topic: str, tmp_path: Path, only_errors: bool
) -> None:
    """The broker goes away: what it took is claimed, what timed out is in doubt, also where a
    later record of the partition arrives when the broker is back."""
    port = free_port()
    config = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "message.timeout.ms": 6000,
        "log_level": 0,
        "reconnect.backoff.max.ms": 200,
        "delivery.report.only.error": only_errors,
    }
    settings: Any = {"port": port, "num_partitions": 1, "group_initial_rebalance_delay_ms": 0}
    with BrokerThread(tmp_path / "data", **settings):
        producer = audited(confluent_kafka.Producer(config), config, **options(tmp_path))
        for _ in range(200):
            producer.produce(topic, b"v", partition=0)
        assert producer.flush(30) == 0
    for _ in range(10):
        producer.produce(topic, b"lost", partition=0)
    assert producer.flush(30) == 0
    with BrokerThread(tmp_path / "data", **settings) as running:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            producer.produce(topic, b"v", partition=0)
            producer.flush(30)
            if len(log(running.bootstrap_servers, topic)) > 200:
                break
        producer.close()
        found = ends(running.bootstrap_servers, topic)
        stamps = [stamp_of(message.headers) for message in log(running.bootstrap_servers, topic)]
    logged = {(s.partition, s.sequence) for s in stamps if isinstance(s, Stamp)}
    assert found["acknowledged"] == logged
    assert {(0, number) for number in range(200)} <= logged
    assert {(0, number) for number in range(200, 210)} <= found["in_doubt"] | found["failed"]
    assert found["accepted"] == found["acknowledged"] | found["failed"] | found["in_doubt"]


def test_confluent_by_lists(ours: str, topic: str, tmp_path: Path) -> None:
    config = {"bootstrap.servers": ours}
    producer = audited(confluent_kafka.Producer(config), config, **options(tmp_path))
    for _ in range(4):
        assert producer.produce_batch(topic, [{"value": b"v"}] * 100) == 100
    producer.close()
    check(ours, topic, 400)


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


def publish_what_was_left(ours: str, topic: str, tmp_path: Path) -> None:
    """The next producer on the host publishes the journal of the one that was killed."""
    journal = tmp_path / "journal"
    producer = audited(confluent_kafka.Producer({"bootstrap.servers": ours}), **options(tmp_path))
    producer.produce(f"{topic}-other", b"v")
    producer.flush(30)
    deadline = time.monotonic() + 30
    while len(list(journal.iterdir())) > 1 and time.monotonic() < deadline:
        producer.poll(0.1)
    producer.close()


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
    publish_what_was_left(ours, topic, tmp_path)
    check(ours, topic, 10)


def test_killed_after_a_flush_with_only_errors(ours: str, topic: str, tmp_path: Path) -> None:
    """The application hears of deliveries by ``flush()`` alone: what was flushed is claimed."""
    journal = tmp_path / "journal"
    code = f"""
import confluent_kafka, os, signal
from tallymark_audit import audited
config = {{"bootstrap.servers": {ours!r}, "delivery.report.only.error": True}}
producer = audited(confluent_kafka.Producer(config), config, window_ms=1000, server="web",
                   journal_dir={str(journal)!r})
for number in range(300):
    producer.produce({topic!r}, b"v", partition=0)
assert producer.flush(30) == 0
os.kill(os.getpid(), signal.SIGKILL)
"""
    died = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    publish_what_was_left(ours, topic, tmp_path)
    check(ours, topic, 300)


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
    with pytest.raises(UserError, match="not known here"):
        audited(object())
    with pytest.raises(UserError, match="window_ms"):
        audited(quiet, config, window_ms=7)
    with pytest.raises(UserError, match="255"):
        audited(quiet, config, server="x" * (1 << 20))
    assert os.getpid()


@pytest.mark.apache_kafka
@pytest.mark.parametrize("only_errors", [True, False])
def test_transactions(
    request: pytest.FixtureRequest, topic: str, tmp_path: Path, only_errors: bool
) -> None:
    """Reports of a transactional producer go through another one: its own would be aborted too."""
    servers = str(request.getfixturevalue("apache_kafka").bootstrap_servers)
    config = {
        "bootstrap.servers": servers,
        "transactional.id": topic,
        "delivery.report.only.error": only_errors,
    }
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
