"""Clusters that are damaged, slow, or changed behind the mirror's back."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest
from crc32c import crc32c
from eventually import eventually
from mirror_rig import Rig, numbers, rig, zookeeper

from tallymark.client.admin.admin import Admin
from tallymark.deployment import Mirror as MirrorSettings
from tallymark.mirror.monitoring import metrics
from tallymark.mirror.monitoring.status import mirror_status
from tallymark.protocol.records.batch import iterate_batches
from tallymark.testing.flaky_proxy import FlakyProxy

__all__ = ["rig", "zookeeper"]
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


def damage_the_second_batch(rig: Rig) -> None:
    """Of ``clicks``, which gets three of ten messages each."""
    rig.start("source", "target")
    rig.topic("source", "clicks")
    rig.topic("source", "views")
    for first in range(0, 30, 10):
        rig.publish("source", "clicks", numbers(first, first + 10), linger_ms=60_000)
    rig.publish("source", "views", numbers(0, 5))
    (segment,) = (rig.folder / "source" / "broker" / "clicks-0").glob("*.log")
    turn_a_bit(segment, segment.stat().st_size // 2)


def turn_a_bit(path: Path, at: int) -> None:
    """While its broker runs: disks do."""
    with path.open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def test_a_damaged_batch_stops_its_partition_and_is_named(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk turned a bit in one batch: the mirror ended, with every other topic. What stands
    before it is copied, what comes after it waits where the settings say so, the others go on; and
    this one when the log is mended, without a restart."""
    damage_the_second_batch(rig)
    rig.mirrors = (MirrorSettings(source="source", target="target", on_corrupt="stop"),)
    running = rig.mirror()
    eventually(lambda: running.mirror.state.stopped != ())
    eventually(lambda: rig.count("views") == 5)
    rig.publish("source", "views", numbers(5, 10))
    eventually(lambda: rig.count("views") == 10)
    assert running.error is None
    assert rig.values("clicks") == numbers(0, 10)
    (stopped,) = running.mirror.state.stopped
    assert stopped[:3] == ("clicks", 0, 10)
    assert "CRC" in stopped.why
    assert caplog.text.count("clicks-0 cannot be copied from offset 10 on: ") == 1
    assert running.seen.gaps == [("clicks", 0, 10, 11, "damaged")]
    families = {one.name: one for one in metrics.families([running.mirror.state])}
    (sample,) = families["tallymark_mirror_partition_damaged"].samples
    assert (sample.labels["topic"], sample.labels["partition"], sample.value) == ("clicks", "0", 1)
    eventually(
        lambda: (
            {one.topic: one.copied for one in mirror_status(rig.deployment, "source", "target")}
            == {"clicks": 10, "views": 10}
        )
    )
    found = {one.topic: one for one in mirror_status(rig.deployment, "source", "target")}
    assert found["clicks"].lag_ms is None
    assert "clicks-0 cannot be copied from offset 10 on" in found["clicks"].trouble
    assert found["views"].trouble == ""
    (segment,) = (rig.folder / "source" / "broker" / "clicks-0").glob("*.log")
    turn_a_bit(segment, segment.stat().st_size // 2)
    eventually(lambda: rig.count("clicks") == 30)
    eventually(lambda: running.mirror.state.stopped == ())
    running.stop()
    assert rig.values("clicks") == numbers(0, 30)


@pytest.mark.parametrize("on_corrupt", ["skip", "stop"])
def test_a_batch_that_does_not_decode_holds_up_nothing(
    rig: Rig, on_corrupt: Literal["skip", "stop"]
) -> None:
    """Somebody's producer sent garbage under a right CRC, which the broker does not open; the
    mirror has to, since the key decides the partition. Its partition stood still until a restart
    or a rebalance, though nobody could ever mend that."""
    damage_the_second_batch(rig)
    mirror = MirrorSettings(
        source="source", target="target", partitions="by-key", on_corrupt=on_corrupt
    )
    rig.mirrors = (mirror,)
    (segment,) = (rig.folder / "source" / "broker" / "clicks-0").glob("*.log")
    turn_a_bit(segment, segment.stat().st_size // 2)  # mended
    data = bytearray(segment.read_bytes())
    first, second, _ = iterate_batches(bytes(data))
    at, size = first.header.size, second.header.size
    data[at + 61 : at + size] = b"\xff" * (size - 61)
    data[at + 17 : at + 21] = crc32c(bytes(data[at + 21 : at + size])).to_bytes(4, "big")
    with segment.open("r+b") as file:
        file.write(data)
    running = rig.mirror()
    eventually(lambda: rig.count("clicks") == 20)
    eventually(lambda: rig.count("views") == 5)
    running.stop()
    assert sorted(rig.values("clicks")) == sorted(numbers(0, 10) + numbers(20, 30))
    assert running.seen.gaps == [("clicks", 0, 10, 20, "corrupt")]
    found = {one.topic: one for one in mirror_status(rig.deployment, "source", "target")}
    assert (found["clicks"].copied, found["views"].copied) == (30, 5)


def test_a_damaged_batch_at_the_end_is_told_of(rig: Rig) -> None:
    """Nothing came behind it: nobody was told, and the mirror was behind for ever."""
    damage_the_second_batch(rig)
    (segment,) = (rig.folder / "source" / "broker" / "clicks-0").glob("*.log")
    turn_a_bit(segment, segment.stat().st_size // 2)
    turn_a_bit(segment, segment.stat().st_size - 3)
    running = rig.mirror()
    eventually(lambda: running.seen.gaps == [("clicks", 0, 20, 30, "corrupt")])
    eventually(lambda: rig.count("clicks") == 20)
    running.stop()
    found = {one.topic: one for one in mirror_status(rig.deployment, "source", "target")}
    assert (found["clicks"].copied, found["clicks"].lag) == (30, 0)


def test_a_damaged_batch_is_left_out(rig: Rig) -> None:
    """One flipped bit, and nothing behind it was copied until somebody had mended the log."""
    damage_the_second_batch(rig)
    running = rig.mirror()
    eventually(lambda: rig.count("clicks") == 20)
    eventually(lambda: rig.count("views") == 5)
    running.stop()
    assert rig.values("clicks") == numbers(0, 10) + numbers(20, 30)
    assert running.seen.gaps == [("clicks", 0, 10, 20, "corrupt")]
    assert running.mirror.state.gaps == {"corrupt": 1}


def test_what_was_deleted_before_the_mirror_began_is_a_gap(rig: Rig) -> None:
    """Retention took records before the mirror had them. It had no stored offset, began where the
    log does, and never said a word: nobody could tell these records from lost ones, and repair
    promised to copy them. Of views all is gone."""
    rig.start("source", "target")
    for topic in ("clicks", "views", "orders"):
        rig.topic("source", topic)
        rig.publish("source", topic, numbers(0, 30))
    with Admin(bootstrap_servers=rig.brokers["source"].bootstrap_servers) as admin:
        admin.delete_records({("clicks", 0): 20, ("views", 0): 30})
    running = rig.mirror()
    eventually(lambda: (rig.count("clicks"), rig.count("orders")) == (10, 30))
    gaps = [("clicks", 0, 0, 20, "retention"), ("views", 0, 0, 30, "retention")]
    eventually(lambda: sorted(running.seen.gaps) == gaps)
    running.stop()
    assert sorted(rig.values("clicks")) == sorted(numbers(20, 30))
    again = rig.mirror()
    rig.publish("source", "views", numbers(30, 40))
    eventually(lambda: rig.count("views") == 10)
    again.stop()
    assert again.seen.gaps == [], "told once: an offset is stored by now"


def test_both_clusters_are_slow_and_lose_connections(rig: Rig) -> None:
    """Every answer takes its time, and connections break while batches are under way: nothing is
    lost, nothing is there twice."""
    with ExitStack() as opened:
        proxies: list[FlakyProxy] = []
        for name in ("source", "target"):
            proxy = opened.enter_context(FlakyProxy())
            port = int(proxy.address.split(":")[1])
            rig.start(name, advertised_host_name="127.0.0.1", advertised_port=port)
            proxy.target = rig.brokers[name].bootstrap_servers
            proxies.append(proxy)
        rig.topic("source", "clicks", 2)
        for proxy in proxies:
            proxy.delay(0.05)
        running = rig.mirror()
        for start in range(0, 600, 100):
            rig.publish("source", "clicks", numbers(start, start + 100), start // 100 % 2)
            for proxy in proxies:
                proxy.cut()
        eventually(lambda: rig.count("clicks") >= 600)
        for proxy in proxies:
            proxy.heal()
        running.stop()
        assert sorted(rig.values("clicks")) == sorted(numbers(0, 600))
        assert {int(v) // 100 % 2 for v in rig.values("clicks")[:300]} == {0}


def test_a_target_that_is_away_is_named(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Also when no more may be sent because a kill would repeat it: then nobody said a word."""
    rig.start("source", "target")
    rig.mirrors = (MirrorSettings(source="source", target="target", max_repeated_records=50),)
    rig.topic("source", "clicks")
    running = rig.mirror()
    rig.publish("source", "clicks", numbers(0, 100))
    eventually(lambda: rig.count("clicks") == 100)
    rig.brokers["target"].kill()
    rig.publish("source", "clicks", numbers(100, 400), batch_size=512)
    text = "cannot copy, trying on: the target does not take what is sent: "
    eventually(lambda: text in caplog.text)
    rig.brokers["target"].start()
    eventually(lambda: rig.count("clicks") >= 400)
    running.stop()
    assert rig.values("clicks") == numbers(0, 400)


def test_a_topic_that_is_made_again_at_the_target(rig: Rig) -> None:
    """What was there is gone with it; what comes is copied, whatever numbers the new partition has
    not heard of."""
    rig.start("source", "target")
    rig.topic("source", "clicks")
    rig.publish("source", "clicks", numbers(0, 100))
    running = rig.mirror()
    eventually(lambda: rig.count("clicks") == 100)
    rig.delete("target", "clicks")
    rig.topic("target", "clicks")
    rig.publish("source", "clicks", numbers(100, 200))
    eventually(lambda: rig.count("clicks") >= 100)
    running.stop()
    assert rig.values("clicks") == numbers(100, 200)


def test_a_topic_that_vanishes_from_the_source(rig: Rig) -> None:
    """The copy stays, the others go on."""
    rig.start("source", "target")
    for topic in ("clicks", "views"):
        rig.topic("source", topic)
        rig.publish("source", topic, numbers(0, 10))
    running = rig.mirror()
    eventually(lambda: rig.count("clicks") == rig.count("views") == 10)
    rig.delete("source", "clicks")
    rig.publish("source", "views", numbers(10, 20))
    eventually(lambda: rig.count("views") == 20)
    running.stop()
    assert rig.values("clicks") == numbers(0, 10)


def test_more_partitions_at_the_target_stay_empty(rig: Rig) -> None:
    rig.start("source", "target")
    rig.topic("source", "clicks", 2)
    rig.topic("target", "clicks", 4)
    for partition in range(2):
        rig.publish("source", "clicks", numbers(0, 40, f"{partition} "), partition, linger_ms=100)
    running = rig.mirror()
    eventually(lambda: rig.count("clicks") == 80)
    running.stop()
    found = {at: [one.value for one in some] for at, some in rig.read("target", "clicks").items()}
    assert found == {0: numbers(0, 40, "0 "), 1: numbers(0, 40, "1 "), 2: [], 3: []}
    with Admin(bootstrap_servers=rig.brokers["target"].bootstrap_servers) as admin:
        assert admin.topics()["clicks"].partition_count == 4
