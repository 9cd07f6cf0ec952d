"""Records of many batches as new batches by the partition of their keys, without decoding them.

A mirror whose target has other partitions than its source calls this::

    source     │ batch: a c b │ batch: b a d │
                       │  KeyedRecords.read: one buffer, one table of columns
                       ▼
    target  0  │ batch: a a   │       .batches(partitions): what BatchBuilder would make
            1  │ batch: c d   │
            2  │ batch: b b   │
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tallymark.jit.kernel import Kernel
from tallymark.protocol.records.batch import HEADER_SIZE, Batch, split_batches
from tallymark.protocol.records.compiled import kernel as reading
from tallymark.protocol.records.compiled import repartition_loop as loop
from tallymark.protocol.records.compiled.kernel import BYTES, TABLE
from tallymark.protocol.records.compiled.layout import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BREAK,
    COUNT,
    END,
    LAST_OFFSET,
    MAX_TIMESTAMP,
    OFFSET,
    START,
    TIMESTAMP,
)
from tallymark.protocol.records.compiled.primitives import MOST, no_room, varint
from tallymark.protocol.records.compression import CODECS, codec_number, compress, decompress
from tallymark.protocol.records.reader import SMALLEST_RECORD
from tallymark.protocol.records.writer import batch_header
from tallymark.protocol.schema import Buffer

if TYPE_CHECKING:
    from tallymark.protocol.records.compiled.kernel import IntArray

_CODEC_MASK: Final = 0x07
_NO_PRODUCER: Final = (-1, -1, -1)
_NUMBERS: Final = "Array(int64, 1, 'C')"

KERNEL: Final = Kernel(
    f"{__name__}:KERNEL",
    "copying records by key",
    functions={
        loop.choose_partitions: (
            f"int64({BYTES}, {TABLE}, int64, int64, int64, {_NUMBERS}, {TABLE})"
        ),
        loop.copy_records: (
            f"int64({BYTES}, {TABLE}, int64, {_NUMBERS}, {TABLE}, Array(uint8, 1, 'C'))"
        ),
    },
    helpers=(
        varint,
        no_room,
        loop.varint_size,
        loop.put_varint,
        loop.put_bytes,
        loop.headers_are_short,
        loop.is_within,
        loop.record_size,
        loop.murmur2,
    ),
)


def warm() -> None:
    """Load or compile the loops, in the background."""
    reading.warm()
    KERNEL.warm()


def ready() -> bool:
    """Whether records can be read and copied by the loops."""
    return reading.ready() and KERNEL.ready()


class KeyedRecords:
    """The records of some batches from one offset on, in the order of the batches.
    :meth:`read` makes it."""

    def __init__(self, data: Buffer, columns: IntArray, count: int, since: int) -> None:
        self._data = data
        self._columns = columns
        self._count = count
        self._since = since
        offsets = columns[OFFSET, :count]
        self._is_copied = offsets >= since
        chosen: list[int] = offsets[self._is_copied].tolist()
        counting = range(chosen[0], chosen[0] + len(chosen)) if chosen else range(0)
        self.offsets: Sequence[int] = counting if chosen == list(counting) else chosen
        """Their offsets."""

    @classmethod
    def read(
        cls, batches: Sequence[Batch], payloads: Sequence[Buffer], since: int
    ) -> KeyedRecords | None:
        """The records of the ``batches`` with offsets from ``since`` on; ``payloads`` are these
        batches' records, decompressed (:func:`unpack`). None where the pure path must read them: a
        batch is broken, or has numbers beyond 64 bits."""
        headers = [batch.header for batch in batches]
        table = reading.batch_table(len(batches))
        end = 0
        for row, header, payload in zip(table, headers, payloads, strict=True):
            if header.record_count * SMALLEST_RECORD > len(payload) or header.last_offset >= MOST:
                return None
            row[START], end = end, end + len(payload)
            row[END] = end
            row[COUNT] = header.record_count
            row[BASE_OFFSET], row[LAST_OFFSET] = header.base_offset, header.last_offset
            row[BASE_TIMESTAMP], row[MAX_TIMESTAMP] = header.base_timestamp, header.max_timestamp
            row[ATTRIBUTES] = header.attributes
        data = payloads[0] if len(payloads) == 1 else b"".join(payloads)
        count = sum(header.record_count for header in headers)
        columns = reading.column_table(count)
        done = reading.read_batches(data, b"", table, 0, columns)
        if done < len(batches) or table[:, BREAK].any():
            return None
        return cls(data, columns, count, since)

    @property
    def oldest(self) -> int:
        """The least of their timestamps, ms. There must be a record."""
        import numpy as np

        return int(np.min(self._columns[TIMESTAMP, : self._count][self._is_copied]))

    def timestamp_bounds(self) -> tuple[int, int]:
        """The least and the greatest timestamp of the batches' records, also of those before; twice
        0 where there is none."""
        import numpy as np

        timestamps = self._columns[TIMESTAMP, : self._count]
        return (int(np.min(timestamps)), int(np.max(timestamps))) if self._count else (0, 0)

    def batches(
        self, partitions: int, keyless: int, codec: str
    ) -> Iterator[tuple[int, Batch]] | None:
        """(partition, its batch), in the order of the partitions: by the hash of the key, as
        :func:`~tallymark.protocol.murmur2.partition_of` has it, and ``keyless`` for records without
        one. The batches are those of :class:`~tallymark.protocol.records.writer.BatchBuilder`. None
        where that must make them."""
        import numpy as np

        count, columns = self._count, self._columns
        data = np.frombuffer(memoryview(self._data).toreadonly(), np.uint8)
        targets = np.empty(count, np.int64)
        parts = np.zeros((partitions, loop.PART_FIELDS), np.int64)
        where = (data, columns, count)
        if KERNEL["choose_partitions"](*where, self._since, keyless, targets, parts) < 0:
            return None
        chosen: list[int] = parts[:, loop.PART_COUNT].nonzero()[0].tolist()
        # Each partition's records are behind room for a header: they are the batch as they are.
        ends = (parts[chosen, loop.PART_SIZE] + HEADER_SIZE).cumsum()
        parts[chosen, loop.PART_AT] = ends - parts[chosen, loop.PART_SIZE]
        out = np.empty(int(ends[-1]) if chosen else 0, np.uint8)
        if KERNEL["copy_records"](*where, targets, parts, out) < 0:
            raise AssertionError("the loops do not agree about the sizes of records")
        return _built(memoryview(out), chosen, parts, codec)


def unpack(batch: Batch, max_size: int) -> Buffer:
    """The batch's records, decompressed to at most ``max_size`` bytes; a view of the batch where it
    is not compressed. Raises CorruptRecordError."""
    payload = batch.data[HEADER_SIZE:]
    codec = batch.header.attributes & _CODEC_MASK
    return decompress(CODECS[codec], payload, max_size) if codec else payload


def _built(
    out: memoryview, chosen: Sequence[int], parts: IntArray, codec: str
) -> Iterator[tuple[int, Batch]]:
    """The batches whose records are written."""
    attributes = codec_number(codec)
    for number in chosen:
        count, size, base, latest, end, _ = parts[number].tolist()
        start = end - size
        payload = compress(codec, out[start:end])
        header = batch_header(
            payload,
            attributes=attributes,
            count=count,
            base_timestamp=base,
            max_timestamp=latest,
            producer=_NO_PRODUCER,
        )
        if attributes:
            data = memoryview(header + payload)
        else:
            data = out[start - HEADER_SIZE : end]
            data[:HEADER_SIZE] = header
        (batch,) = split_batches(data)
        yield number, batch
