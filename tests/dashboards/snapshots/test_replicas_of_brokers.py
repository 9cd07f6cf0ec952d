"""What is seen of three real brokers while one after the other goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers_in_memory import BrokersInMemory
from eventually import eventually

from tallymark.clock import now_ms
from tallymark.deployment import BrokerAddress, Cluster
from tallymark.net.addresses import parse_address
from tallymark_dashboards.snapshots.broker_rows import broker_rows
from tallymark_dashboards.snapshots.cluster_counts import ClusterCounts, counts_of
from tallymark_dashboards.snapshots.cluster_watch import ClusterWatch
from tallymark_dashboards.snapshots.replica_book import GONE

pytestmark = pytest.mark.process


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokersInMemory]:
    with BrokersInMemory(tmp_path, replica_lag_time_max_ms=1500) as brokers:
        yield brokers


def test_brokers_that_go_are_seen_with_what_they_led_and_what_refuses_acks_all(
    cluster: BrokersInMemory,
) -> None:
    """Metadata says who is in sync; the rest is what two looks differ by."""
    cluster.create("views", min_insync_replicas=2)
    addresses = [parse_address(one.bootstrap_servers) for one in cluster.brokers.values()]
    brokers = tuple(
        BrokerAddress(id=number, host=one.host, port=one.port)
        for number, one in enumerate(addresses)
    )
    watch = ClusterWatch(Cluster(name="dc1", brokers=brokers), "", now_ms, lambda: None)

    def counts() -> ClusterCounts:
        assert watch.look(10_000)
        return counts_of(watch.state)

    try:
        eventually(lambda: counts().under_replicated == 0)
        leader = cluster.leader("views")
        cluster.brokers[leader].kill()
        eventually(lambda: cluster.state("views").leader not in (leader, -1))
        eventually(lambda: counts().under_replicated == 1)
        (bad,) = counts().bad
        assert (bad.below_min, bad.leaderless, bad.min_insync) == (False, False, 2)
        assert bad.out_of_sync == (leader,)
        assert bad.since > 0
        (left,) = [one for one in watch.state.isr_changes if one.change == "left"]
        assert (left.broker, left.why, left.led, left.named) == (leader, GONE, 1, ("views-0",))
        follower = next(
            one for one in cluster.brokers if one not in (leader, cluster.leader("views"))
        )
        cluster.brokers[follower].kill()
        eventually(lambda: counts().below_min == 1)
        lives = {one.id: one.lives for one in broker_rows(watch.state, counts())}
        assert lives[cluster.leader("views")] is True
        assert lives[leader] is False
        cluster.brokers[leader].start()
        cluster.brokers[follower].start()
        eventually(lambda: counts().under_replicated == 0)
        assert {one.change for one in watch.state.isr_changes} == {"left", "joined"}
        assert watch.state.short_since == {}
    finally:
        watch.close()
