"""The mirror between real brokers: nothing is lost, and nothing is there twice but what a kill
leaves undecided."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from tallymark.client.admin import Admin
from tallymark.client.producer import Producer
from tallymark.client.simple_consumer import SimpleConsumer
from tallymark.coordination.zookeeper_server import find_jars, find_java
from tallymark.deployment import BrokerAddress, Cluster, Deployment, ZooKeeperSettings, dump_toml
from tallymark.deployment import Mirror as MirrorSettings
from tallymark.errors import UserError
from tallymark.mirror import Mirror, MirrorContext, MirrorObserver
from tallymark.mirror import mirror as mirror_module
from tallymark.protocol.records import Record, encode_batch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.zookeeper import ZooKeeperServer, expire_session
from tallymark_audit.claims import fold
from tallymark_audit.edges import AUDIT_TOPIC
from tallymark_audit.events import decode_event
from tallymark_audit.mirror_report import MirrorReport

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]
_names = itertools.count()
PER_SECOND = 320


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    try:
        find_java()
        find_jars()
    except UserError as error:
        pytest.skip(str(error))
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


class Rig:
    """Clusters of one broker each, below a chroot of their own, and mirrors into ``target``."""

    def __init__(self, folder: Path, zookeeper: ZooKeeperServer, opened: ExitStack) -> None:
        self.folder = folder
        self.zookeeper = zookeeper
        self._opened = opened
        self._root = f"/rig{next(_names)}"
        self.brokers: dict[str, BrokerThread] = {}

    def start(self, *names: str) -> None:
        """A cluster of each name."""
        for name in names:
            broker = BrokerThread(
                self.folder / name,
                enable_zookeeper=True,
                zookeeper_connect=f"{self.zookeeper.connect}{self._root}/{name}",
                auto_create_topics_enable=False,
            )
            self.brokers[name] = self._opened.enter_context(broker)

    @property
    def deployment(self) -> Deployment:
        clusters = [
            Cluster(
                name=name,
                chroot=f"{self._root}/{name}",
                brokers=(BrokerAddress(port=broker.settings.port),),
            )
            for name, broker in self.brokers.items()
        ]
        sources = [name for name in self.brokers if name != "target"]
        return Deployment(
            data_dir=self.folder,
            zookeeper=ZooKeeperSettings(port=self.zookeeper.port, session_timeout_ms=2000),
            clusters=tuple(clusters),
            mirrors=tuple(MirrorSettings(source=name, target="target") for name in sources),
        )

    def topic(self, cluster: str, name: str, partitions: int = 1) -> None:
        with Admin(bootstrap_servers=self.brokers[cluster].bootstrap_servers) as admin:
            admin.create_topic(name, partitions)

    def delete(self, cluster: str, name: str) -> None:
        with Admin(bootstrap_servers=self.brokers[cluster].bootstrap_servers) as admin:
            admin.delete_topic(name)

    def producer(self, cluster: str) -> Producer:
        servers = self.brokers[cluster].bootstrap_servers
        return self._opened.enter_context(Producer(bootstrap_servers=servers, interceptors=[]))

    def publish(self, cluster: str, topic: str, values: list[bytes]) -> None:
        producer = self.producer(cluster)
        for value in values:
            producer.send(topic, value, partition=0)
        producer.flush(20)

    def read(self, cluster: str, topic: str) -> dict[int, list[Record]]:
        """All records of the topic, by partition."""
        found: dict[int, list[Record]] = {}
        servers = self.brokers[cluster].bootstrap_servers
        with SimpleConsumer(bootstrap_servers=servers) as consumer:
            if topic not in consumer.topics():
                return found
            for partition, end in consumer.end_offsets(topic).items():
                records = found.setdefault(partition, [])
                at = 0
                while at < end:
                    fetched = consumer.fetch(topic, partition, at)
                    records += fetched.records()
                    at = fetched.next_offset
        return found

    def values(self, topic: str) -> list[bytes]:
        """The values of all the target's records, in the order of the partitions."""
        records = self.read("target", topic)
        return [record.value or b"" for part in sorted(records) for record in records[part]]

    def count(self, topic: str) -> int:
        return len(self.values(topic))

    def holds(self, topic: str, count: int) -> bool:
        return self.count(topic) >= count

    def mirror(self, source: str = "source", **settings: Any) -> RunningMirror:
        """A mirror into the target, running."""
        return self._opened.enter_context(RunningMirror(self, source, **settings))


