"""A mirror between real brokers: names, partitions, directions, offsets, and what it tells."""

from __future__ import annotations

import json
import re
import signal
import threading
import urllib.request
from collections import Counter
from functools import partial

import pytest
from commands import run_command
from eventually import eventually
from mirror_rig import Rig, numbers, rig, zookeeper

from tallymark.cli.servers.mirror import command
from tallymark.client.admin.admin import Admin
from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.core.partition_layout import Layout
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.deployment import Mirror as MirrorSettings
from tallymark.mirror import OffsetTranslator, refused
from tallymark.mirror.copying.copier import Copier
from tallymark.mirror.copying.topics import TargetTopics
from tallymark.mirror.mirrors import Mirrors
from tallymark.mirror.monitoring.metrics import MirrorMetrics
from tallymark.mirror.offsets import checkpoints
from tallymark.mirror.target import batch_sender as sender_module
from tallymark.mirror.target.loop_guard import TOPIC as PRODUCERS
from tallymark.protocol.murmur2 import partition_of

__all__ = ["rig", "zookeeper"]
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


def raw(rig: Rig, cluster: str, topic: str) -> list[tuple[str, int, bytes]]:
    """(codec, records, bytes of the records) of each batch."""
    with SimpleConsumer(bootstrap_servers=rig.brokers[cluster].bootstrap_servers) as consumer:
        found = consumer.fetch(topic, 0, 0, max_bytes=10_000_000)
        return [(b.header.codec, b.header.record_count, bytes(b.data[61:])) for b in found.batches]


@pytest.mark.soak_cases("gzip", "snappy", "lz4")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_arrive_as_compressed_as_they_were(rig: Rig, codec: str) -> None:
    rig.start("source", "target")
    rig.topic("source", "clicks")
    values = [b"%d " % n * 20 for n in range(600)]
    rig.publish("source", "clicks", values, compression_type=codec, batch_size=8192, linger_ms=200)
    mirror = rig.mirror()
    eventually(lambda: rig.count("clicks") == 600)
    mirror.stop()
    assert mirror.mirror.state.whole > 0
    sent, arrived = raw(rig, "source", "clicks"), raw(rig, "target", "clicks")
    assert {codec} == {batch[0] for batch in sent}
    whole = [batch for batch in sent if batch[1] > 24]
    assert whole
    assert set(whole) <= set(arrived)
    assert rig.values("clicks") == values


def test_both_directions_do_not_go_round_in_circles(rig: Rig) -> None:
    """The same topic, written to on both sides: each side has everything once, also after a mirror
    was started again, and under new producer ids."""
    rig.start("source", "target")
    rig.mirrors = (
        MirrorSettings(source="source", target="target"),
        MirrorSettings(source="target", target="source"),
    )
    for cluster in ("source", "target"):
        rig.topic(cluster, "clicks")
        rig.publish(cluster, "clicks", numbers(0, 200, cluster))
    there, back = rig.mirror("source", "target"), rig.mirror("target", "source")
    both = numbers(0, 200, "source") + numbers(0, 200, "target")
    for cluster in ("source", "target"):
        eventually(lambda name=cluster: len(rig.values("clicks", name)) >= 400)
    there.stop()
    there = rig.mirror("source", "target")
    rig.publish("source", "clicks", numbers(200, 300, "source"))
    rig.publish("target", "clicks", numbers(200, 300, "target"))
    both += numbers(200, 300, "source") + numbers(200, 300, "target")
    for cluster in ("source", "target"):
        eventually(lambda name=cluster: len(rig.values("clicks", name)) >= 600)
    eventually(lambda: back.mirror.state.returned == 300)
    for cluster in ("source", "target"):
        assert Counter(rig.values("clicks", cluster)) == Counter(both)
        own = [value for value in rig.values("clicks", cluster) if value.startswith(b"source")]
        assert own == numbers(0, 300, "source"), "in order"
    assert len(rig.values(PRODUCERS)) >= 2
    for mirror, cluster in ((there, "source"), (back, "target")):
        mirror.stop()
        ends = {("clicks", p): len(some) for p, some in rig.read(cluster, "clicks").items()}
        assert mirror.seen.passed == ends, "what came back is passed by, and so is done"


