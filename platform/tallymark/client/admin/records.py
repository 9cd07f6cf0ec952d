"""Records of partitions: delete them, and describe leader epochs and active producers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tallymark.client.admin.offsets import OffsetAdmin
from tallymark.client.admin.results import Outcomes, Results, by_topic, refusal
from tallymark.net.addresses import Address
from tallymark.protocol import messages
from tallymark.protocol.topic_partition import TopicPartition

END_OF_LOG: Final = -1
"""In place of an offset, for :meth:`RecordAdmin.delete_records`: delete all records that consumers
can see now."""


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """The largest leader epoch that is not above the requested one, and the offset where it ends;
    -1 and -1 where the log has none (KIP-320)."""

    leader_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """An idempotent producer that a partition remembers; -1 in a field that it does not know.
    ``transaction_start`` is the first offset of its open transaction, ``coordinator_epoch`` that of
    the coordinator whose marker came last."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    transaction_start: int
    coordinator_epoch: int = -1


class RecordAdmin(OffsetAdmin):
    """The methods of Admin for the records of partitions."""

    def delete_records(self, before: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
        """Delete the records below an offset (:data:`END_OF_LOG`: all of them); returns the first
        offset that is left. Disk space is freed by whole segments."""

        async def ask(
            address: Address, mine: list[TopicPartition]
        ) -> Outcomes[TopicPartition, int]:
            request = messages.DeleteRecordsRequest(
                topics=tuple(
                    messages.DeleteRecordsRequestTopic(
                        name=name,
                        partitions=tuple(
                            messages.DeleteRecordsRequestPartition(
                                partition_index=part, offset=offset
                            )
                            for part, offset in parts.items()
                        ),
                    )
                    for name, parts in by_topic({at: before[at] for at in mine}).items()
                ),
                timeout_ms=int(self._timeout * 1000),
            )
            response = await self._cluster.ask(address, request)
            return {
                (topic.name, part.partition_index): refusal(
                    part.error_code, f"{topic.name}-{part.partition_index}"
                )
                if part.error_code
                else part.low_watermark
                for topic in response.topics
                for part in topic.partitions
            }

        return self._of_leaders(before, ask, "deleting records")

    def offsets_at(
        self, partitions: Iterable[TopicPartition], time_ms: int
    ) -> Results[TopicPartition, int]:
        """The offset of each partition's first record at or after a time; the end of its log when
        there is none. :meth:`delete_records` takes it to delete older records."""
        found = self.list_offsets(dict.fromkeys(partitions, time_ms))
        done = {
            at: END_OF_LOG if one.offset is None else one.offset for at, one in found.done.items()
        }
        return Results(done, found.errors)

    def leader_epochs(
        self, epochs: Mapping[TopicPartition, int]
    ) -> Results[TopicPartition, EpochEnd]:
        """The offsets at which leader epochs end in the logs."""

        async def ask(
            address: Address, mine: list[TopicPartition]
        ) -> Outcomes[TopicPartition, EpochEnd]:
            request = messages.OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=tuple(
                    messages.OffsetForLeaderEpochRequestTopic(
                        topic=name,
                        partitions=tuple(
                            messages.OffsetForLeaderEpochRequestPartition(
                                partition=part, leader_epoch=epoch
                            )
                            for part, epoch in parts.items()
                        ),
                    )
                    for name, parts in by_topic({at: epochs[at] for at in mine}).items()
                ),
            )
            response = await self._cluster.ask(address, request)
            return {
                (topic.topic, part.partition): refusal(
                    part.error_code, f"{topic.topic}-{part.partition}"
                )
                if part.error_code
                else EpochEnd(part.leader_epoch, part.end_offset)
                for topic in response.topics
                for part in topic.partitions
            }

        return self._of_leaders(epochs, ask, "asking for leader epochs")

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> Results[TopicPartition, tuple[ActiveProducer, ...]]:
        """The idempotent producers that the partitions' leaders remember (KIP-664)."""

        async def ask(
            address: Address, mine: list[TopicPartition]
        ) -> Outcomes[TopicPartition, tuple[ActiveProducer, ...]]:
            request = messages.DescribeProducersRequest(
                topics=tuple(
                    messages.DescribeProducersRequestTopic(
                        name=name, partition_indexes=tuple(parts)
                    )
                    for name, parts in by_topic(dict.fromkeys(mine)).items()
                )
            )
            response = await self._cluster.ask(address, request)
            return {
                (topic.name, part.partition_index): refusal(
                    part.error_code, f"{topic.name}-{part.partition_index}", part.error_message
                )
                if part.error_code
                else tuple(
                    ActiveProducer(
                        one.producer_id,
                        one.producer_epoch,
                        one.last_sequence,
                        one.last_timestamp,
                        one.current_txn_start_offset,
                        one.coordinator_epoch,
                    )
                    for one in part.active_producers
                )
                for topic in response.topics
                for part in topic.partitions
            }

        return self._of_leaders(partitions, ask, "describing producers")
