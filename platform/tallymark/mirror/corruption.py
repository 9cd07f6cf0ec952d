"""Batches that cannot be read, and how a mirror handles them.

::

    the CRC does not hold     fetched three times, then left out (or its partition waits, as the
                              settings say) and reported; see tallymark.client.reading.behind
    the CRC holds, and the    a producer sent it so, and nothing repairs it. Copied as it is where
    records do not decode,    it need not be decoded; otherwise, or where the target refuses it,
    or hold too much          left out and reported

Other partitions are not affected.
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
"""Brokers return these for records that they cannot decode, and for other reasons, too."""


class StoppedPartition(NamedTuple):
    """A partition of the source that is not copied from ``offset`` on, since the batch there cannot
    be read, or the target refuses it; ``why`` is the reason."""

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
    """The target refuses a batch because of its records, and always will."""


def as_kafka_error(stopped: StoppedPartition) -> KafkaError:
    """An error with which a consumer leaves this partition alone for a while, and no other. The
    consumer tries again, since an operator may repair the log."""
    return KafkaError(CODES["KAFKA_STORAGE_ERROR"], str(stopped))


def is_unfit(batch: Batch, error: Exception) -> bool:
    """Whether the target's ``error`` is about the records of the batch: it says so, or they cannot
    be decoded here either."""
    if isinstance(error, CorruptRecordError) and not isinstance(error, KafkaError):
        return True
    if not isinstance(error, KafkaError) or error.code not in _PERHAPS:
        return isinstance(error, KafkaError) and error.code == _UNFIT
    try:
        batch.columns(batch.usual_max_size)
    except CorruptRecordError:
        return True
    return False