@pytest.fixture
def rig(tmp_path: Path, zookeeper: ZooKeeperServer) -> Iterator[Rig]:
    with ExitStack() as opened:
        yield Rig(tmp_path, zookeeper, opened)


@dataclass
class Seen:
    """An observer that remembers."""

    copied: list[tuple[str, int, int, int]] = field(default_factory=list)
    gaps: list[tuple[str, int, int, int, str]] = field(default_factory=list)
    ticks: int = 0
    closed: bool = False
    context: MirrorContext | None = None

    def attach(self, context: MirrorContext) -> None:
        self.context = context

    def on_copied(self, topic: str, partition: int, first_offset: int, last_offset: int) -> None:
        self.copied.append((topic, partition, first_offset, last_offset))

    def on_gap(
        self, topic: str, partition: int, from_offset: int, to_offset: int, reason: str
    ) -> None:
        self.gaps.append((topic, partition, from_offset, to_offset, reason))

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        self.ticks += 1

    def on_close(self, now_ms: int) -> None:
        self.closed = True


class RunningMirror:
    """A mirror in a thread of the test."""

    def __init__(
        self, rig: Rig, source: str = "source", observers: Sequence[MirrorObserver] = ()
    ) -> None:
        self.seen = Seen()
        self.mirror = Mirror(rig.deployment, source, "target", observers=[self.seen, *observers])
        self.error: Exception | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self.mirror.step()
        except Exception as error:
            self.error = error

    def stop(self) -> None:
        if not self._stopped.is_set():
            self._stopped.set()
            self._thread.join(30)
            self.mirror.close()
            assert self.seen.closed
            assert self.mirror.observer_errors == 0
        if self.error is not None:
            raise self.error

    def __enter__(self) -> RunningMirror:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.05)


def numbers(start: int, end: int, name: str = "") -> list[bytes]:
    return [f"{name}{number}".encode() for number in range(start, end)]


def test_two_sources_arrive_as_they_were(rig: Rig) -> None:
    rig.start("source", "other", "target")
    sent: Counter[tuple[Any, ...]] = Counter()
    for cluster in ("source", "other"):
        rig.topic(cluster, "clicks", 2)
        producer = rig.producer(cluster)
        for number in range(100):
            key = (None, b"", b"k%d" % number)[number % 3]
            value = None if number % 7 == 0 else cluster.encode() + b" %d" % number
            headers = (("a", b"1"), ("a", None), ("b", b"")) if number % 2 else ()
            timestamp = 1_600_000_000_000 - 1000 * number
            producer.send(
                "clicks",
                value,
                key=key,
                partition=number % 2,
                timestamp=timestamp,
                headers=headers,
            )
        producer.flush(10)
    mirrors = [rig.mirror(name) for name in ("source", "other")]
    for cluster in ("source", "other"):
        for partition, records in rig.read(cluster, "clicks").items():
            sent.update((partition, *record[1:]) for record in records)
    assert all(any(name == "tm" for name, _ in row[-1]) for row in sent), "they carry stamps"
    eventually(lambda: rig.count("clicks") >= 200)
    for mirror in mirrors:
        mirror.stop()
        ranges = sorted(mirror.seen.copied)
        assert sum(last - first + 1 for _, _, first, last in ranges) == 100
        assert mirror.seen.gaps == []
    found = Counter(
        (partition, *record[1:])
        for partition, records in rig.read("target", "clicks").items()
        for record in records
    )
    assert found == sent


def test_new_topics_and_more_members_repeat_nothing(rig: Rig) -> None:
    """A rebalance in the middle of the stream: what is in flight is waited for and stored before
    partitions go. A mirror that did not do so copied a second's worth again for every topic that
    appeared."""
    rig.start("source", "target")
    rig.topic("source", "a")
    rig.mirror()
    producer = rig.producer("source")
    sent: dict[str, list[bytes]] = {"a": [], "b": [], "c": []}
    for number in range(1500):
        if number == 500:
            rig.topic("source", "b")
        if number == 700:
            second = rig.mirror()  # of the same group
        if number == 900:
            rig.topic("source", "c")
        if number == 1100:
            second.stop()
        for topic, since in (("a", 0), ("b", 500), ("c", 900)):
            if number >= since:
                producer.send(topic, b"%d" % number, partition=0)
                sent[topic].append(b"%d" % number)
        if number % 10 == 0:
            time.sleep(0.01)
    producer.flush(10)
    for topic, values in sent.items():
        eventually(partial(rig.holds, topic, len(values)))
        assert rig.values(topic) == values


