"""Log records as Arrow rows: the schemas of the source, and how a row is made.

``records`` has the columns of Spark's Kafka source; ``stamps`` is the narrow form for counting,
with the sender of a record instead of its contents, and its timestamp unchanged: ms UTC. Spark
takes batches only of exactly the declared schema and checks only the first, so every batch is built
with the one schema here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from tallymark.client.producing.stamps import (
    MAX_SEQUENCE,
    STAMP_HEADER,
    Stamp,
    stamp_ends,
    stamp_of,
    uvarint,
)
from tallymark.protocol.records.batch import Header, Record
from tallymark_audit.model.hashing import content
from tallymark_spark_jobs.source import columns
from tallymark_spark_jobs.source.reading import Damage

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])

RECORDS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
RECORDS_WITH_HEADERS: Final = RECORDS.append(
    pa.field("headers", pa.list_(pa.field("element", HEADER)))
)
STAMPS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("size", pa.int32()),
        ("stamped", pa.int8()),
        ("server", pa.string()),
        ("instance", pa.string()),
        ("origin_partition", pa.int32()),
        ("sequence", pa.int64()),
    ]
)

STAMPS_WITH_CONTENT: Final = STAMPS.append(pa.field("content", pa.int64()))
"""With the hash of which record it is and what it holds
(:func:`tallymark_audit.model.hashing.content`), 64 bits read as a signed number; null without a
stamp."""

_NOTHING: Final = object()
"""Equals no header's value, not even a null one."""
_LAST_MS: Final = (2**63 - 1) // 1000

UNSTAMPED: Final = 0
STAMPED: Final = 1
BROKEN_STAMP: Final = -1
ABORTED: Final = 2
DAMAGED: Final = 3
"""The values of the column ``stamped``. Rows of UNSTAMPED and BROKEN_STAMP have no origin and no
sequence; ABORTED ones are of a transaction that was aborted, and have them if they are stamped. A
row DAMAGED is no record: the log cannot be read from its offset on, ``server`` says why,
``timestamp`` is the newest that was read before it (-1: none was), and ``instance`` is the offset
the offset behind it and the time of the record there, as ``"30:1700000000000"`` (-1: not known)."""
NO_RECORD: Final = -1
"""The ``timestampType`` of such a row among records; its value says why, its key where it goes
on."""


def damaged_stamp(topic: str, partition: int, found: Damage, contents: bool = False) -> Any:
    """The one row of :data:`STAMPS` that says where a partition cannot be read."""
    row = [topic, partition, found.offset, found.since, 0, DAMAGED, found.why, _end(found)]
    row += [None, None]
    return _one(STAMPS_WITH_CONTENT, [*row, None]) if contents else _one(STAMPS, row)


def damaged_record(topic: str, partition: int, found: Damage, headers: bool) -> Any:
    """The same among :data:`RECORDS`."""
    key, value = _end(found).encode(), found.why.encode()
    row = [key, value, topic, partition, found.offset, _micros(found.since), NO_RECORD]
    return _one(RECORDS_WITH_HEADERS, [*row, None]) if headers else _one(RECORDS, row)


def _end(found: Damage) -> str:
    return f"{found.end}:{found.until}"


def end_of_damage(told: str) -> tuple[int, int]:
    """The offset behind the damage, and the time of the record there; -1: not known."""
    end, _, until = told.partition(":")
    return int(end), int(until)


def _one(schema: Any, row: Sequence[object]) -> Any:
    made = [pa.array([value], field.type) for value, field in zip(row, schema, strict=True)]
    return pa.RecordBatch.from_arrays(made, schema=schema)


def record_rows(
    topic: str, partition: int, records: Sequence[Record], types: Sequence[int], headers: bool
) -> Any:
    """A record batch of :data:`RECORDS` (with headers: :data:`RECORDS_WITH_HEADERS`). ``types``:
    of each record 0 for the producer's timestamp, 1 for the broker's."""
    made = [
        columns.binaries([record.key for record in records]),
        columns.binaries([record.value for record in records]),
        *_place(topic, partition, records),
        columns.integers([_micros(record.timestamp) for record in records], TIMESTAMP),
        columns.integers(types, pa.int32()),
    ]
    if not headers:
        return pa.RecordBatch.from_arrays(made, schema=RECORDS)
    return pa.RecordBatch.from_arrays([*made, _headers(records)], schema=RECORDS_WITH_HEADERS)


