"""Transactions of a cluster in the snapshots: read from a broker, and what follows for groups."""

from __future__ import annotations

import pytest
from hung import open_transaction

from tallymark.client import Admin, Producer
from tallymark.client.admin.groups import GroupDescription
from tallymark.client.admin.transactions.describing import TransactionListing
from tallymark.client.admin.transactions.hanging import KnownTransaction
from tallymark.deployment import BrokerAddress, Cluster
from tallymark.net.addresses import parse_address
from tallymark.testing import MemoryBroker
from tallymark_dashboards.snapshots.cluster_watch import ClusterWatch
from tallymark_dashboards.snapshots.group_book import Ends, GroupBook, Seen
from tallymark_dashboards.snapshots.transactions_reading import SHOWN, transactions_of

T0, T1 = ("t", 0), ("t", 1)


def test_a_look_finds_what_is_open_and_how_much_waits_behind_it() -> None:
    with MemoryBroker(transaction_state_log_num_partitions=1) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic("t")
            open_transaction(broker, "t", "copier", b"a", b"b")
            with Producer(bootstrap_servers=servers, audit=False) as producer:
                producer.send("t", b"behind")
            admin.alter_group_offsets("committed-reader", {T0: 0})
        place = parse_address(servers)
        cluster = Cluster(name="dc1", brokers=(BrokerAddress(host=place.host, port=place.port),))
        watch = ClusterWatch(cluster, "", lambda: 1_000_000, lambda: None)
        try:
            assert watch.look(10_000)
        finally:
            watch.close()
    part = watch.state.transactions
    assert part.error == ""
    (one,) = part.value.opened
    assert (one.transactional_id, one.state, one.partitions) == ("copier", "Ongoing", (T0,))
    assert (one.behind, one.coordinator, one.started > 0) == (3, 0, True)
    (standing,) = part.value.standing
    assert (standing.stable, standing.behind, standing.known) == (0, 3, True)
    (group,) = watch.state.groups.value["committed-reader"].partitions
    assert (group.lag, group.committed_lag, group.behind_open) == (3, 0, 3)
    assert group.why.startswith("it stands at an open transaction, 3 messages behind")


def test_the_oldest_is_first_and_what_was_not_described_is_last() -> None:
    listed = {
        name: TransactionListing(name, "Ongoing", number, 1)
        for number, name in enumerate(("a", "b", "c"))
    }
    described = {
        "b": KnownTransaction("b", "Ongoing", 1, 0, 60_000, 50, frozenset((T0, T1))),
        "c": KnownTransaction("c", "Ongoing", 2, 0, 60_000, 10, frozenset((T1,))),
    }
    ends = {T0: Ends(0, 9, 1, 4), T1: Ends(0, 9, 1, 9), ("u", 0): Ends(0, 5, 1, 3)}
    found = transactions_of(listed, described, ends)
    assert [one.transactional_id for one in found.opened] == ["c", "b", "a"]
    assert [one.behind for one in found.opened] == [0, 5, 0]
    assert [(one.topic, one.known) for one in found.standing] == [("t", True), ("u", False)]


def test_of_very_many_the_first_are_kept_and_all_are_counted() -> None:
    listed = {f"{n:04}": TransactionListing(f"{n:04}", "Ongoing", n, 1) for n in range(3 * SHOWN)}
    ends = {("t", n): Ends(0, 9, 1, 4) for n in range(2 * SHOWN)}
    found = transactions_of(listed, {}, ends)
    assert (len(found.opened), found.count) == (SHOWN, 3 * SHOWN)
    assert (len(found.standing), found.standing_count) == (SHOWN, 2 * SHOWN)


@pytest.mark.parametrize(
    ("offset", "stable", "stands"), [(4, 4, True), (5, 4, True), (3, 4, False), (9, 9, False)]
)
def test_a_group_stands_at_an_open_transaction_only_when_it_has_got_there(
    offset: int, stable: int, stands: bool
) -> None:
    seen = Seen("brokers", GroupDescription("g", "Stable"), {T0: offset}, 1)
    state = GroupBook().state(seen, {T0: Ends(0, 9, 1, stable)}, 2)
    assert state.partitions[0].why.startswith("it stands at an open transaction") is stands