def test_kill_9_loses_nothing(rig: Rig) -> None:
    """The process is killed in the middle and started again: everything is there, and twice only
    what was copied since the offsets were last stored."""
    rig.start("source", "target")
    rig.topic("source", "clicks")
    settings = rig.folder / "tallymark.toml"
    settings.write_text(dump_toml(rig.deployment))
    log = rig.folder / "mirror.log"
    command = [sys.executable, "-m", "tallymark", "mirror", "--settings", str(settings)]
    command += ["--from", "source", "--to", "target"]

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            return subprocess.Popen(command, stdout=file, stderr=file)

    def publish(first: int, count: int) -> None:
        for number in range(first, first + count):
            producer.send("clicks", b"%d" % number, partition=0)
            time.sleep(1 / PER_SECOND)
        producer.flush(10)

    producer = rig.producer("source")
    process = start()
    try:
        eventually(lambda: b"ready source to target" in log.read_bytes())
        publish(0, 800)
        process.kill()
        process.wait()
        assert rig.count("clicks") > 0
        process = start()
        publish(800, 200)
        eventually(lambda: len(set(rig.values("clicks"))) == 1000)
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    found = Counter(rig.values("clicks"))
    assert set(found) == {b"%d" % number for number in range(1000)}
    # Offsets are stored once a second; on a busy machine a little later.
    assert found.total() - 1000 <= 1.5 * PER_SECOND
    assert max(found.values()) <= 2
    assert "Traceback" not in log.read_text()


