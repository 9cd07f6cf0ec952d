"""A batch that is ready for one partition of the target, but for its producer id and sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tallymark.client.producing.batches.batch import NO_IDENTITY, Identity, ProducerBatch
from tallymark.protocol.records.batch import Batch, BatchBuilder, Record, split_batches
from tallymark.protocol.records.rebatch import rebatch
from tallymark.protocol.schema import Buffer

Origin: TypeAlias = frozenset[str]
"""The clusters that records have been in before they came to the target."""
Settled: TypeAlias = Callable[[Exception | None, int], None]
"""``settled(error, base offset)``, once, in the target's I/O thread; the offset is -1 when it is
not known."""

NEVER: Final = float("inf")


class ReadyBatch(ProducerBatch):
    """Ordered and numbered by the client's
    :class:`~tallymark.client.producing.batches.pipeline.Pipeline`, like a producer's own batches,
    with the bytes of an existing batch. Never expires."""

    __slots__ = ("batch", "on_settled", "origin")

    def __init__(
        self, topic: str, partition: int, batch: Batch, origin: Origin, on_settled: Settled
    ) -> None:
        # Only what the pipeline needs: no records are appended to this batch.
        self.topic = topic
        self.partition = partition
        self.batch = batch
        self.origin = origin
        self.on_settled = on_settled
        self.size = batch.header.size
        self.created = 0.0
        self.deadline = NEVER
        self.order = -1
        self.identity: Identity = NO_IDENTITY
        self.base_sequence = -1
        self.ambiguous = self.part_of_ambiguous = False
        self.settled = False

    @property
    def count(self) -> int:
        """Number of records."""
        return self.batch.header.record_count

    @property
    def codec(self) -> str:
        """How the records are compressed."""
        return self.batch.header.codec

    def pieces(self, compression: str = "", level: int | None = None) -> tuple[bytes, Buffer]:
        """The header with the present producer id and sequence, and the records as they were read;
        they are compressed already."""
        producer_id, epoch = self.identity
        return rebatch(self.batch, producer_id, epoch, self.base_sequence)

    def halves(self) -> tuple[ReadyBatch, ReadyBatch]:
        """Two batches in place of this one, which the target found too large. This one is settled
        when both are. CorruptRecordError: the records do not decode."""
        records = self.batch.records(self.batch.usual_max_size)
        middle = len(records) // 2
        left = 2

        def one_done(error: Exception | None, base_offset: int) -> None:
            nonlocal left
            left -= 1
            if error is not None and not self.settled:
                self.settled = True
                self.on_settled(error, -1)
            elif left == 0 and not self.settled:
                self.settled = True
                self.on_settled(None, -1)

        first, second = (
            ReadyBatch(
                self.topic, self.partition, batch_of(some, self.codec), self.origin, one_done
            )
            for some in (records[:middle], records[middle:])
        )
        return first, second


def batch_of(records: Sequence[Record], compression: str) -> Batch:
    """The records as one batch from offset 0 on."""
    builder = BatchBuilder()
    for _, timestamp, key, value, headers in records:
        builder.append(key, value, headers, timestamp)
    return built(builder, compression)


def built(builder: BatchBuilder, compression: str) -> Batch:
    """The batch that the builder has."""
    (batch,) = split_batches(builder.build(compression=compression))
    return batch
