"""A batch of one partition: columns of records, their result, the state of sending it.

Records are kept as they came and are encoded together when the batch is sent. Two values must be
those of the moment of send(): the time, which is kept, and the stamp's sequence, which is the
index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.delivery import OnDelivery, ProduceResult
from tallymark.protocol.records.column_writer import Columns, RunningHeader, encode_columns
from tallymark.protocol.records.compression import codec_number, compress
from tallymark.protocol.records.writer import batch_header
from tallymark.protocol.schema import Buffer

Identity: TypeAlias = tuple[int, int]
"""Producer id and epoch."""

NO_IDENTITY: Identity = (-1, -1)
NS: Final = 1_000_000
"""Nanoseconds of a millisecond."""


class ProducerBatch:
    """Records that leave together. The sending half touches it only once it is sealed.

    ``created`` and ``deadline`` are seconds of the monotonic clock; ``reserved`` the bytes it
    holds of the producer's buffer; ``room`` the bytes that may still come into it.
    """

    __slots__ = (
        "_payload",
        "_span",
        "_timestamps",
        "ambiguous",
        "attempts",
        "attributes",
        "base_sequence",
        "callbacks",
        "created",
        "deadline",
        "first_stamp",
        "grown",
        "headers",
        "identity",
        "keys",
        "known",
        "known_payload",
        "order",
        "part_of_ambiguous",
        "partition",
        "plain",
        "reports",
        "reserved",
        "result",
        "room",
        "sent_at",
        "settled",
        "size",
        "stamp",
        "stamped",
        "tally",
        "times",
        "topic",
        "values",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        stamp: RunningHeader | None,
        created: float,
        deadline: float,
        room: int = 0,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.stamp = stamp
        """The stamps of the records, as a header; None: the batch is not stamped."""
        self.stamped = stamp is not None
        self.first_stamp = -1 if stamp is None else stamp.first
        """Sequence in the stamp of the first record; -1 when the batch is not stamped."""
        self.created = created
        self.deadline = deadline
        self.reserved = 0
        self.room = room
        self.grown = 1
        """How many times the usual size it may have by now."""
        self.size = 0
        """Bytes, about: rather more than it will have uncompressed. Known when it is sealed."""
        self.values: list[Buffer | None] = []
        self.keys: list[Buffer | None] | None = None
        self.headers: list[bytes] | None = None
        """Each record's own headers as they are encoded; most batches have no such column."""
        self.times: list[int] = []
        """Nanoseconds: dividing is left to when the batch is sealed."""
        self.plain = True
        """Whether a value alone, stamped as usual on its topic, may be added to it."""
        self.known = 0
        """How many of the records have their lengths in ``known_payload``, their sum."""
        self.known_payload = 0
        self.result = ProduceResult(topic, partition)
        self.callbacks: dict[int, OnDelivery] = {}
        """Index of the record -> what to call; most records have none."""
        self.reports = 0
        """How many of the records are interceptors' own: flush() and close() do not wait for them.
        """
        self.tally: BatchTally | None = None
        self.order = -1
        """Place among the batches of its partition."""
        self.identity = NO_IDENTITY
        self.base_sequence = -1
        self.ambiguous = False
        """Whether it may be in the log, for all that answers have said."""
        self.part_of_ambiguous = False
        """Whether it is a half of a batch that may be in the log as a whole."""
        self.attempts = 0
        self.attributes = 0
        """Besides the codec, in the header: whether it is part of a transaction."""
        self.sent_at = 0.0
        self.settled = False
        self._timestamps: list[int] | None = None
        self._span = (0, 0)
        self._payload: Buffer | None = None

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.times)

    @property
    def user_records(self) -> int:
        """Number of records that came through send()."""
        return len(self.times) - self.reports

    @property
    def timestamps(self) -> list[int]:
        """Milliseconds, one a record; ask for it when the batch is sealed."""
        if self._timestamps is None:
            self._timestamps, self._span = _milliseconds(self.times)
            self.result.timestamps = self._timestamps
        return self._timestamps

    @property
    def span(self) -> tuple[int, int]:
        """The smallest and the largest of the timestamps."""
        assert self.timestamps, "a sealed batch has records"
        return self._span

    @property
    def oldest(self) -> int:
        """Smallest timestamp, ms; 2**63 when there is no record."""
        return min(self.times, default=NS * 2**63) // NS

    @property
    def payload(self) -> int:
        """Sum of the lengths of keys and values."""
        if self.known == len(self.times):
            return self.known_payload
        return _total(self.values) + _total(self.keys or ())

    def describe(self) -> str:
        """For error texts."""
        records = "1 record" if self.count == 1 else f"{self.count} records"
        return f"{records} for {self.topic}-{self.partition}"

    def pieces(self, compression: str, level: int | None = None) -> tuple[bytes, Buffer]:
        """The record batch as it goes out now, under its present identity and sequence: its header
        and its records, which are encoded once."""
        timestamps = self.timestamps
        if self._payload is None:
            columns = Columns(timestamps, self.values, self.keys, self.headers, self.stamp)
            self._payload = compress(compression, encode_columns(columns), level)
        producer_id, epoch = self.identity
        header = batch_header(
            self._payload,
            attributes=codec_number(compression) | self.attributes,
            count=len(timestamps),
            base_timestamp=timestamps[0],
            max_timestamp=self._span[1],
            producer=(producer_id, epoch, self.base_sequence),
        )
        return header, self._payload

    def encode(self, compression: str, level: int | None = None) -> bytes:
        """:meth:`pieces` as one."""
        return b"".join(self.pieces(compression, level))

    def split(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Two batches of half the records each, for a batch that the broker finds too large. Their
        numbers are the pipeline's business."""
        at = self.count // 2
        halves = self._part(0, at), self._part(at, self.count)
        timestamps = self.timestamps
        results = self.result.split(at)
        for half, result in zip(halves, results, strict=True):
            half.result = result
            half._timestamps = list(result.timestamps)
            half._span = min(half._timestamps), max(half._timestamps)
        assert len(timestamps) == halves[0].count + halves[1].count
        return halves

    def let_go(self) -> None:
        """It is settled: release all but its result, which may be kept for long."""
        self.settled = True
        self.values = []
        self.keys = self.headers = self._payload = None
        self.tally = None  # it shows the values

    def _part(self, start: int, stop: int) -> ProducerBatch:
        stamp = self.stamp
        if stamp is not None:
            stamp = stamp._replace(first=stamp.first + start)
        part = ProducerBatch(self.topic, self.partition, stamp, self.created, self.deadline)
        part.values = self.values[start:stop]
        part.keys = None if self.keys is None else self.keys[start:stop]
        part.headers = None if self.headers is None else self.headers[start:stop]
        part.times = self.times[start:stop]
        part.reserved = self.reserved // 2 if start else self.reserved - self.reserved // 2
        part.size = self.size * (stop - start) // self.count
        part.callbacks = {
            index - start: call for index, call in self.callbacks.items() if start <= index < stop
        }
        part.reports = min(self.reports, stop - start)  # all of them or none in practice
        part.attempts = self.attempts
        return part


def _total(column: Sequence[Buffer | None]) -> int:
    try:
        return sum(map(len, column))  # type: ignore[arg-type] # a None among them is the TypeError
    except TypeError:
        return sum(len(one) for one in column if one is not None)


def _milliseconds(times: Sequence[int]) -> tuple[list[int], tuple[int, int]]:
    """And the smallest and largest of them. Most batches are filled within one millisecond, which
    is quick to see; those of send_many at one moment, which is quicker."""
    start = times[0]
    first = start // NS
    if times[-1] == start and times.count(start) == len(times):
        return [first] * len(times), (first, first)
    low, high = min(times) // NS, max(times) // NS
    if low == high:
        return [low] * len(times), (low, high)
    return [time // NS for time in times], (low, high)
