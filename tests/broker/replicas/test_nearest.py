"""Which follower a leader names to a reader (KIP-392)."""

from __future__ import annotations

from tallymark.broker.metadata.image import BrokerImage, MetadataImage
from tallymark.broker.requests.fetch_near import nearest
from tallymark.broker.settings.listeners import Endpoint

RACKS = {1: "a", 2: "b", 3: "b", 4: ""}
AT = {"PLAINTEXT": Endpoint("127.0.0.1", 1, "PLAINTEXT")}
IMAGE = MetadataImage("c", brokers={one: BrokerImage(one, AT, rack) for one, rack in RACKS.items()})


def near(copies: dict[int, int], rack: str, leader: int = 1, listener: str = "") -> int | None:
    return nearest(copies, leader, rack, IMAGE, listener)


def test_the_longest_log_in_the_rack_then_the_lowest_id() -> None:
    assert near({2: 10, 3: 11}, "b") == 3
    assert near({3: 10, 2: 10}, "b") == 2


def test_the_leader_where_it_is_in_the_rack_or_no_replica_is() -> None:
    assert near({2: 10, 3: 10}, "a") is None
    assert near({2: 10, 3: 10}, "c") is None
    assert near({}, "b") is None
    assert near({4: 10}, "b") is None


def test_a_broker_that_is_gone_or_that_the_reader_cannot_reach_is_not_named() -> None:
    assert near({9: 10}, "b") is None
    assert near({2: 10}, "b", listener="OTHER") is None
