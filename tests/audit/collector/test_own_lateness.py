"""What the collector is late itself is no lateness of the records that it reads."""

from __future__ import annotations

from pathlib import Path

from tallymark_audit.collector.collector import Collector, CollectorSettings
from tallymark_audit.model import sketches
from tallymark_audit.store import open_store
from tallymark_audit.store.counted.facts import lateness_of
from tallymark_audit.testing import MemoryCluster, stamped


def test_a_flood_of_another_topic_does_not_make_a_healthy_one_settle_longer(tmp_path: Path) -> None:
    """Another topic's flood kept the collector for some seconds. What it then read of a healthy
    topic counted as so much late, and that topic's windows were left to settle as long, for a
    week."""
    now = 1_000_000
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as store:
        cluster = MemoryCluster()
        settings = CollectorSettings("dc1", 1000, max_wait_ms=0)
        collector = Collector(store, cluster, settings, "x", lambda: now)
        cluster.log().append(stamped(0, 1, timestamp=now))
        collector.start()
        for pause, late in ((1_000, 100), (4_000, 3_900), (1_000, 200), (6_000, 0)):
            collector.step()
            collector.step()
            now += pause
            cluster.log().append(stamped(now, 1, timestamp=now - late))
        collector.step()
        with store.read() as connection:
            seen = lateness_of(connection, "dc1", "t", 0)
    assert sum(seen.values()) == 2
    assert max(map(sketches.value_of, seen)) < 300
