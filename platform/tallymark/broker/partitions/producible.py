"""Checks of a producer's batch that the log does not make. Pure.

The log checks lengths, counts, size and CRC (:mod:`tallymark.log.validation.batch`); the checks
here depend on the sender and on the version of its request.
"""

from __future__ import annotations

from typing import Final

from tallymark.errors import CODES, KafkaError
from tallymark.protocol.records.batch import HEADER_SIZE
from tallymark.protocol.schema import Buffer

_MAGIC_AT: Final = 16
_ATTRIBUTES_LOW_AT: Final = 22
_CODEC: Final = 0x07
_ZSTD: Final = 4
_TRANSACTIONAL: Final = 0x10


def check_producible(records: Buffer, where: str, *, transactional: bool = False) -> None:
    """Raise UNSUPPORTED_FOR_MESSAGE_FORMAT for the formats before v2 (their magic byte has
    the same place), INVALID_TXN_STATE for a batch of a transaction unless it is checked as
    one (``transactional``)."""
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] in (0, 1):
        raise KafkaError(
            CODES["UNSUPPORTED_FOR_MESSAGE_FORMAT"],
            f"{where}: message format {records[_MAGIC_AT]}, 2 is what is stored",
        )
    if not transactional and is_transactional(records):
        raise KafkaError(CODES["INVALID_TXN_STATE"], f"{where}: the request is of no transaction")


def is_transactional(records: Buffer) -> bool:
    """Whether the batch belongs to a transaction."""
    return len(records) >= HEADER_SIZE and bool(records[_ATTRIBUTES_LOW_AT] & _TRANSACTIONAL)


def uses_zstd(records: Buffer) -> bool:
    """Whether the batch is compressed with zstd, which older request versions do not allow
    (KIP-110)."""
    return len(records) >= HEADER_SIZE and records[_ATTRIBUTES_LOW_AT] & _CODEC == _ZSTD
