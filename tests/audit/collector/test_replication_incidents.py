"""What brokers report of their replicas becomes incidents: once each, whatever else is in the
topic, and whoever reads it again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.broker.replicas.cutting import GivenUp
from tallymark.broker.replicas.incidents import ReplicationIncident, given_up
from tallymark.protocol.records.saved_tail import Tail
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.collector.replication_incidents import (
    TOPIC,
    ReplicationIncidents,
    incident_of,
)
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.reading.records import WhichRecords, log_event_page
from tallymark_audit.testing.clusters import MemoryCluster, Told

NOW = 1_800_000_000_000
DAY = 86_400_000
ID = uuid.UUID(int=7)
ELECTED = ReplicationIncident(
    NOW, "unclean-election", 2, "orders", 0, ID, 7, 6, -1, 6, ((1, 0), (4, 3))
)
TAIL = Tail("c", 1, NOW + 5, "orders", 0, ID, 7, 6, 20, 12, 1000, ((4, 6), (5, 18)))
CUT = given_up(GivenUp(TAIL, "/d/orders-0.ab-truncated"))


def told_in(cluster: MemoryCluster, *values: bytes) -> None:
    cluster.log(TOPIC).append(Told(None, value=value) for value in values)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/audit.db") as found:
        yield found


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


def rows(store: Store) -> list[dict[str, Any]]:
    with store.read() as connection:
        return [dict(row) for row in log_event_page(connection, WhichRecords(), None, 100)]


def test_an_election_and_a_cut_are_incidents_with_broker_epochs_and_offsets(
    cluster: MemoryCluster, store: Store
) -> None:
    chore = ReplicationIncidents(cluster, Ledger(store, "dc1"), DAY)
    told_in(cluster, ELECTED.line(), CUT.line())
    chore.step(NOW)
    cut, elected = rows(store)
    assert (elected["kind"], elected["at"]) == ("unclean-election", NOW)
    assert (elected["from_offset"], elected["to_offset"]) == (6, 6)
    assert "broker 2 leads from leader epoch 7" in elected["reason"]
    assert "epochs: 1 from 0, 4 from 3" in elected["reason"]
    assert (cut["kind"], cut["from_offset"], cut["to_offset"]) == ("given-up", 6, 20)
    assert "tallymark audit repair --tails /d/orders-0.ab-truncated" in cut["reason"]


def test_each_is_added_once_by_whoever_is_in_charge(cluster: MemoryCluster, store: Store) -> None:
    told_in(cluster, ELECTED.line())
    for _ in range(2):  # another collector came into charge, and reads from the start
        chore = ReplicationIncidents(cluster, Ledger(store, "dc1"), DAY)
        chore.step(NOW)
        chore.step(NOW)
    told_in(cluster, CUT.line())
    chore.step(NOW)
    assert [row["kind"] for row in rows(store)] == ["given-up", "unclean-election"]


def test_two_elections_of_a_partition_are_two_incidents(
    cluster: MemoryCluster, store: Store
) -> None:
    again = ReplicationIncident(NOW + 9, "unclean-election", 3, "orders", 0, ID, 9, 6, -1, 6, ())
    told_in(cluster, ELECTED.line(), again.line())
    ReplicationIncidents(cluster, Ledger(store, "dc1"), DAY).step(NOW)
    assert len(rows(store)) == 2


def test_what_the_store_would_forget_is_not_added_again(
    cluster: MemoryCluster, store: Store
) -> None:
    """The housekeeper deletes it, the next collector in charge would bring it back."""
    told_in(cluster, ELECTED.line())
    ReplicationIncidents(cluster, Ledger(store, "dc1"), DAY).step(NOW + 2 * DAY)
    assert rows(store) == []


def test_a_cluster_without_the_topic_has_no_incidents(store: Store) -> None:
    ReplicationIncidents(MemoryCluster(), Ledger(store, "dc1"), DAY).step(NOW)
    assert rows(store) == []


def test_records_that_were_not_saved_are_said_to_be_lost() -> None:
    found = incident_of(given_up(GivenUp(TAIL, "", "No space left on device")).line())
    assert found is not None
    assert "NOT saved: No space left on device" in found[1].reason


_LINE = json.loads(ELECTED.line())


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "LOSS"}, {"kind": []}, {"topic": 5}, {"at": "now"}, {"at": -1}, {"at": 2**70},
        {"epochs": 3}, {"epochs": [[1]]}, {"broker": None}, {"broker": True}, {"partition": "0"},
        {"from_offset": -2},
    ],
)  # fmt: skip
def test_what_is_no_report_is_left_out(
    change: dict[str, Any], cluster: MemoryCluster, store: Store
) -> None:
    line = json.dumps(_LINE | change).encode()
    assert incident_of(line) is None
    told_in(cluster, line, b"", b"\xff", ELECTED.line())
    ReplicationIncidents(cluster, Ledger(store, "dc1"), DAY).step(NOW)
    assert len(rows(store)) == 1


@given(st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_no_record_ends_the_collector(value: Any) -> None:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    assert incident_of(data) is None


def test_texts_of_reports_are_bounded() -> None:
    found = incident_of(json.dumps(_LINE | {"topic": "x" * 10**6}).encode())
    assert found is not None
    assert len(found[1].topic) <= 500
    assert len(found[1].reason) <= 2000