def test_a_ring_of_three_stops_where_it_began(rig: Rig) -> None:
    rig.start("source", "target", "third")
    ring = (("source", "target"), ("target", "third"), ("third", "source"))
    rig.mirrors = tuple(MirrorSettings(source=one, target=other) for one, other in ring)
    for name in ("source", "target", "third"):
        rig.topic(name, "clicks")
        rig.publish(name, "clicks", numbers(0, 50, name))
    running = [rig.mirror(one, other) for one, other in ring]
    expected = Counter(v for name in rig.brokers for v in numbers(0, 50, name))
    for name in rig.brokers:
        eventually(lambda at=name: len(rig.values("clicks", at)) >= 150)
    eventually(lambda: [one.mirror.state.returned for one in running] == [50, 50, 50])
    for name in rig.brokers:
        assert Counter(rig.values("clicks", name)) == expected, name


def test_topics_are_chosen_and_renamed(rig: Rig) -> None:
    rig.start("source", "target")
    rig.mirrors = (
        MirrorSettings(
            source="source",
            target="target",
            topics="c.*|old_.*",
            exclude="cold",
            rename="{source}.{topic}",
            renames={"old_(.*)": r"new.\1"},
        ),
    )
    for name in ("clicks", "cold", "old_views", "other"):
        rig.topic("source", name)
        rig.publish("source", name, [name.encode()])
    mirror = rig.mirror()
    eventually(lambda: rig.count("source.clicks") == 1 and rig.count("new.views") == 1)
    mirror.stop()
    with Admin(bootstrap_servers=rig.brokers["target"].bootstrap_servers) as admin:
        assert {name for name in admin.topics() if not name.startswith("_")} == {
            "source.clicks",
            "new.views",
        }


def test_the_key_decides_where_the_target_has_fewer_partitions(rig: Rig) -> None:
    rig.start("source", "target")
    rig.topic("source", "clicks", 4)
    rig.topic("target", "clicks", 3)
    producer = rig.producer("source", linger_ms=20)
    for number in range(900):
        producer.send("clicks", b"%d" % number, key=b"k%d" % (number % 40))
    producer.flush(60)
    mirror = rig.mirror()
    eventually(lambda: rig.count("clicks") == 900)
    mirror.stop()
    per_key: dict[bytes, list[int]] = {}
    for partition, records in rig.read("target", "clicks").items():
        for record in records:
            assert record.key is not None
            assert partition_of(record.key, 3) == partition
            per_key.setdefault(record.key, []).append(int(record.value or b""))
    assert len(per_key) == 40
    assert all(values == sorted(values) for values in per_key.values())


def test_a_topic_that_grows_grows_at_the_target_too(rig: Rig) -> None:
    rig.start("source", "target")
    rig.topic("source", "clicks")
    mirror = rig.mirror()
    rig.publish("source", "clicks", [b"a"])
    eventually(lambda: rig.count("clicks") == 1)
    with Admin(bootstrap_servers=rig.brokers["source"].bootstrap_servers) as admin:
        admin.create_partitions({"clicks": 3}).check()
    rig.publish("source", "clicks", [b"b"], partition=2)
    eventually(lambda: rig.count("clicks") == 2)
    mirror.stop()
    assert [r.value for r in rig.read("target", "clicks")[2]] == [b"b"]


def test_batches_that_the_target_finds_too_large_are_divided(rig: Rig) -> None:
    """In order, and with what was under way behind them."""
    rig.start("source", "target")
    rig.topic("source", "clicks")
    rig.topic("target", "clicks", configs={"max.message.bytes": "3000"})
    values = [b"%04d" % n + bytes(100) for n in range(600)]
    rig.publish("source", "clicks", values, batch_size=16384, linger_ms=100)
    mirror = rig.mirror()
    eventually(lambda: rig.count("clicks") >= 600)
    mirror.stop()
    assert rig.values("clicks") == values


