"""A repair takes no record back in that its transaction has aborted, neither from a log upstream
nor from what a broker saved."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

from outcomes import COMMITTED, write_outcomes
from repair_world import stamp

from tallymark.client import Admin
from tallymark.client.reading.fetched import FetchSpec
from tallymark.deployment import Cluster, Deployment
from tallymark.deployment.clusters import BrokerAddress
from tallymark.protocol.records.batch import encode_batch, place_batch
from tallymark.protocol.records.markers import Marker, marker_batch
from tallymark.protocol.records.saved_tail import DESCRIPTION, Tail, encode_tail
from tallymark.testing import MemoryBroker
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.repair.opened_clusters import OpenedClusters
from tallymark_audit.repair.tails import PREFIX, find_tails, open_tail
from tallymark_audit.testing import MemoryCluster

TOPIC_ID = UUID(int=77)


def put(log: bytearray, offset: int, sequence: int, producer: int = -1) -> int:
    """One stamped record, in a transaction of ``producer``; returns the next offset."""
    data = bytearray(
        encode_batch(
            [(None, b"value", (("tm", stamp(sequence)),), 1_000)],
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=0 if producer >= 0 else -1,
            transactional=producer >= 0,
        )
    )
    place_batch(data, 0, offset, 3)
    log += data
    return offset + 1


def mark(log: bytearray, offset: int, producer: int, *, commit: bool) -> int:
    """A marker; returns the next offset."""
    data = marker_batch(Marker(commit, 0), producer, 0, 1_000)
    place_batch(data, 0, offset, 3)
    log += data
    return offset + 1


def test_of_what_was_saved_only_committed_records_come_back(tmp_path: Path) -> None:
    """Everything in the folder was put back, also what its transaction had aborted."""
    log = bytearray()
    at = put(log, 0, 10)
    at = put(log, at, 11, producer=1)
    at = put(log, at, 12, producer=2)
    at = mark(log, at, 1, commit=True)
    at = mark(log, at, 2, commit=False)
    at = put(log, at, 13, producer=1)
    at = mark(log, at, 1, commit=False)
    at = put(log, at, 14, producer=2)
    at = mark(log, at, 2, commit=True)
    at = put(log, at, 15, producer=1)  # its marker was never there
    folder = tmp_path / "t-0-truncated"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(log)
    tail = Tail("c", 1, 1, "t", 0, TOPIC_ID, 3, 0, at, at, len(log), ())
    (folder / DESCRIPTION).write_bytes(encode_tail(tail))
    cluster = MemoryCluster()
    cluster.log("t")
    cluster.ids["t"] = TOPIC_ID

    (held,) = find_tails([folder], ["dc1"], lambda _: cluster).held
    (found,) = held.sequences.values()
    assert found == RangeSet.of([10, 11, 14])
    reader = open_tail(f"{PREFIX}dc1:{folder}", lambda _: cluster)
    seen: list[int] = []
    offset = 0
    while offset < at:
        (answer,) = reader.multifetch([("t", 0, offset, -1)], max_bytes=1)
        seen += [record.offset for record in answer.records()]  # type: ignore[union-attr]
        offset = answer.next_offset  # type: ignore[union-attr]
    assert seen == [0, 1, 7]


def test_of_a_log_upstream_only_committed_records_are_taken(tmp_path: Path) -> None:
    with MemoryBroker(transaction_state_log_num_partitions=1) as broker, ExitStack() as stack:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t")
        write_outcomes(broker.bootstrap_servers, "t")
        host, _, port = broker.bootstrap_servers.rpartition(":")
        address = BrokerAddress(id=0, host=host, port=int(port))
        cluster = Cluster(name="dc1", brokers=(address,))
        clusters = OpenedClusters(Deployment(data_dir=tmp_path, clusters=(cluster,)), stack)
        (answer,) = clusters.reader("dc1").multifetch([FetchSpec("t", 0, 0)])
        assert answer.values() == COMMITTED  # type: ignore[union-attr]
