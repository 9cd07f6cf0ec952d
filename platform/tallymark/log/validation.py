"""What a batch must be before a byte of it is written. Pure; the records are never looked into."""

from __future__ import annotations

from typing import Final

import crc32c

from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.log.config import LogConfig
from tallymark.log.files import Data
from tallymark.protocol.records import BatchHeader, read_header

_CRC_FROM: Final = 21  # the CRC covers the batch from its attributes on
_CONTROL: Final = 0x20


def validate_batch(data: Data, config: LogConfig, name: str, *, control: bool) -> BatchHeader:
    """The header of the one batch that ``data`` is.

    ``control``: whether a transaction coordinator sends it, as only those may write control
    batches. Raises KafkaError: CORRUPT_MESSAGE (lengths or CRC), INVALID_RECORD (empty, several
    batches, counts that do not agree, half a producer id), MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE.
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
    if size > config.max_message_bytes or size > config.segment_bytes:
        _refuse_size(size, config, name)
    if crc32c.crc32c(memoryview(data)[_CRC_FROM:]) != header.crc:
        raise KafkaError(CODES["CORRUPT_MESSAGE"], f"{name}: the CRC does not fit the batch")
    if header.record_count != header.last_offset_delta + 1 or header.record_count < 1:
        raise KafkaError(
            CODES["INVALID_RECORD"],
            f"{name}: {header.record_count} records, last offset delta {header.last_offset_delta}",
        )
    if bool(header.attributes & _CONTROL) != control:
        raise KafkaError(CODES["INVALID_RECORD"], f"{name}: control batches are the coordinator's")
    if header.producer_id >= 0 and not control:
        _check_producer(header, name)
    return header


def _refuse_length(header: BatchHeader, length: int, name: str) -> None:
    if header.size > length:
        raise KafkaError(
            CODES["CORRUPT_MESSAGE"], f"{name}: {length} bytes of a batch of {header.size}"
        )
    raise KafkaError(CODES["INVALID_RECORD"], f"{name}: more than one batch for a partition")


def _refuse_size(size: int, config: LogConfig, name: str) -> None:
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
