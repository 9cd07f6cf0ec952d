"""Copies of messages in a drill: which have a cause, and how one without explains itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.protocol.records.batch import BatchHeader
from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.planning.plan import make_drill_plan
from tallymark_audit.proof.drill.planning.topology import CONSUMER_HOP, TOPIC, build
from tallymark_audit.proof.drill.scoring.causes import Causes, causes_of, told, uncaused
from tallymark_audit.proof.drill.truth.books_and_logs import Log, Seen, SenderRun
from tallymark_audit.proof.drill.truth.copies import Copies, header_reader
from tallymark_audit.proof.drill.truth.expected import DUPLICATION, LOSS, Cell, Finding

SERVER, INSTANCE = "web-1", "ab" * 8
MIRROR, PRODUCED = "dc1-to-aggregate", "producer-to-dc1"


def copy(edge: str, topic: str, number: int = 7, kind: str = DUPLICATION) -> Finding:
    return Finding(Cell(edge, topic, 2_000, 0, SERVER, INSTANCE), kind, number, 1)


def causes(*faults: str, proxied: str = "", mirror: str = "") -> Causes:
    return Causes(frozenset({proxied} - {""}), frozenset({mirror} - {""}), frozenset(faults))


def test_a_mirror_that_was_killed_explains_copies_in_every_topic_that_it_copies() -> None:
    """Seed 5 of three brokers: 84 copies of topic transactions in the aggregate, each written once
    by the mirror's first producer id and once by the second. An earlier drill had left 61 such
    copies unexplained."""
    items = [copy(MIRROR, kinds.TRANSACTIONS), copy(MIRROR, TOPIC)]
    assert uncaused(items, causes("kill-mirror", mirror=MIRROR)) == []
    assert uncaused(items, causes("kill-mirror", mirror="dc2-to-aggregate")) == sorted(items)


@pytest.mark.parametrize("edge", [MIRROR, PRODUCED])
def test_no_death_of_a_broker_explains_copies_of_an_idempotent_producer(edge: str) -> None:
    every = (kinds.KILL_LEADER, *kinds.FAILOVER_FAULTS, kinds.TRANSACTIONS, kinds.LOST_ACK)
    item = copy(edge, kinds.TRANSACTIONS)
    assert uncaused([item], causes(*every, proxied=edge)) == [item]
    main = copy(edge, TOPIC)
    assert uncaused([main], causes(*every)) == [main]
    assert uncaused([main], causes(*every, proxied=edge)) == [], "the proxy takes the ids away"


@pytest.mark.parametrize(
    ("edge", "topic", "explained"),
    [
        (PRODUCED, kinds.LOST_IN_FAILOVER, True),
        (MIRROR, kinds.LOST_IN_FAILOVER, False),
        (PRODUCED, kinds.UNCLEAN_ELECTION, False),
        (MIRROR, kinds.UNCLEAN_ELECTION, True),
        (MIRROR, kinds.RECREATE_TOPIC, True),
        (PRODUCED, kinds.RESTAMPED_AT_REST, True),
        (CONSUMER_HOP, TOPIC, False),
    ],
)
def test_a_topic_with_a_fault_of_its_own_has_copies_only_where_the_fault_makes_them(
    edge: str, topic: str, *, explained: bool
) -> None:
    found = uncaused([copy(edge, topic)], causes(*kinds.FAILOVER_FAULTS))
    assert (found == []) is explained


def test_a_killed_member_explains_what_its_group_processed_twice() -> None:
    item = copy(CONSUMER_HOP, TOPIC)
    assert uncaused([item], causes(kinds.KILL_CONSUMER)) == []
    assert uncaused([item], causes(kinds.KILL_LEADER)) == [item]


def test_what_is_no_copy_needs_no_cause() -> None:
    assert uncaused([copy(MIRROR, kinds.TRANSACTIONS, kind=LOSS)], causes()) == []


def test_the_causes_are_those_of_the_plan(tmp_path: Path) -> None:
    plan = make_drill_plan(5, 24, ["kill-mirror", "drop"], brokers=3)
    topology = build(tmp_path / "drill", plan.orders, brokers=3)
    try:
        found = causes_of(plan, topology.hops)
    finally:
        topology.release()
    (killed,) = [one.name for one in plan.actions]
    assert found == Causes(
        frozenset(plan.orders), frozenset({killed.removeprefix("mirror-")}), frozenset(plan.faults)
    )


def header(base_offset: int, epoch: int, producer: int, sequence: int) -> BatchHeader:
    return BatchHeader(
        base_offset=base_offset, batch_length=100, partition_leader_epoch=epoch, magic=2, crc=0,
        attributes=0, last_offset_delta=9, base_timestamp=0, max_timestamp=0, producer_id=producer,
        producer_epoch=0, base_sequence=sequence, record_count=10,
    )  # fmt: skip


def test_a_copy_without_a_cause_names_both_batches() -> None:
    origin = SenderRun(kinds.TRANSACTIONS, 0, SERVER, INSTANCE)
    log: Log = {origin: {7: [Seen(0, 17, 100, 3), Seen(0, 34, 100, 3)]}}
    headers = {17: header(10, 2, 2, 100), 34: header(30, 3, -1, -1)}
    asked: list[tuple[str, str, int, int]] = []

    def header_at(cluster: str, topic: str, partition: int, offset: int) -> BatchHeader | None:
        asked.append((cluster, topic, partition, offset))
        return headers[offset]

    item = copy(MIRROR, kinds.TRANSACTIONS)
    (line,) = told([item], Copies({"aggregate": log}, header_at).describe, 5)
    assert asked == [
        ("aggregate", kinds.TRANSACTIONS, 0, 17),
        ("aggregate", kinds.TRANSACTIONS, 0, 34),
    ]
    assert line == (
        "copied without a cause: DUPLICATION dc1-to-aggregate transactions-0 of web-1 "
        f"(instance {INSTANCE}) sequence 7: offset 17 of aggregate's transactions-0 (leader epoch "
        "2, producer 2 epoch 0 sequence 107, batch 10 to 19); offset 34 of aggregate's "
        "transactions-0 (leader epoch 3, producer -1 epoch 0 sequence -1, batch 30 to 39)"
    )


def test_what_a_group_was_given_lies_in_the_cluster_that_it_reads() -> None:
    origin = SenderRun(TOPIC, 0, SERVER, INSTANCE)
    given: Log = {origin: {7: [Seen(1, 17, 100, 3)] * 2}}
    copies = Copies({"group:billing": given}, lambda *_: None)
    line = copies.describe(copy(CONSUMER_HOP, TOPIC))
    assert line.count("offset 17 of aggregate's orders-1 (its batch cannot be read)") == 2
    nowhere = copies.describe(copy(CONSUMER_HOP, TOPIC, number=8, kind=LOSS))
    assert nowhere.endswith("sequence 8: not in the log")


def test_of_many_copies_some_are_told_and_the_rest_are_counted() -> None:
    items = [copy(MIRROR, kinds.TRANSACTIONS, number) for number in range(1_005)]
    lines = told(items, lambda item: str(item.number), 2)
    assert lines == [
        "copied without a cause: 0",
        "copied without a cause: 1",
        "copied without a cause: 1,003 more",
    ]


def test_a_cluster_that_does_not_answer_leaves_a_batch_unread() -> None:
    read = header_reader(lambda _: "127.0.0.1:1")
    assert read("aggregate", TOPIC, 0, 3) is None
