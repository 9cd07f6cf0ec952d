"""Consumers that name their rack read from the replica there (KIP-392): brokers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from brokers_in_memory import BrokersInMemory
from confluent_kafka import Consumer
from eventually import eventually

from tallymark import Producer
from tallymark.broker.settings.fields.replication import RACK_AWARE
from tallymark.client.reading.fetched import Fetched
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import CODES, KafkaError
from tallymark.protocol import messages as m
from tallymark.protocol.frames import decode_response
from tallymark.protocol.records.batch import split_batches
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

VERSION = 12
LONG_MS = 200_000
VALUES = [b"%d" % number for number in range(5)]


class Racks(BrokersInMemory):
    """Broker n is in rack rn."""

    def broker(self, node_id: int) -> BrokerThread:
        self._settings = {"broker_rack": f"r{node_id}", "replica_selector_class": RACK_AWARE}
        return super().broker(node_id)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Racks]:
    with Racks(tmp_path) as brokers:
        brokers.create("t", min_insync_replicas=2)
        for value in VALUES:
            assert brokers.produce("t", value).error_code == 0
        brokers.wait_until_equal("t")
        yield brokers


@pytest.fixture
def follower(cluster: Racks) -> int:
    leader = cluster.leader("t")
    found = max(one for one in cluster.brokers if one != leader)
    lead = cluster.running(leader).partitions.find("t", 0).lead
    assert lead is not None
    eventually(lambda: found in lead.copies(5))
    return found


def asked(rack: str, offset: int, max_wait_ms: int = 0, **session: int) -> m.FetchRequest:
    part = m.FetchRequestPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    fixed: dict[str, Any] = {"session_epoch": -1} | session
    return m.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        rack_id=rack,
        topics=[m.FetchRequestTopic(topic="t", partitions=[part])],
        **fixed,
    )


def fetch(
    cluster: Racks, broker: int, rack: str, offset: int, version: int = VERSION
) -> m.FetchResponsePartition:
    with WireClient(cluster.brokers[broker].bootstrap_servers) as wire:
        return wire.ask(asked(rack, offset), version).responses[0].partitions[0]


def test_the_leader_names_the_replica_in_the_readers_rack(cluster: Racks, follower: int) -> None:
    leader = cluster.leader("t")
    for version in (11, 12):
        part = fetch(cluster, leader, f"r{follower}", 2, version)
        assert part.preferred_read_replica == follower
        assert not part.records
        assert part.high_watermark == 5
    for rack in (f"r{leader}", "elsewhere", ""):
        part = fetch(cluster, leader, rack, 2)
        assert part.preferred_read_replica == -1
        assert part.records


def test_a_session_is_told_each_time_where_to_read(cluster: Racks, follower: int) -> None:
    """High watermark and start are as before: the answer left it out, and the reader waited."""
    rack = f"r{follower}"
    with WireClient(cluster.brokers[cluster.leader("t")].bootstrap_servers) as wire:
        opened = wire.ask(asked(rack, 5, session_epoch=0), VERSION)
        for epoch in (1, 2):
            answer = wire.ask(
                asked(rack, 5, session_id=opened.session_id, session_epoch=epoch), VERSION
            )
            assert answer.responses[0].partitions[0].preferred_read_replica == follower


def test_an_offset_that_no_replica_in_the_rack_has_is_read_at_the_leader(
    cluster: Racks, follower: int
) -> None:
    part = fetch(cluster, cluster.leader("t"), f"r{follower}", 99)
    assert part.preferred_read_replica == -1
    assert part.error_code == CODES["OFFSET_OUT_OF_RANGE"]


def test_a_replica_that_is_out_of_sync_is_not_named(cluster: Racks, follower: int) -> None:
    """The leader would send a reader that comes back to the same one, which lags ever more."""
    leader = cluster.leader("t")
    cluster.brokers[follower].stop()
    eventually(lambda: fetch(cluster, leader, f"r{follower}", 2).preferred_read_replica == -1)
    assert fetch(cluster, leader, f"r{follower}", 2).records


def test_a_follower_serves_readers_with_a_rack_and_sends_others_to_the_leader(
    cluster: Racks, follower: int
) -> None:
    assert fetch(cluster, follower, f"r{follower}", 2).records
    part = fetch(cluster, follower, "", 2)
    assert part.error_code == CODES["NOT_LEADER_OR_FOLLOWER"]
    assert part.current_leader.leader_id == cluster.leader("t")


def test_behind_the_end_of_a_followers_log_the_leader_is_to_be_asked(
    cluster: Racks, follower: int
) -> None:
    assert fetch(cluster, follower, "any", 6).error_code == CODES["OFFSET_OUT_OF_RANGE"]


def test_a_reader_that_waits_at_a_follower_gets_the_next_record_when_it_is_committed(
    cluster: Racks, follower: int
) -> None:
    """Also where the follower itself does not know yet that it is: KIP-1166."""
    with WireClient(cluster.brokers[follower].bootstrap_servers) as wire:
        for number in range(3):
            assert fetch(cluster, cluster.leader("t"), f"r{follower}", 5).preferred_read_replica > 0
            wire.send(asked("any", 5 + number, LONG_MS), VERSION)
            assert cluster.produce("t", b"next").error_code == 0
            part = decode_response(wire.frame(), m.FetchRequest, VERSION)[1].responses[0]
            assert part.partitions[0].records


def test_a_reader_that_waits_hears_that_its_replica_has_gone(cluster: Racks, follower: int) -> None:
    with WireClient(cluster.brokers[follower].bootstrap_servers) as wire:
        wire.send(asked("any", 5, LONG_MS), VERSION)
        partition = cluster.partition(follower, "t")
        assert partition is not None
        eventually(lambda: partition.waiting)
        cluster.brokers[cluster.leader("t")].kill()
        response = decode_response(wire.frame(), m.FetchRequest, VERSION)[1]
    assert response.responses[0].partitions[0].error_code in (0, CODES["NOT_LEADER_OR_FOLLOWER"])


# --- transactions


def read_committed(cluster: Racks, broker: int, offset: int) -> m.FetchResponsePartition:
    with WireClient(cluster.brokers[broker].bootstrap_servers) as wire:
        request = replace(asked("any", offset), isolation_level=1)
        return wire.ask(request, VERSION).responses[0].partitions[0]


def test_a_follower_serves_committed_records_and_names_what_was_aborted(
    cluster: Racks, follower: int
) -> None:
    """Its list of the aborted and its last stable offset are its own: made from what it copied."""
    leader = cluster.brokers[cluster.leader("t")].bootstrap_servers
    with Producer(bootstrap_servers=leader, transactional_id="p") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"aborted", partition=0)
        producer.flush(60)
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"committed", partition=0)
        producer.begin_transaction()
        producer.send("t", b"open", partition=0)
        producer.flush(60)
        # 0 to 4 plain, 5 aborted, 6 its marker, 7 committed, 8 its marker, 9 open
        ends = (10, 9)

        def known() -> bool:
            part = read_committed(cluster, follower, 5)
            return (part.high_watermark, part.last_stable_offset) == ends

        eventually(known)
        part = read_committed(cluster, follower, 5)
        assert [each.first_offset for each in part.aborted_transactions or ()] == [5]
        batches = split_batches(part.records or b"")
        assert [each.header.base_offset for each in batches] == [5, 6, 7, 8]
        assert not read_committed(cluster, follower, 9).records
        with SimpleConsumer(
            bootstrap_servers=leader, client_rack=f"r{follower}", isolation="read_committed"
        ) as consumer:
            found = consumer.fetch("t", 0, 0)
            assert found.source == cluster.brokers[follower].bootstrap_servers
            assert list(found.values()) == [*VALUES, b"committed"]
        producer.abort_transaction()
    eventually(lambda: read_committed(cluster, follower, 9).last_stable_offset == 11)
    part = read_committed(cluster, follower, 9)
    assert [each.first_offset for each in part.aborted_transactions or ()] == [9]


# --- clients


def test_our_client_reads_near_and_goes_back_to_the_leader_when_that_fails(
    cluster: Racks, follower: int
) -> None:
    near = cluster.brokers[follower].bootstrap_servers
    leader = cluster.brokers[cluster.leader("t")].bootstrap_servers
    with SimpleConsumer(bootstrap_servers=leader, client_rack=f"r{follower}") as consumer:
        first = consumer.fetch("t", 0, 0)
        assert (first.source, list(first.values())) == (near, VALUES)
        ends = consumer.get_offsets_before("t", 0, -1)
        assert ends[0] == 5, "ListOffsets is the leader's"
        cluster.brokers[follower].kill()
        found = eventually(lambda: whole(consumer))
        assert found is not None
        assert found.source == leader


def whole(consumer: SimpleConsumer) -> Fetched | None:
    try:
        found = consumer.fetch("t", 0, 0)
    except KafkaError:
        return None
    return found if list(found.values()) == VALUES else None


def test_librdkafka_reads_from_the_follower_in_its_rack(cluster: Racks, follower: int) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.any_address,
            "group.id": "near",
            "client.rack": f"r{follower}",
            "auto.offset.reset": "earliest",
        }
    )
    partition = cluster.partition(follower, "t")
    assert partition is not None
    before = partition.traffic.sent_bytes
    found: list[bytes | None] = []
    try:
        consumer.subscribe(["t"])

        def more() -> bool:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message.value())
            return len(found) >= len(VALUES)

        eventually(more)
    finally:
        consumer.close()
    assert found == VALUES
    assert partition.traffic.sent_bytes > before
