"""Batches that cannot be read, and where a log goes on behind one.

Such a batch stops its partition, and no other, until the log is mended; unless the settings say
that it may be left out. Then it has to be
known where it ends, and the only one to tell is its own header, which may be damaged too. So it is
believed only if the log bears it out: what is read from there on begins there. A damage that the
next reading does not find was on the way, not in the log.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from tallymark.client.reading.fetched import Fetched
from tallymark.errors import CODES, CorruptMessageError, CorruptRecordError, KafkaError
from tallymark.mirror.progress import Partition

TIMES: Final = 3
"""How often in a row a batch has to be unreadable before it counts as damaged in the log."""


class Stopped(NamedTuple):
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


class UnreadableBatchError(Exception):
    """A batch whose CRC may be right, and whose records do not decode."""

    def __init__(self, stopped: Stopped) -> None:
        super().__init__(str(stopped))
        self.stopped = stopped


class Unchecked(Protocol):
    """A consumer that does not check CRCs."""

    def fetch(self, topic: str, partition: int, offset: int, *, max_wait_ms: int) -> Fetched: ...


class Damage:
    """What was found to be unreadable, by partition. For one thread."""

    def __init__(self) -> None:
        self._met: dict[Partition, tuple[int, int]] = {}
        """Offset, and how often it has been met."""

    def is_lasting(self, error: CorruptMessageError) -> bool:
        """Whether it has been met often enough."""
        partition = (error.topic, error.partition)
        offset, times = self._met.get(partition, (error.offset, 0))
        times = times + 1 if offset == error.offset else 1
        self._met[partition] = (error.offset, times)
        return times >= TIMES


def as_trouble(stopped: Stopped) -> KafkaError:
    """What keeps a consumer from the partition for a while, and from no other: it tries again what
    may pass, and somebody may mend the log."""
    return KafkaError(CODES["KAFKA_STORAGE_ERROR"], str(stopped))


def end_of_damage(reader: Unchecked, error: CorruptMessageError) -> Fetched | None:
    """An empty fetch that goes on behind the batch; None when nobody can say where that is, or
    there is no damage. ConnectError, KafkaError, TimedOutError: the cluster does not answer."""
    topic, partition, offset = error.topic, error.partition, error.offset
    try:
        found = reader.fetch(topic, partition, offset, max_wait_ms=0)
        if not found.batches or _is_sound(found):
            return None
        end = found.batches[0].header.next_offset
        if end != found.high_watermark:
            behind = reader.fetch(topic, partition, end, max_wait_ms=0)
            if not behind.batches or behind.batches[0].header.base_offset < end:
                return None
    except KafkaError as problem:
        if problem.retriable and not isinstance(problem, CorruptMessageError):
            raise
        return None
    return Fetched(
        topic, partition, offset, found.high_watermark, found.log_start_offset, (), end, -1
    )


def _is_sound(found: Fetched) -> bool:
    try:
        found.batches[0].check_crc()
    except CorruptRecordError:
        return False
    return True
