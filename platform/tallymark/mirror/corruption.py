"""Batches that cannot be read, and what becomes of them.

::

    the CRC does not hold     read three times, then left out (or its partition waits, as the
                              settings say), and told of; see tallymark.client.reading.behind
    the CRC holds, and the    somebody sent that, and nothing will mend it. Passed on as it is
    records do not decode,    where nobody has to open it; else, or where the target refuses it,
    or hold too much          left out and told of

Whatever it is, it is the matter of its own partition.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.protocol.records.batch import Batch

_UNFIT: Final = CODES["INVALID_RECORD"]
_PERHAPS: Final = frozenset(
    CODES[name]
    for name in (
        "CORRUPT_MESSAGE",
        "MESSAGE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "UNKNOWN_SERVER_ERROR",
    )
)
"""What brokers say of records that they cannot take apart, and of others."""


class StoppedPartition(NamedTuple):
    """A partition of the source that is not copied from ``offset`` on, since the batch there cannot
    be read; ``why`` says what does not hold."""

    topic: str
    partition: int
    offset: int
    why: str

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition} cannot be copied from offset {self.offset} on: "
            f"{self.why}"
        )


class UnfitBatchError(Exception):
    """The target refuses a batch for the records in it, and will whenever it is sent."""


def as_kafka_error(stopped: StoppedPartition) -> KafkaError:
    """What keeps a consumer from the partition for a while, and from no other: it tries again what
    may pass, and somebody may mend the log."""
    return KafkaError(CODES["KAFKA_STORAGE_ERROR"], str(stopped))


def is_unfit(batch: Batch, error: Exception) -> bool:
    """Whether the target's ``error`` means the records of the batch: it says so, or they cannot be
    taken apart here either."""
    if isinstance(error, CorruptRecordError) and not isinstance(error, KafkaError):
        return True
    if not isinstance(error, KafkaError) or error.code not in _PERHAPS:
        return isinstance(error, KafkaError) and error.code == _UNFIT
    try:
        batch.columns(batch.usual_max_size)
    except CorruptRecordError:
        return True
    return False
