"""The mirror between real brokers: nothing is lost, and nothing is there twice but what a kill
leaves undecided."""

from __future__ import annotations

import signal
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest
from connector_cluster import session_of
from crc32c import crc32c
from eventually import eventually
from mirror_rig import Rig, numbers, rig, zookeeper

from tallymark.deployment import Mirror as MirrorSettings
from tallymark.mirror import mirror as mirror_module
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.zookeeper import expire_session
from tallymark_audit.events.claim_book import fold
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.reporters.mirror.mirror_report import MirrorReport

__all__ = ["rig", "zookeeper"]
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


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
        producer.flush(60)
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
    producer.flush(60)
    for topic, values in sent.items():
        eventually(partial(rig.holds, topic, len(values)))
        assert rig.values(topic) == values


def test_kill_9_loses_nothing(rig: Rig) -> None:
    """The process is killed in the middle of a backlog and started again: everything is there, and
    twice only what it had sent and not stored."""
    rig.start("source", "target")
    rig.mirrors = (MirrorSettings(source="source", target="target", max_repeated_records=50),)
    rig.topic("source", "clicks")
    log = rig.folder / "mirror.log"
    rig.publish("source", "clicks", numbers(0, 3000), batch_size=1024)
    process = rig.fork(log, "--from", "source", "--to", "target")
    try:
        eventually(lambda: rig.count("clicks") > 100)
        process.kill()
        process.wait()
        process = rig.fork(log, "--from", "source", "--to", "target")
        eventually(lambda: len(set(rig.values("clicks"))) == 3000)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    found = Counter(rig.values("clicks"))
    assert set(found) == set(numbers(0, 3000))
    assert found.total() - 3000 <= 50
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
            expire_session(session_of(connector))
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


@pytest.mark.soak_cases("longer")
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
