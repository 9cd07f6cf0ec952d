"""The clock of records: the producer's within limits, or the broker's. Pure."""

from __future__ import annotations

import struct
from typing import Final

import crc32c

from tallymark.errors import CODES, KafkaError
from tallymark.log.config import LogConfig
from tallymark.protocol.records import BatchHeader

_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_LOW_ATTRIBUTES_AT: Final = 22
_MAX_TIMESTAMP_AT: Final = 35
_LOG_APPEND_TIME: Final = 0x08
_CRC: Final = struct.Struct(">I")
_TIME: Final = struct.Struct(">q")


def check_timestamps(header: BatchHeader, config: LogConfig, now_ms: int, name: str) -> None:
    """Raise INVALID_TIMESTAMP where the first timestamp of a batch is too far behind ``now_ms`` or
    its greatest too far ahead, by what its header says; records without one (-1) pass."""
    first, greatest = header.base_timestamp, header.max_timestamp
    if 0 <= first < now_ms - config.timestamp_before_max_ms:
        raise KafkaError(
            CODES["INVALID_TIMESTAMP"],
            f"{name}: timestamp {first} is {now_ms - first} ms old, "
            f"message.timestamp.before.max.ms is {config.timestamp_before_max_ms}",
        )
    if greatest > now_ms + config.timestamp_after_max_ms:
        raise KafkaError(
            CODES["INVALID_TIMESTAMP"],
            f"{name}: timestamp {greatest} is {greatest - now_ms} ms ahead, "
            f"message.timestamp.after.max.ms is {config.timestamp_after_max_ms}",
        )


def stamp_batch(data: bytearray | memoryview, now_ms: int) -> None:
    """Give the batch the broker's time, in place: attribute bit 3 and the greatest timestamp, which
    is then that of all its records. The CRC covers both, so it is computed again."""
    data[_LOW_ATTRIBUTES_AT] |= _LOG_APPEND_TIME
    _TIME.pack_into(data, _MAX_TIMESTAMP_AT, now_ms)
    _CRC.pack_into(data, _CRC_AT, crc32c.crc32c(memoryview(data)[_ATTRIBUTES_AT:]))
