"""What really happened: the producers' books, and every record that stands in every log.

Read only after the verdicts are in. The logs are read here by themselves, record by record; nothing
of what the audit has counted is used.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import KafkaError, UserError
from tallymark_audit.drill.producer import value_of


class Origin(NamedTuple):
    """Whose messages: topic and partition where they were first written, and by which run."""

    topic: str
    partition: int
    server: str
    instance: str


class Told(NamedTuple):
    """What the application was told is safe: when it was stamped (ms), CRC-32 of its value."""

    timestamp: int
    crc: int


class Seen(NamedTuple):
    """One record in a log."""

    partition: int
    offset: int
    timestamp: int
    crc: int


@dataclass(slots=True)
class Book:
    """What one producer wrote down. ``acked``: (partition, sequence) -> :class:`Told`."""

    cluster: str
    topic: str
    server: str
    instance: str
    acked: dict[tuple[int, int], Told] = field(default_factory=dict[tuple[int, int], Told])
    sent: dict[int, int] = field(default_factory=dict[int, int])


Log = dict[Origin, dict[int, list[Seen]]]
"""A cluster's records: origin -> sequence -> every copy, in the order of offsets."""


class LostHost(NamedTuple):
    """A producer run that ended ``at`` (ms) together with its journal."""

    cluster: str
    instance: str
    at: int


def read_books(folder: Path) -> list[Book]:
    """The books of all producers of the drill."""
    found = [read_book(path) for path in sorted(folder.glob("*.book"))]
    return [book for book in found if book is not None]


def read_book(path: Path) -> Book | None:
    """One book; None: its producer never came to write. A line that a kill cut is left out."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    rows = [json.loads(line) for line in text.splitlines() if line.endswith("]")]
    if not rows:
        return None
    book = Book(*rows[0][1:])
    for what, *row in rows[1:]:
        if what == "acked":
            partition, sequence, timestamp, crc = row
            book.acked[partition, sequence] = Told(timestamp, crc)
        else:
            book.sent[row[0]] = row[1]
    return book


def read_consumed(path: Path, topic: str) -> Log:
    """What a group's application was given, from its own book."""
    found: Log = {}
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for line in text.splitlines():
        if line.endswith("]"):
            *where, partition, server, instance, sequence = json.loads(line)
            origin = Origin(topic, partition, server, instance)
            found.setdefault(origin, {}).setdefault(sequence, []).append(Seen(*where))
    return found


def read_log(bootstrap: str, topics: Iterable[str]) -> Log:
    """Every stamped record of the topics. UserError: a stamp and its message disagree, so that the
    drill's books cannot be trusted."""
    found: Log = {}
    with SimpleConsumer(bootstrap_servers=bootstrap, client_id="drill-truth") as consumer:
        for topic in topics:
            if topic not in consumer.topics():
                continue
            ends = consumer.end_offsets(topic)
            for partition, start in consumer.start_offsets(topic).items():
                _read_partition(consumer, found, topic, partition, (start, ends[partition]))
    return found


def _read_partition(
    consumer: SimpleConsumer, found: Log, topic: str, partition: int, span: tuple[int, int]
) -> None:
    offset, end = span
    while offset < end:
        try:
            fetched = consumer.fetch(topic, partition, offset, max_bytes=4 << 20)
        except KafkaError as error:
            raise UserError(f"the truth of {topic}-{partition} cannot be read: {error}") from error
        for record in fetched.records():
            stamp = stamp_of(record.headers)
            if not isinstance(stamp, Stamp):
                continue
            _hold_against(stamp, record.value)
            origin = Origin(topic, stamp.partition, stamp.server, stamp.instance.hex())
            seen = Seen(partition, record.offset, record.timestamp, zlib.crc32(record.value or b""))
            found.setdefault(origin, {}).setdefault(stamp.sequence, []).append(seen)
        offset = max(fetched.next_offset, offset + 1)


def _hold_against(stamp: Stamp, value: bytes | None) -> None:
    """The value of a message that is not damaged says the same as its stamp."""
    expected = value_of(stamp.server, stamp.partition, stamp.sequence)
    if value is None or len(value) != len(expected):
        raise UserError(f"the message of {stamp} holds {value!r}: the books cannot be trusted")
