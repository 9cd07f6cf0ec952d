"""The clock of records: the producer's within limits, or the broker's. Pure."""

from __future__ import annotations

import struct
from typing import Final

import crc32c

from tallymark.errors import CODES, KafkaError
from tallymark.log.config import NEVER, LogConfig
from tallymark.log.disk.files import Data
from tallymark.log.validation.batch import refused_records
from tallymark.log.validation.records import MOST_NAMED, opened
from tallymark.protocol.records.batch import BatchHeader
from tallymark.protocol.records.check import untimely_records
from tallymark.protocol.schema import Buffer

_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_LOW_ATTRIBUTES_AT: Final = 22
_MAX_TIMESTAMP_AT: Final = 35
_LOG_APPEND_TIME: Final = 0x08
_CRC: Final = struct.Struct(">I")
_TIME: Final = struct.Struct(">q")


def check_timestamps(
    header: BatchHeader,
    data: Data,
    config: LogConfig,
    now_ms: int,
    name: str,
    unpacked: Buffer | None = None,
) -> None:
    """Raise INVALID_TIMESTAMP, with the records in question, where a timestamp is too far before or
    after ``now_ms``; records without one (-1) pass.

    The header shows whether a record is too far ahead. Only the records show whether one is too far
    behind, so with such a limit every batch is decoded, unless ``unpacked`` has its records,
    checked.
    """
    oldest = now_ms - config.timestamp_before_max_ms
    newest = now_ms + config.timestamp_after_max_ms
    if config.timestamp_before_max_ms == NEVER and header.max_timestamp <= newest:
        return
    payload = unpacked if unpacked is not None else opened(header, data, config, name)
    count, base = header.record_count, header.base_timestamp
    wrong = untimely_records(payload, count, base, oldest, newest, MOST_NAMED)
    if wrong:
        _, first = wrong[0]
        if first < oldest:
            limit = f"message.timestamp.before.max.ms is {config.timestamp_before_max_ms}"
            why = f"timestamp {first} is {now_ms - first} ms old, {limit}"
        else:
            limit = f"message.timestamp.after.max.ms is {config.timestamp_after_max_ms}"
            why = f"timestamp {first} is {first - now_ms} ms ahead, {limit}"
        raise refused_records("INVALID_TIMESTAMP", name, [place for place, _ in wrong], why)
    if header.max_timestamp > newest:
        raise KafkaError(
            CODES["INVALID_TIMESTAMP"],
            f"{name}: the greatest timestamp of the batch is {header.max_timestamp}, by its header",
        )


def stamp_batch(data: bytearray | memoryview, now_ms: int) -> None:
    """Give the batch the broker's time, in place: attribute bit 3 and the greatest timestamp, which
    is then that of all its records. The CRC covers both, so it is computed again."""
    data[_LOW_ATTRIBUTES_AT] |= _LOG_APPEND_TIME
    _TIME.pack_into(data, _MAX_TIMESTAMP_AT, now_ms)
    _CRC.pack_into(data, _CRC_AT, crc32c.crc32c(memoryview(data)[_ATTRIBUTES_AT:]))
