"""Which broker left the replicas in sync, when, of how many partitions, and why as far as it can be
seen."""

from __future__ import annotations

from uuid import UUID

from tallymark.client import Admin
from tallymark.client.admin.topics import PartitionDescription, TopicDescription
from tallymark.testing import MemoryBroker
from tallymark_dashboards.snapshots.broker_rows import broker_rows
from tallymark_dashboards.snapshots.cluster_counts import counts_of
from tallymark_dashboards.snapshots.replica_book import (
    BACK,
    BEHIND,
    GONE,
    MOST,
    MOVED,
    ReplicaBook,
)
from tallymark_dashboards.snapshots.shapes import (
    BrokerDescription,
    ClusterDescription,
    ClusterState,
    Part,
    PartitionState,
    TopicState,
)
from tallymark_dashboards.snapshots.topics_reading import Minimums

ALL = (1, 2, 3)


def topic(
    name: str, *isrs: tuple[int, ...], least: int | None = None, leader: int = 1
) -> TopicState:
    """Partitions of three replicas with these in sync; none in sync has no leader."""
    parts = tuple(
        PartitionState(number, leader if isr else -1, ALL, isr) for number, isr in enumerate(isrs)
    )
    return TopicState(name, False, parts, min_insync=least)


def topics(*some: TopicState) -> dict[str, TopicState]:
    return {one.name: one for one in some}


def told(book: ReplicaBook) -> list[tuple[int, str, str, int]]:
    return [(one.broker, one.change, one.why, one.count) for one in book.changes]


def test_a_broker_that_goes_and_comes_back_is_two_lines_however_many_partitions_it_has() -> None:
    """A broker with 5,000 partitions would have been 5,000 lines."""
    book = ReplicaBook()
    book.see(topics(topic("orders", *[ALL] * 50, leader=3)), ALL, 1_000)
    assert told(book) == []
    book.see(topics(topic("orders", *[(1, 2)] * 50)), (1, 2), 2_000)
    assert told(book) == [(3, "left", GONE, 50)]
    left = book.changes[0]
    assert (left.at, left.after, left.led) == (2_000, 1_000, 50)
    assert left.named == ("orders-0", "orders-1", "orders-2", "orders-3", "orders-4")
    book.see(topics(topic("orders", *[ALL] * 50)), ALL, 3_000)
    assert told(book) == [(3, "joined", BACK, 50), (3, "left", GONE, 50)]


def test_a_broker_that_is_there_did_not_keep_up() -> None:
    book = ReplicaBook()
    book.see(topics(topic("orders", ALL, ALL)), ALL, 1_000)
    book.see(topics(topic("orders", (1, 3), ALL)), ALL, 2_000)
    assert told(book) == [(2, "left", BEHIND, 1)]


def test_a_broker_that_went_between_two_questions_of_a_look_is_gone() -> None:
    """It was still among the brokers, and its replica was offline already."""
    book = ReplicaBook()
    book.see(topics(topic("orders", ALL)), ALL, 1_000)
    lacking = PartitionState(0, 1, ALL, (1, 3), offline=(2,))
    book.see(topics(TopicState("orders", False, (lacking,))), ALL, 2_000)
    assert told(book) == [(2, "left", GONE, 1)]


def test_a_move_to_other_brokers_is_no_fault() -> None:
    book = ReplicaBook()
    book.see(topics(topic("orders", ALL)), (*ALL, 4), 1_000)
    moved = TopicState("orders", False, (PartitionState(0, 1, (1, 2, 4), (1, 2, 4)),))
    book.see(topics(moved), (*ALL, 4), 2_000)
    assert told(book) == [(3, "left", MOVED, 1), (4, "joined", MOVED, 1)]


def test_topics_that_come_and_go_are_no_changes() -> None:
    book = ReplicaBook()
    book.see(topics(topic("orders", ALL)), ALL, 1_000)
    book.see(topics(topic("orders", ALL, (1,)), topic("new", (1, 2))), ALL, 2_000)
    book.see({}, ALL, 3_000)
    assert book.changes == ()


def test_since_when_a_partition_lacks_a_replica() -> None:
    book = ReplicaBook()
    book.see(topics(topic("orders", ALL, (1,))), ALL, 1_000)
    book.see(topics(topic("orders", (1, 2), (1, 2))), ALL, 2_000)
    assert book.short_since == {("orders", 0): 2_000, ("orders", 1): 1_000}
    book.see(topics(topic("orders", ALL, (1, 2))), ALL, 3_000)
    assert book.short_since == {("orders", 1): 1_000}


def test_so_many_changes_are_kept_and_no_more() -> None:
    book = ReplicaBook()
    for number in range(3 * MOST):
        book.see(topics(topic("orders", ALL if number % 2 else (1, 2))), ALL, 1_000 + number)
    assert len(book.changes) == MOST
    assert book.changes[0].at == 1_000 + 3 * MOST - 1


def state_of(*some: TopicState) -> ClusterState:
    brokers = tuple(BrokerDescription(n, f"b{n}", 9092) for n in (1, 2))
    return ClusterState(
        "dc1", "", Part(ClusterDescription("id", 1, brokers), 1), Part(topics(*some), 1)
    )


def test_fewer_in_sync_than_the_minimum_refuse_acks_all() -> None:
    """With one of three replicas in sync and a minimum of 2 the page said "under-replicated", as if
    producers could go on."""
    counts = counts_of(
        state_of(
            topic("two", (1,), (1, 2), (), ALL, least=2),
            topic("nine", (1, 2), ALL, least=9),  # more than there are replicas: all of them
            topic("unknown", (1,)),
        )
    )
    assert (counts.leaderless, counts.below_min, counts.under_replicated) == (1, 2, 5)
    first = [(one.topic, one.partition, one.leaderless, one.below_min) for one in counts.bad]
    assert first[:3] == [("two", 2, True, False), ("nine", 0, False, True), ("two", 0, False, True)]
    assert not any(below for _, _, _, below in first[3:])


def test_what_each_broker_has_and_leads() -> None:
    """Broker 3 is gone: it still has replicas, and the partition that prefers broker 1 is led
    elsewhere."""
    away = TopicState("a", False, (PartitionState(0, 2, (1, 2, 3), (1, 2)),))
    state = state_of(topic("orders", (1, 2), (1, 2)), away)
    rows = broker_rows(state, counts_of(state))
    found = [
        (one.id, one.lives, one.counts.leads, one.counts.preferred, one.counts.elsewhere)
        for one in rows
    ]
    assert found == [(1, True, 2, 2, 1), (2, True, 1, 0, 0), (3, False, 0, 0, 0)]
    assert [(one.counts.replicas, one.counts.behind) for one in rows] == [(3, 0), (3, 0), (3, 3)]


def test_the_minimum_is_read_of_topics_that_lack_a_replica_only() -> None:
    with (
        MemoryBroker(auto_create_topics_enable=False) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        for name in ("short", "whole"):
            admin.create_topic(name, 1, configs={"min.insync.replicas": "2"})

        def described(name: str, isr: tuple[int, ...]) -> TopicDescription:
            return TopicDescription(
                name, UUID(int=0), False, (PartitionDescription(0, 0, 1, (0, 1), isr),)
            )

        minimums = Minimums()
        minimums.read(
            admin, {"short": described("short", (0,)), "whole": described("whole", (0, 1))}
        )
        assert minimums.known == {"short": 2}
        minimums.read(admin, {"short": described("short", (0, 1)), "gone": described("gone", (0,))})
        assert minimums.known == {}
