"""Prepares a batch of one log for another one, with records and compression unchanged.

What a producer may send differs from what a log holds in the first 61 bytes only (drawn in
:mod:`tallymark.protocol.records.batch`): it begins at offset 0, belongs to no leader epoch, and
carries the numbers of the producer that sends it. The CRC covers these, so it is computed again,
over records that are not checked. The caller has to check the old CRC first, or damaged records
would get a valid CRC.
"""

from __future__ import annotations

import struct
from typing import Final

import crc32c

from tallymark.protocol.records.batch import HEADER_SIZE, Batch

_CODEC: Final = 0x07
_HEAD: Final = struct.Struct(">qiibI")
_TAIL: Final = struct.Struct(">hiqqqhii")


def is_dense(batch: Batch) -> bool:
    """Whether the batch can be produced as it is: every offset it covers has its record, and the
    records have times of their own. Compacted batches, transaction markers and batches with the
    broker's time cannot."""
    header = batch.header
    dense = header.record_count == header.last_offset_delta + 1
    return dense and not header.is_control and not header.is_log_append_time


def rebatch(
    batch: Batch, producer_id: int, producer_epoch: int, base_sequence: int
) -> tuple[bytes, memoryview]:
    """The batch as a producer of these numbers (-1: none) sends it: its header, and its records
    where they are.

    Of its attributes only the codec stays: the other cluster's transactions and delete horizons
    mean nothing here. The batch must be dense (:func:`is_dense`).
    """
    header, payload = batch.header, batch.data[HEADER_SIZE:]
    tail = _TAIL.pack(
        header.attributes & _CODEC,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        header.record_count,
    )
    crc = crc32c.crc32c(payload, crc32c.crc32c(tail))
    return _HEAD.pack(0, header.batch_length, -1, 2, crc) + tail, payload
