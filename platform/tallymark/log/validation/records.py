"""Checks that the records of a producer's batch decode, before it is written. Pure.

What is checked, by the setting ``record.validation``::

                 not compressed                      compressed
    header       nothing                             nothing
    lengths      every record of the first 20 KB,    whether so many bytes can hold so many records
                 with the compiled kernel; without
                 it the beginning of the first one
    full         every record                        every record

A batch that has to be decoded anyway (each record of a compacted topic needs a key, limits on
timestamps, a codec of the topic's own) is always checked as a whole. Nothing is decompressed beyond
:func:`most_unpacked`, and no record is kept, so a batch costs no more memory than that, whatever it
claims. Batches in the log are not checked again: see :mod:`tallymark.log.loading.recovery`.
"""

from __future__ import annotations

from typing import Final

from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.log.config import NEVER, LogConfig
from tallymark.log.disk.files import Data
from tallymark.log.validation.batch import refused_records
from tallymark.protocol.records.batch import HEADER_SIZE, BatchHeader
from tallymark.protocol.records.check import (
    BadRecordError,
    check_count,
    check_records,
    is_whole,
    keyless_records,
)
from tallymark.protocol.records.compression import DecompressedTooLargeError, decompress
from tallymark.protocol.schema import Buffer

MOST_NAMED: Final = 10_000
"""So many records of a batch are named in an error: a compressed one may hold millions."""
_CODEC: Final = 0x07
_UNPACKED: Final = 16
_UNPACKED_LEAST: Final = 16 << 20


def is_opened(codec: str, config: LogConfig) -> bool:
    """Whether all records of every batch in ``codec`` are checked.
    (:mod:`tallymark.log.validation.append_time` handles limits on timestamps.)"""
    recoded = config.codec is not None and config.codec != codec
    return config.compact or recoded or config.record_validation == "full"


def check_batch(header: BatchHeader, data: Data, config: LogConfig, name: str) -> Buffer | None:
    """Check the records of a batch whose header and CRC are good. Returns its decompressed records,
    if it had to decompress them. Control batches have neither keys nor a codec to check.

    Raises KafkaError: INVALID_RECORD, MESSAGE_TOO_LARGE (it holds too much when decompressed).
    """
    if is_opened(header.codec, config):
        payload = opened(header, data, config, name)
        if config.compact and not header.is_control:
            _check_keys(header, payload, name)
        return payload
    if config.record_validation != "header":
        check_lengths(header, data, name)
    return None


def check_lengths(header: BatchHeader, data: Data, name: str) -> None:
    """The checks of ``record.validation=lengths``. Raises INVALID_RECORD."""
    count, packed = header.record_count, header.attributes & _CODEC
    if not packed and is_whole(data, HEADER_SIZE, count):
        return
    try:
        check_count(header.codec, len(data) - HEADER_SIZE, count)
        if not packed:
            check_records(data, count, count - 1, start=HEADER_SIZE)
    except BadRecordError as error:
        raise _refused(error, name) from error


def opened(header: BatchHeader, data: Data, config: LogConfig, name: str) -> Buffer:
    """The records of a batch, decompressed and all checked. Raises as :func:`check_batch`."""
    payload: Buffer = memoryview(data)[HEADER_SIZE:]
    most = most_unpacked(config)
    try:
        check_count(header.codec, len(payload), header.record_count)
        if header.codec != "none":
            payload = decompress(header.codec, payload, most)
            check_count("none", len(payload), header.record_count)
        check_records(payload, header.record_count, header.last_offset_delta)
    except DecompressedTooLargeError as error:
        raise KafkaError(
            CODES["MESSAGE_TOO_LARGE"],
            f"{name}: a batch of more than {most} bytes when decompressed",
        ) from error
    except BadRecordError as error:
        raise _refused(error, name) from error
    except CorruptRecordError as error:
        raise KafkaError(CODES["INVALID_RECORD"], f"{name}: {error}") from error
    return payload


def has_time_limits(config: LogConfig) -> bool:
    """Whether timestamps have to be near the broker's clock."""
    limits = (config.timestamp_after_max_ms, config.timestamp_before_max_ms)
    return not config.log_append_time and limits != (NEVER, NEVER)


def most_unpacked(config: LogConfig) -> int:
    """How many bytes a batch may hold when decompressed."""
    if config.bound_unpacked:
        return config.max_message_bytes
    return max(_UNPACKED * config.max_message_bytes, _UNPACKED_LEAST)


def _check_keys(header: BatchHeader, payload: Buffer, name: str) -> None:
    keyless = keyless_records(payload, header.record_count, MOST_NAMED)
    if keyless:
        why = "it has no key, and the topic is compacted"
        raise refused_records("INVALID_RECORD", name, keyless, why)


def _refused(error: BadRecordError, name: str) -> KafkaError:
    if error.record is None:
        return KafkaError(CODES["INVALID_RECORD"], f"{name}: {error}")
    return refused_records("INVALID_RECORD", name, [error.record], error.why)
