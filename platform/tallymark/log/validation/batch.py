"""The checks of a batch by its header, before it is written. Pure.

Lengths, CRC and the counts of the header must agree; that costs the same for one record and a
thousand. :mod:`tallymark.log.validation.records` checks the records. An error names the records in
question (KIP-467).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import crc32c

from tallymark.errors import CODES, CorruptRecordError, KafkaError, RecordsRefusedError
from tallymark.log.config import LogConfig
from tallymark.log.disk.files import Data
from tallymark.protocol.records.batch import BatchHeader, read_header

MOST_TEXTS: Final = 100
"""For so many refused records of a batch the error has a reason each."""
_CRC_FROM: Final = 21  # the CRC covers the batch from its attributes on
_CONTROL: Final = 0x20
_LOG_APPEND_TIME: Final = 0x08


def validate_batch(data: Data, config: LogConfig, name: str, *, control: bool) -> BatchHeader:
    """The header of the one batch that ``data`` is.

    ``control``: whether a transaction coordinator sends it, since only coordinators may write
    control batches. Raises KafkaError: CORRUPT_MESSAGE (lengths or CRC), INVALID_RECORD (empty,
    several batches, counts that do not agree, half a producer id), INVALID_TIMESTAMP (it claims to
    have the broker's), MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE.
    """
    if not data:
        raise KafkaError(CODES["INVALID_RECORD"], f"{name}: no batch")
    try:
        header = read_header(data)
    except CorruptRecordError as error:
        raise KafkaError(CODES["CORRUPT_MESSAGE"], f"{name}: {error}") from error
    size = header.size
    if size != len(data):
        _refuse_length(header, len(data), name)
    check_size(size, config, name)
    if crc32c.crc32c(memoryview(data)[_CRC_FROM:]) != header.crc:
        raise KafkaError(CODES["CORRUPT_MESSAGE"], f"{name}: the CRC does not fit the batch")
    if header.record_count != header.last_offset_delta + 1 or header.record_count < 1:
        raise KafkaError(
            CODES["INVALID_RECORD"],
            f"{name}: {header.record_count} records, last offset delta {header.last_offset_delta}",
        )
    if bool(header.attributes & _CONTROL) != control:
        raise KafkaError(CODES["INVALID_RECORD"], f"{name}: control batches are the coordinator's")
    if header.attributes & _LOG_APPEND_TIME:
        raise KafkaError(
            CODES["INVALID_TIMESTAMP"], f"{name}: log append time is the broker's to set"
        )
    if header.producer_id >= 0 and not control:
        _check_producer(header, name)
    return header


def _refuse_length(header: BatchHeader, length: int, name: str) -> None:
    if header.size > length:
        raise KafkaError(
            CODES["CORRUPT_MESSAGE"], f"{name}: {length} bytes of a batch of {header.size}"
        )
    raise KafkaError(CODES["INVALID_RECORD"], f"{name}: more than one batch for a partition")


def check_size(size: int, config: LogConfig, name: str) -> None:
    """Raise MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE for a batch of ``size`` bytes that the log
    does not take."""
    if size <= config.max_message_bytes and size <= config.segment_bytes:
        return
    if size > config.max_message_bytes:
        raise KafkaError(
            CODES["MESSAGE_TOO_LARGE"],
            f"{name}: a batch of {size} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    raise KafkaError(
        CODES["RECORD_LIST_TOO_LARGE"],
        f"{name}: a batch of {size} bytes, segment.bytes is {config.segment_bytes}",
    )


def _check_producer(header: BatchHeader, name: str) -> None:
    if header.producer_epoch < 0 or header.base_sequence < 0:
        raise KafkaError(
            CODES["INVALID_RECORD"],
            f"{name}: producer id {header.producer_id} with epoch {header.producer_epoch} "
            f"and sequence {header.base_sequence}",
        )


def refused_records(code: str, name: str, numbers: Sequence[int], why: str) -> RecordsRefusedError:
    """The error for the records at these places (one at least) of a batch. Each is named; the first
    :data:`MOST_TEXTS` with the reason, so that the answer stays smaller than the request."""
    errors = [(number, why if n < MOST_TEXTS else "") for n, number in enumerate(numbers)]
    count = f"{len(numbers)} records of the batch are" if len(numbers) > 1 else "a record is"
    return RecordsRefusedError(
        CODES[code], f"{name}: {count} refused, the first is record {numbers[0]}: {why}", errors
    )
