"""Transactions that hang: find them, and end them in their partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tallymark.client.admin.records import RecordAdmin
from tallymark.client.admin.results import Outcomes, refusal
from tallymark.client.admin.topics import TopicAdmin
from tallymark.client.admin.transactions.describing import DescribesTransactions, TransactionFilter
from tallymark.client.admin.transactions.hanging import (
    Judged,
    KnownTransaction,
    OpenTransaction,
    judge,
    still_open,
)
from tallymark.errors import KafkaError, TallymarkError
from tallymark.net.addresses import Address
from tallymark.protocol import messages
from tallymark.protocol.topic_partition import TRANSACTIONS_TOPIC, TopicPartition

_OF_THE_OPERATOR = 0
"""The level of ``transaction.version`` of such a marker: the epoch of the producer is enough, which
no end has raised (KIP-1228)."""


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """What is open in partitions, with what follows; what could not be asked: partitions, ids and
    brokers, by their names."""

    judged: tuple[Judged, ...] = ()
    errors: Mapping[str, TallymarkError] = field(default_factory=dict[str, TallymarkError])


class TransactionAdmin(TopicAdmin, RecordAdmin, DescribesTransactions):
    """The methods of Admin for transactions that are open in partitions."""

    def open_transactions(self, partitions: Iterable[TopicPartition]) -> OpenTransactions:
        """Every transaction that is open in the partitions, and whether it hangs (:mod:`.hanging`).

        It needs READ on the topics and DESCRIBE on all transactional ids: one that we may not
        describe looks as if it did not exist, and its transaction as if it hung.
        """
        wanted = tuple(partitions)
        found, errors = self._open_in(wanted)
        if not found:
            return OpenTransactions((), errors)
        ids = tuple({each.producer_id for each in found})
        before = self._coordinators()
        listed = self.list_transactions(TransactionFilter(producer_ids=ids))
        described = self.describe_transactions(listed.transactions)
        # Of a partition that moves meanwhile, or has no leader, no broker lists the ids.
        is_same = before is not None and before == self._coordinators()
        known: dict[int, list[KnownTransaction]] = {}
        for one in described.done.values():
            known.setdefault(one.producer_id, []).append(one)
        sure = is_same and not listed.errors and not described.errors
        judged = [judge(each, known.get(each.producer_id, ()), all_answered=sure) for each in found]
        now_open, failed = self._open_in({each.open.partition for each in judged})
        errors |= failed | {f"broker {name}": why for name, why in listed.errors.items()}
        errors |= {f"transactional id {name}": why for name, why in described.errors.items()}
        return OpenTransactions(tuple(still_open(judged, now_open)), errors)

    def abort_in_partition(self, found: OpenTransaction) -> None:
        """Write an abort marker into the partition, past the coordinator. For what hangs only: of a
        running transaction this makes a part, whatever becomes of the rest. Needs CLUSTER_ACTION
        (Apache Kafka: or ALTER) on the cluster. KafkaError."""
        topic, index = found.partition
        marker = messages.WriteTxnMarkersRequestMarker(
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            transaction_result=False,
            topics=(messages.WriteTxnMarkersRequestTopic(name=topic, partition_indexes=(index,)),),
            coordinator_epoch=max(0, found.coordinator_epoch),
            transaction_version=_OF_THE_OPERATOR,
        )

        async def ask(address: Address, _: list[TopicPartition]) -> Outcomes[TopicPartition, None]:
            response = await self._cluster.ask(
                address, messages.WriteTxnMarkersRequest(markers=(marker,))
            )
            return {
                (one.name, part.partition_index): refusal(
                    part.error_code, f"{one.name}-{part.partition_index}"
                )
                if part.error_code
                else None
                for answer in response.markers
                for one in answer.topics
                for part in one.partitions
            }

        self._of_leaders([found.partition], ask, "aborting a transaction").check()

    def _coordinators(self) -> tuple[tuple[int, int], ...] | None:
        """Leader and leader epoch of each partition of ``__transaction_state``; none, where the
        topic was never created; None where not all are known."""
        try:
            topic = self.describe_topics([TRANSACTIONS_TOPIC])[TRANSACTIONS_TOPIC]
        except KafkaError as error:
            return () if error.name == "UNKNOWN_TOPIC_OR_PARTITION" else None
        leads = tuple((part.leader, part.leader_epoch) for part in topic.partitions)
        return None if any(leader < 0 for leader, _ in leads) else leads

    def _open_in(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[list[OpenTransaction], dict[str, TallymarkError]]:
        found = self.describe_producers(partitions)
        opened = [
            OpenTransaction(
                at,
                one.producer_id,
                one.producer_epoch,
                one.transaction_start,
                one.coordinator_epoch,
                one.last_timestamp,
            )
            for at, producers in found.done.items()
            for one in producers
            if one.transaction_start >= 0
        ]
        errors = {f"{topic}-{part}": why for (topic, part), why in found.errors.items()}
        return sorted(opened, key=lambda each: (each.partition, each.start_offset)), errors
