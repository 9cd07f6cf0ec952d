"""A transactional producer that a test writes by hand: requests in any version, over a socket."""

from __future__ import annotations

from typing import Final

from transactional_appends import transactional_batch

from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.protocol.records.batch import split_batches
from tallymark.testing.wire import WireClient

AGAIN: Final = {CODES["CONCURRENT_TRANSACTIONS"], CODES["COORDINATOR_LOAD_IN_PROGRESS"]}
NOT_YET: Final = {*AGAIN, CODES["NOT_COORDINATOR"], CODES["COORDINATOR_NOT_AVAILABLE"]}


class WireProducer:
    """One transactional producer. ``topic`` exists, with one partition."""

    def __init__(self, wire: WireClient, name: str) -> None:
        self.wire, self.name, self.topic = wire, name, name
        self.sequence, self.told = 0, ""
        for key, kind in ((name, 1), (name, 0)):
            wire.ask(m.FindCoordinatorRequest(key, kind), 3)
        wire.ask(m.MetadataRequest(topics=[m.MetadataRequestTopic(name=name)]), 12)
        self.id, self.epoch = self.init()

    def init(self) -> tuple[int, int]:
        while (
            answer := self.wire.ask(m.InitProducerIdRequest(self.name, 60_000), 4)
        ).error_code in AGAIN:
            pass
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch

    def request(self, value: bytes, sequence: int | None = None) -> m.ProduceRequest:
        first = self.sequence if sequence is None else sequence
        records = transactional_batch(value, producer=self.id, epoch=self.epoch, first=first)
        part = m.ProduceRequestPartition(index=0, records=records)
        return m.ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[m.ProduceRequestTopic(name=self.topic, partition_data=[part])],
        )

    def produce(self, value: bytes, version: int = 12) -> int:
        answer = self.wire.ask(self.request(value), version)
        part = answer.responses[0].partition_responses[0]
        self.sequence += part.error_code == 0
        self.told = part.error_message or ""
        return part.error_code

    def add(self) -> int:
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[m.AddPartitionsToTxnRequestTopic(self.topic, [0])],
        )
        while True:
            answer = self.wire.ask(request, 3).results_by_topic_v3_and_below[0]
            code = answer.results_by_partition[0].partition_error_code
            if code not in AGAIN:
                return code

    def add_group(self) -> int:
        """Add the group of the producer's name."""
        request = m.AddOffsetsToTxnRequest(self.name, self.id, self.epoch, self.name)
        while (code := self.wire.ask(request, 3).error_code) in AGAIN:
            pass
        return code

    def end(self, *, commit: bool, version: int = 5) -> None:
        answer = self.wire.ask(m.EndTxnRequest(self.name, self.id, self.epoch, commit), version)
        assert answer.error_code == 0
        if version >= 5:
            self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

    def commit_offset(self, offset: int, version: int = 5, **member: object) -> int:
        """:meth:`try_offset`, until the coordinators are there."""
        while (code := self.try_offset(offset, version, **member)) in NOT_YET:
            pass
        return code

    def try_offset(self, offset: int, version: int = 5, **member: object) -> int:
        part = m.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = m.TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[m.TxnOffsetCommitRequestTopic(self.topic, [part])],
            **member,  # type: ignore[arg-type] # fields of the request
        )
        return self.wire.ask(request, version).topics[0].partitions[0].error_code

    def offset(self, *, stable: bool = True, all_of_them: bool = False) -> tuple[int, int]:
        topics = [m.OffsetFetchRequestTopic(name=self.topic, partition_indexes=[0])]
        asked = m.OffsetFetchRequestGroup(self.name, topics=None if all_of_them else topics)
        request = m.OffsetFetchRequest(groups=[asked], require_stable=stable)
        part = self.wire.ask(request, 8).groups[0].topics[0].partitions[0]
        return part.error_code, part.committed_offset

    def committed(self) -> tuple[list[bytes], int]:
        """What a committed reader gets, and where it stops."""
        part = m.FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = m.FetchRequest(
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[m.FetchRequestTopic(topic=self.topic, partitions=[part])],
        )
        found = self.wire.ask(request, 12).responses[0].partitions[0]
        aborted = [each.producer_id for each in found.aborted_transactions or ()]
        batches = split_batches(found.records or b"")
        values = [
            bytes(r.value or b"") for b in batches if not b.header.is_control for r in b.records()
        ]
        return ([] if aborted else values), found.last_stable_offset