def stamp_rows(
    topic: str,
    partition: int,
    records: Sequence[Record],
    aborted: Sequence[bool] = (),
    contents: bool = False,
) -> Any:
    """A record batch of :data:`STAMPS`, with ``contents`` of :data:`STAMPS_WITH_CONTENT`. ``size``
    is the bytes of key and value, as claims count. ``aborted``: of each record, whether its
    transaction was; default: none."""
    stamps = StampColumns()
    for record in records:
        stamps.add(record.headers)
    sizes = [len(record.key or b"") + len(record.value or b"") for record in records]
    for at, is_aborted in enumerate(aborted):
        if is_aborted:
            stamps.kinds[at] = ABORTED
    made = [
        *_place(topic, partition, records),
        columns.integers([record.timestamp for record in records], pa.int64()),
        columns.integers(sizes, pa.int32()),
        columns.integers(stamps.kinds, pa.int8()),
        columns.utf8(stamps.servers),
        columns.utf8(stamps.instances),
        columns.integers(stamps.origins, pa.int32()),
        columns.integers(stamps.sequences, pa.int64()),
    ]
    if not contents:
        return pa.RecordBatch.from_arrays(made, schema=STAMPS)
    hashes = [
        None if sequence is None else _signed(content(sequence, record.key, record.value))
        for sequence, record in zip(stamps.sequences, records, strict=True)
    ]
    made.append(columns.integers(hashes, pa.int64()))
    return pa.RecordBatch.from_arrays(made, schema=STAMPS_WITH_CONTENT)


def _signed(number: int) -> int:
    """64 bits as Spark's bigint has them."""
    return number - (1 << 64) if number >> 63 else number


class StampColumns:
    """Stamps, read into lists, one a column; texts as UTF-8.

    Most stamps continue the one before: of these only the bytes are compared with what is
    expected, which is twice as fast as reading them."""

    def __init__(self) -> None:
        self.kinds: list[int] = []
        self.servers: list[bytes] = []
        self.instances: list[bytes] = []
        self.origins: list[int | None] = []
        self.sequences: list[int | None] = []
        self._expected: object = _NOTHING
        self._ends = (b"", b"")
        self._who: tuple[bytes, bytes, int] = (b"", b"", -1)
        self._next = 0

    def add(self, headers: Sequence[Header]) -> None:
        """One record's stamp. As in the collector, a server's name with a NUL in it, which no
        column of text holds, makes a stamp unreadable."""
        if len(headers) == 1 and headers[0][1] == self._expected and headers[0][0] == STAMP_HEADER:
            self._stamped()
            return
        stamp = stamp_of(headers)
        if isinstance(stamp, Stamp) and "\0" not in stamp.server:
            self._ends = stamp_ends(stamp.instance, stamp.partition, stamp.server)
            instance = stamp.instance.hex().encode()
            self._who = (self._ends[1], instance, stamp.partition)
            self._next = stamp.sequence
            self._stamped()
        else:
            self.kinds.append(UNSTAMPED if stamp is None else BROKEN_STAMP)
            self.servers.append(b"")
            self.instances.append(b"")
            self.origins.append(None)
            self.sequences.append(None)

    def _stamped(self) -> None:
        server, instance, origin = self._who
        self.kinds.append(STAMPED)
        self.servers.append(server)
        self.instances.append(instance)
        self.origins.append(origin)
        self.sequences.append(self._next)
        self._next += 1
        prefix, suffix = self._ends
        within = self._next <= MAX_SEQUENCE
        self._expected = prefix + uvarint(self._next) + suffix if within else _NOTHING


def _place(topic: str, partition: int, records: Sequence[Record]) -> list[Any]:
    rows = len(records)
    return [
        columns.constant(topic, rows),
        columns.integers([partition] * rows, pa.int32()),
        columns.integers([record.offset for record in records], pa.int64()),
    ]


def _micros(timestamp: int) -> int:
    """Spark's timestamps are microseconds in 64 bits: what Kafka's milliseconds in 64 bits hold
    beyond that (no date anyone means) becomes the last one there is."""
    return max(-_LAST_MS, min(timestamp, _LAST_MS)) * 1000


def _headers(records: Sequence[Record]) -> Any:
    """Null where a record has no header, as in Spark's Kafka source."""
    pairs = [pair for record in records for pair in record.headers]
    items = columns.structs(
        HEADER,
        [columns.strings([name for name, _ in pairs]), columns.binaries([v for _, v in pairs])],
    )
    sizes = [len(record.headers) or None for record in records]
    return columns.lists(RECORDS_WITH_HEADERS.field("headers").type, sizes, items)
