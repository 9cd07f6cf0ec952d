"""Committed offsets on disk: append the decided records to ``__consumer_offsets``, then replay
them. Becoming leader of one of its partitions is replaying that partition from its start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from tallymark.broker.partition import Partition
from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.groups.offsets import OffsetRecord, OffsetsState, decide_forget_topic
from tallymark.groups.placement import OFFSETS_TOPIC, partition_of_group
from tallymark.log.log import Log
from tallymark.protocol.records import encode_batch, split_batches

_READ_BYTES = 1024 * 1024
_BATCH_RECORDS = 1000

log = logging.getLogger(__name__)


class OffsetsStore:
    """The offsets of the groups whose partition of ``__consumer_offsets`` is led here."""

    def __init__(self) -> None:
        self._owned: dict[int, tuple[Partition, OffsetsState | None]] = {}

    async def take(self, partition: Partition) -> None:
        """Own a partition: commits are refused as loading until its log is replayed."""
        self._owned[partition.index] = (partition, None)
        state = await asyncio.to_thread(replay_log, partition.log)
        if self._owned.get(partition.index, (None,))[0] is partition:
            self._owned[partition.index] = (partition, state)
            log.info("offsets loaded partition=%s end=%d", partition, partition.log.end_offset)

    def give_up(self, partition: Partition) -> None:
        """Own it no more."""
        if self._owned.get(partition.index, (None,))[0] is partition:
            del self._owned[partition.index]

    def of(self, group: str, partitions: int) -> tuple[Partition, OffsetsState]:
        """The partition and state that own a group, where the topic has so many partitions.

        Raises NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        owned = self._owned.get(partition_of_group(group, partitions))
        if owned is None:
            raise KafkaError(CODES["NOT_COORDINATOR"], f"group {group}")
        partition, state = owned
        if state is None:
            raise KafkaError(CODES["COORDINATOR_LOAD_IN_PROGRESS"], f"group {group}")
        return partition, state

    def write(
        self,
        partition: Partition,
        state: OffsetsState,
        records: Sequence[OffsetRecord],
        now_ms: int,
    ) -> None:
        """Append, then replay. Raises KafkaError, and then the state is as it was."""
        for start in range(0, len(records), _BATCH_RECORDS):
            chunk = records[start : start + _BATCH_RECORDS]
            batch = encode_batch([(key, value, (), now_ms) for key, value in chunk])
            partition.append(bytearray(batch), now_ms)
            for record in chunk:
                state.replay(record)

    def forget_topic(self, topic: str, now_ms: int) -> None:
        """The topic was deleted: what groups committed on it goes too."""
        for partition, state in list(self._owned.values()):
            if state is not None:
                self.write(partition, state, decide_forget_topic(state, topic), now_ms)


def replay_log(source: Log) -> OffsetsState:
    """The state that a partition of ``__consumer_offsets`` describes. Reads all of it; a record
    that does not parse is told and left out."""
    state = OffsetsState()
    at = source.start_offset
    while at < source.end_offset:
        batches = split_batches(source.read(at, _READ_BYTES).read())
        if not batches:
            break
        for batch in batches:
            for record in batch.records():
                try:
                    state.replay((bytes(record.key or b""), record.value))
                except CorruptRecordError as error:
                    log.warning("%s offset=%d is left out: %s", OFFSETS_TOPIC, record.offset, error)
        at = batches[-1].header.next_offset
    return state