def test_one_message_that_is_too_large_is_named(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is left out: its offset is not stored, and its partition waits. The mirror ended
    there, and whoever may write to one topic could keep all others from being copied."""
    monkeypatch.setattr(refused, "FIRST_SECONDS", 0.5)
    caplog.set_level("INFO", "mirror")
    rig.start("source", "target")
    rig.topic("source", "clicks")
    rig.topic("source", "views")
    rig.topic("target", "clicks", configs={"max.message.bytes": "3000"})
    rig.publish("source", "clicks", [b"a", b"b", bytes(5000), b"c", b"d"])
    running = rig.mirror()
    eventually(lambda: running.mirror.state.stopped)
    rig.publish("source", "views", [b"1"])
    eventually(lambda: rig.values("views") == [b"1"])
    eventually(lambda: running.mirror.state.stopped[0].offset == 2)
    running.stop()
    named = r"clicks-0 cannot be copied from offset \d on: the target refuses it: .*TOO_LARGE"
    assert re.search(named, caplog.text)
    running = rig.mirror()  # the next start neither
    eventually(lambda: [one.offset for one in running.mirror.state.stopped] == [2])
    rig.publish("source", "views", [b"2"])
    eventually(lambda: rig.values("views") == [b"1", b"2"])
    found = rig.values("clicks")
    assert {b"c", b"d"}.isdisjoint(found)
    with Admin(bootstrap_servers=rig.brokers["target"].bootstrap_servers) as admin:
        admin.alter_configs({("topic", "clicks"): {"max.message.bytes": "9000"}}).check()
    eventually(lambda: not running.mirror.state.stopped)
    running.stop()
    assert rig.values("clicks") == [*found, bytes(5000), b"c", b"d"]
    assert "the target takes clicks-0 again" in caplog.text


def test_a_topic_that_vanishes_from_the_target(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is waited for, within bounds; the next attempt makes it again and goes on."""
    monkeypatch.setattr(sender_module, "PATIENCE", 1.0)
    monkeypatch.setattr(refused, "FIRST_SECONDS", 0.5)
    rig.start("source", "target")
    rig.topic("source", "clicks")
    rig.publish("source", "clicks", [b"a"])
    rig.mirror()
    eventually(lambda: rig.count("clicks") == 1)
    rig.delete("target", "clicks")
    rig.publish("source", "clicks", [b"b"])
    eventually(lambda: rig.values("clicks") == [b"b"])
    named = r"clicks-0 cannot be copied from offset 1 on: the target refuses it: .*UNKNOWN_TOPIC"
    assert re.search(named, caplog.text)


def test_offsets_are_translated_and_carried_over(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer of the source goes on at the target and misses nothing; with two sources into one
    topic, where offsets differ from batch to batch."""
    monkeypatch.setattr(checkpoints, "INTERVAL_SECONDS", 0.3)
    rig.start("source", "other", "target")
    rig.mirrors = tuple(
        MirrorSettings(source=name, target="target", checkpoint_groups="g.*")
        for name in ("source", "other")
    )
    for name in ("source", "other"):
        rig.topic(name, "clicks")
    mirrors = [rig.mirror(name) for name in ("source", "other")]
    for first in range(0, 300, 100):
        for name in ("source", "other"):
            rig.publish(name, "clicks", numbers(first, first + 100, name))
        eventually(lambda end=first + 100: rig.count("clicks") == 2 * end)
    source, target = (f"{rig.zookeeper.connect}{c.root}" for c in rig.deployment.clusters[::2])
    with ConsumerConnector(zookeeper_connect=source, group="g1", enable_auto_commit=False) as one:
        streams = one.create_message_streams({"clicks": 1})["clicks"]
        taken = [next(streams[0]).value for _ in range(150)]
        one.commit_offsets({("clicks", 0): 150})
    assert taken == numbers(0, 150, "source")
    with Admin(bootstrap_servers=rig.brokers["source"].bootstrap_servers) as admin:
        admin.alter_group_offsets("g2", {("clicks", 0): 250}).check()

    def position(offset: int) -> int | None:
        with OffsetTranslator(rig.deployment, "source", "target") as translator:
            return translator.translate("clicks", 0, offset).offset

    eventually(lambda: position(300) is not None)
    values = rig.values("clicks")
    for offset in (0, 99, 150, 250, 300):
        found = position(offset) or 0
        assert set(values[found:]) >= set(numbers(offset, 300, "source")), offset

    def carried() -> dict[tuple[str, int], int]:
        with Admin(bootstrap_servers=rig.brokers["target"].bootstrap_servers) as admin:
            return {at: one.offset for at, one in admin.group_offsets("g2").done.items()}

    eventually(lambda: ("clicks", 0) in carried())
    assert set(values[carried()["clicks", 0] :]) >= set(numbers(250, 300, "source"))
    with ConsumerConnector(zookeeper_connect=target, group="g1") as one:
        (stream,) = one.create_message_streams({"clicks": 1})["clicks"]
        rest = {message.value for message in stream.poll(10, 10_000)}
        assert rest >= set(numbers(150, 300, "source")) - set(values[: position(150) or 0])
    for mirror in mirrors:
        mirror.stop()
    words = ["--settings", str(rig.settings()), "--from", "source", "--to", "target"]
    ended = run_command(command, "translate", *words, "--group", "g1", "--json")
    (row,) = json.loads(ended.output)
    assert row["source_offset"] == 150
    assert row["target_offset"] == position(150)
    assert row["kept"] == "zookeeper"


def test_many_sources_in_one_process_with_metrics_and_status(rig: Rig) -> None:
    rig.start("source", "other", "target")
    for name in ("source", "other"):
        rig.topic(name, "clicks")
        rig.publish(name, "clicks", numbers(0, 100, name))
    stopped = threading.Event()
    with Mirrors(rig.deployment, rig.deployment.mirrors) as mirrors:
        metrics = MirrorMetrics(mirrors.states, "127.0.0.1", 0)
        thread = threading.Thread(target=mirrors.run, args=(stopped,))
        thread.start()
        try:
            eventually(lambda: rig.count("clicks") == 200)
            eventually(
                lambda: [(one.copied, one.lag) for one in mirrors.states()] == [(100, 0)] * 2
            )
            with urllib.request.urlopen(f"http://{metrics.address}/metrics", timeout=10) as page:
                text = page.read().decode()
        finally:
            stopped.set()
            thread.join(20)
            metrics.close()
    for name in ("source", "other"):
        labels = f'mirror="{name}-to-target"'
        assert f"tallymark_mirror_records_copied_total{{{labels}}} 100.0" in text
        lag = f'tallymark_mirror_lag_records{{{labels},partition="0",topic="clicks"}} 0.0'
        other = f'tallymark_mirror_lag_records{{{labels},topic="clicks",partition="0"}} 0.0'
        assert lag in text or other in text
    rig.publish("source", "clicks", numbers(100, 130))
    words = ["--settings", str(rig.settings()), "--to", "target", "--status", "--json"]
    ended = run_command(command, *words)
    rows = {row["mirror"]: row for row in json.loads(ended.output)}
    assert rows["source-to-target"]["copied"] == 100
    assert rows["source-to-target"]["lag"] == 30
    assert rows["source-to-target"]["lag_ms"] >= 0
    assert rows["other-to-target"]["lag"] == 0


def test_the_command_serves_metrics_and_ends_in_order(rig: Rig) -> None:
    rig.start("source", "target")
    rig.topic("source", "clicks")
    log = rig.folder / "mirror.log"
    process = rig.process(log, "--to", "target", "--metrics-port", "0")
    try:
        eventually(lambda: b"ready source to target" in log.read_bytes())
        address = re.search(r"metrics on (\S+)", log.read_text())
        assert address is not None
        rig.publish("source", "clicks", [b"a"])
        eventually(partial(rig.holds, "clicks", 1))
        with urllib.request.urlopen(address[1], timeout=10) as page:
            assert b"tallymark_mirror_batches_in_flight" in page.read()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text()


def test_a_rebalance_does_not_wait_for_all_topics_that_were_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group rebalances at each new topic. Before it gave partitions up it created all topics
    at the target that were read and not copied yet: of a thousand, minutes."""
    rig.start("source", "target")
    for number in range(6):
        rig.topic("source", f"t{number}")
        rig.publish("source", f"t{number}", [b"1"])
    created: list[str] = []
    at_release: list[list[str]] = []
    made: list[str] = []
    layout, drain = TargetTopics.layout, Copier.drain

    def while_another_is_made(topics: TargetTopics, topic: str, partition: int) -> Layout:
        if topic not in created:
            created.append(topic)
        if not made:
            made.append("new")
            rig.topic("source", "new")
            eventually(mirror.mirror._releasing.is_set)
        return layout(topics, topic, partition)

    def noted(copier: Copier, seconds: float) -> bool:
        at_release.append(list(created))
        return drain(copier, seconds)

    monkeypatch.setattr(TargetTopics, "layout", while_another_is_made)
    monkeypatch.setattr(Copier, "drain", noted)
    rig.publish("source", "t0", [b"2"])
    mirror = rig.mirror()
    eventually(lambda: rig.count("t0") == 2 and all(rig.count(f"t{one}") for one in range(1, 6)))
    mirror.stop()
    assert next(topics for topics in at_release if topics) == created[:1]
    assert rig.values("t0") == [b"1", b"2"]