def test_a_target_that_goes_away_is_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost and nothing is there twice, though a rebalance falls into the time when the
    target does not answer and what is in flight cannot be waited for."""
    monkeypatch.setattr(mirror_module, "DRAIN_SECONDS", 0.5)
    rig.start("source", "target")
    rig.topic("source", "clicks")
    running = rig.mirror()
    rig.publish("source", "clicks", numbers(0, 500))
    eventually(lambda: rig.count("clicks") == 500)
    rig.brokers["target"].kill()
    rig.publish("source", "clicks", numbers(500, 1000))
    time.sleep(0.5)
    rig.topic("source", "more")
    rig.publish("source", "more", numbers(0, 10))
    time.sleep(1.5)
    rig.brokers["target"].start()
    eventually(lambda: rig.count("clicks") >= 1000)
    eventually(lambda: rig.count("more") >= 10)
    running.stop()
    assert rig.values("clicks") == numbers(0, 1000)
    assert rig.values("more") == numbers(0, 10)


def test_a_lost_session_repeats_nothing(rig: Rig) -> None:
    """What the group handed out and had not stored is handed out again; this run knows it."""
    rig.start("source", "target")
    rig.topic("source", "clicks")
    running = rig.mirror()
    for start in range(0, 600, 100):
        rig.publish("source", "clicks", numbers(start, start + 100))
        time.sleep(0.1)
        if start == 300:
            connector = running.mirror._source._connector
            assert connector is not None
            expire_session(connector._zookeeper)
    eventually(lambda: rig.count("clicks") >= 600)
    running.stop()
    assert rig.values("clicks") == numbers(0, 600)


def test_a_source_that_lost_its_tail(rig: Rig) -> None:
    """A power failure takes the unflushed end of a log that was copied already; new messages get
    the same offsets. They are copied, and the cut is told."""
    rig.start("source", "target")
    rig.topic("source", "clicks")
    for value in numbers(0, 10, "old "):
        rig.publish("source", "clicks", [value])
    running = rig.mirror()
    eventually(lambda: rig.count("clicks") == 10)
    source = rig.brokers["source"]
    source.kill()
    (segment,) = (rig.folder / "source" / "broker" / "clicks-0").glob("*.log")
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size // 2 + 5)  # five and a half messages stay
    source.start()
    rig.publish("source", "clicks", numbers(0, 8, "new "))
    eventually(lambda: rig.count("clicks") == 18)
    running.stop()
    assert rig.values("clicks") == numbers(0, 10, "old ") + numbers(0, 8, "new ")
    assert running.seen.gaps == [("clicks", 0, 5, 10, "truncation")]
    covered = {at for _, _, first, last in running.seen.copied for at in range(first, last + 1)}
    assert covered == set(range(13)), running.seen.copied


@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it is down"])
@pytest.mark.parametrize("count", [5, 40], ids=["shorter", "longer"])
def test_a_topic_that_is_made_again_is_copied_from_its_start(
    rig: Rig, running: bool, count: int
) -> None:
    """The offset stored for the old topic lies in the middle of the new one: going on there left
    out the beginning."""
    rig.start("source", "target")
    rig.topic("source", "clicks")
    rig.topic("source", "other")
    rig.publish("source", "clicks", numbers(0, 20, "old "))
    rig.publish("source", "other", numbers(0, 20))
    mirror = rig.mirror()
    eventually(lambda: rig.count("clicks") == 20 and rig.count("other") == 20)
    if not running:
        mirror.stop()
    rig.delete("source", "clicks")
    rig.topic("source", "clicks")
    rig.publish("source", "clicks", numbers(0, count, "new "))
    if not running:
        mirror = rig.mirror()
    eventually(lambda: rig.count("clicks") >= 20 + count)
    rig.publish("source", "other", numbers(20, 30))
    eventually(lambda: rig.count("other") >= 30)
    mirror.stop()
    assert set(rig.values("clicks")) == {*numbers(0, 20, "old "), *numbers(0, count, "new ")}
    assert rig.values("other") == numbers(0, 30)
    reasons = {gap[4] for gap in mirror.seen.gaps if gap[0] == "clicks"}
    assert reasons == {"recreated"} or (running and not reasons)


def test_holes_in_the_source_are_told_with_their_reasons(rig: Rig) -> None:
    """A log as transactions and compaction leave it; and the audit hears of it."""
    rig.start("source", "target")
    rig.topic("source", "clicks")
    source = rig.brokers["source"]
    source.kill()
    pairs = [(b"k", b"x", (), 1_600_000_000_000)]
    batches = [
        encode_batch(pairs * 3),  # 0 to 2
        control_batch(3),
        encode_batch(pairs * 2, base_offset=4),
        # 6 to 9: a whole batch is gone
        encode_batch(pairs, base_offset=10),
    ]
    (segment,) = (rig.folder / "source" / "broker" / "clicks-0").glob("*.log")
    segment.write_bytes(b"".join(batches))
    source.start()
    report = MirrorReport()
    running = rig.mirror(observers=[report])
    eventually(lambda: rig.count("clicks") == 6)
    rig.publish("source", "clicks", [b"more"])
    eventually(lambda: rig.count("clicks") == 7)
    running.stop()
    expected = [("clicks", 0, 3, 4, "control"), ("clicks", 0, 6, 10, "unknown")]
    assert running.seen.gaps == expected
    events = [decode_event(value) for value in rig.values(AUDIT_TOPIC)]
    told = [gap for event in events for gap in event.gaps]
    assert [(g.topic, g.partition, g.first_offset, g.last_offset + 1, g.reason) for g in told] == (
        expected
    )
    (reporter,) = fold(events).reporters.values()
    assert (reporter.reporter, reporter.closed) == ("mirror-source-to-target", True)
    assert report.waiting == 0


def control_batch(offset: int) -> bytes:
    """A transaction marker: its record's key is a version and a type, both 16 bits."""
    data = bytearray(encode_batch([(bytes(4), bytes(6), (), 1)], base_offset=offset))
    data[22] |= 0x30  # the low byte of the attributes: transactional, control
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def test_a_partition_that_the_target_lacks_is_named(rig: Rig) -> None:
    rig.start("source", "target")
    rig.topic("source", "clicks", 2)
    rig.topic("target", "clicks", 1)
    rig.producer("source").send("clicks", b"x", partition=1).result(10)
    running = RunningMirror(rig)
    with pytest.raises(UserError, match=r"clicks-1 cannot be copied.*as many partitions"), running:
        eventually(lambda: running.error is not None)
    assert running.seen.closed
