"""What really happened: the producers' books, and every record of every log.

Read only after the verdicts are in. The logs are read here by themselves, record by record; nothing
of what the audit has counted is used. A log that no reader can read any more (deleted with its
topic, or behind a broken batch) is read from its files: :func:`read_files`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import CorruptRecordError, KafkaError, RemoteProtocolError, UserError
from tallymark.protocol.records.batch import Batch, Record, split_batches
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.proof.drill.applications.producer import message_value

LATELY_MS: Final = 5_000
"""A member of a group has reported what it was given longer ago than this: it does many times a
second."""


class SenderRun(NamedTuple):
    """Whose messages: topic and partition where they were first written, and by which run."""

    topic: str
    partition: int
    server: str
    instance: str


class MessageId(NamedTuple):
    """A message, wherever it is."""

    topic: str
    instance: str
    partition: int
    sequence: int


class AckedRecord(NamedTuple):
    """A record acknowledged to the application: its timestamp (ms), CRC-32 of its value."""

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
    """What one producer wrote down. ``acked``: (partition, sequence) -> :class:`AckedRecord`;
    ``aborted``: of transactions that cannot be committed any more."""

    cluster: str
    topic: str
    server: str
    instance: str
    acked: dict[tuple[int, int], AckedRecord] = field(
        default_factory=dict[tuple[int, int], AckedRecord]
    )
    sent: dict[int, int] = field(default_factory=dict[int, int])
    aborted: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])


Log = dict[SenderRun, dict[int, list[Seen]]]
"""A cluster's records: origin -> sequence -> every copy, in the order of offsets."""


class LostHost(NamedTuple):
    """A producer run that ended ``at`` (ms) together with its journal; ``reported``: up to when
    (ms) its last report says what it did."""

    cluster: str
    instance: str
    at: int
    reported: int = 1 << 62


class LostMember(NamedTuple):
    """A member of the group that ended ``at`` (ms) together with its journal."""

    server: str
    at: int


class OldLog(NamedTuple):
    """The log of a deleted topic's partition: its segments' files, kept when it was deleted; and
    the offset from which on its records were too young to have been counted for certain."""

    cluster: str
    topic: str
    files: tuple[Path, ...]
    young_from: int


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
            book.acked[partition, sequence] = AckedRecord(timestamp, crc)
        elif what == "aborted":
            book.aborted.add((row[0], row[1]))
        else:
            book.sent[row[0]] = row[1]
    return book


class Unreadable(NamedTuple):
    """The batch at ``offset`` cannot be read; the last record before it is of ``window`` (ms), the
    first one behind it of ``until``."""

    cluster: str
    topic: str
    partition: int
    offset: int
    window: int
    until: int = 2**63 - 1

    def covers(self, edge: str, topic: str, window: int) -> bool:
        """Whether this window of an edge cannot be known completely."""
        clusters = edge.partition("-to-")[::2]
        return (
            self.cluster in clusters and topic == self.topic and self.window <= window <= self.until
        )


class Consumed(NamedTuple):
    """What a group's application was given. ``in_hand``: what each member had when it was killed,
    by the member's server: whether it had gone beyond that is unknown. ``last``: of each member
    what it was given within its last seconds."""

    log: Log
    in_hand: dict[str, set[MessageId]]
    last: dict[str, set[MessageId]]


def read_consumed(path: Path, topic: str) -> Consumed:
    """See :class:`Consumed`; from the application's own book. Polls are its lines."""
    found = Consumed({}, {}, {})
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    polls: list[tuple[int, set[MessageId]]] = []
    server = ""
    for line in text.split("\n")[:-1]:
        what, *row = json.loads(line)
        if what == "member":
            _end_member(found, server, polls)
            (server,), polls = row, []
            continue
        at, messages = row
        polls.append((at, {_take(found.log, topic, one) for one in messages}))
    _end_member(found, server, polls)
    return found


def polls_of(path: Path, server: str) -> int:
    """How often this member, the last of the book, was given something; 0 if it is another."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    _, _, mine = text.rpartition('["member", ')
    return mine.count('["poll", ') if mine.startswith(json.dumps(server)) else 0


def _take(log: Log, topic: str, message: Sequence[Any]) -> MessageId:
    *where, partition, server, instance, sequence = message
    origin = SenderRun(topic, partition, server, instance)
    log.setdefault(origin, {}).setdefault(sequence, []).append(Seen(*where))
    return MessageId(topic, instance, partition, sequence)


def _end_member(found: Consumed, server: str, polls: list[tuple[int, set[MessageId]]]) -> None:
    if polls:
        last_at, in_hand = polls[-1]
        found.in_hand[server] = in_hand
        recent = [who for at, who in polls if at > last_at - LATELY_MS]
        found.last[server] = set().union(*recent)


def read_log(bootstrap: str, topics: Iterable[str]) -> Log:
    """Every stamped record of the topics that is committed. UserError: a stamp and its message
    disagree, so that the drill's books cannot be trusted."""
    found: Log = {}
    with SimpleConsumer(
        bootstrap_servers=bootstrap, client_id="drill-truth", isolation="read_committed"
    ) as consumer:
        for topic in topics:
            if topic not in consumer.topics():
                continue
            ends = consumer.end_offsets(topic)
            for partition, start in consumer.start_offsets(topic).items():
                _read_partition(consumer, found, topic, partition, (start, ends[partition]))
    return found


def read_files(files: Iterable[Path], topic: str, partition: int, found: Log) -> None:
    """Add every stamped record of these segments to what was found. A batch with a broken CRC is
    left out."""
    for path in files:
        for batch in split_batches(path.read_bytes()):
            if crc_is_right(batch):
                add_records(found, topic, partition, batch.records())


def read_young(old: OldLog) -> set[MessageId]:
    """The messages of a deleted log that were perhaps not counted."""
    records = [
        record
        for path in old.files
        for batch in split_batches(path.read_bytes())
        for record in batch.records()
        if record.offset >= old.young_from
    ]
    stamps = [stamp for record in records if isinstance(stamp := stamp_of(record.headers), Stamp)]
    return {MessageId(old.topic, one.instance.hex(), one.partition, one.sequence) for one in stamps}


def crc_is_right(batch: Batch) -> bool:
    """Whether the batch's bytes are those that were written."""
    try:
        batch.check_crc()
    except CorruptRecordError:
        return False
    return True


def read_marked(bootstrap: str, topic: str, marks: Collection[int]) -> int:
    """How many records of a topic have a value whose CRC-32 is one of these."""
    count = 0
    with SimpleConsumer(bootstrap_servers=bootstrap, client_id="drill-truth") as consumer:
        if topic not in consumer.topics():
            return 0
        ends = consumer.end_offsets(topic)
        for partition, offset in consumer.start_offsets(topic).items():
            while offset < ends[partition]:
                fetched = consumer.fetch(topic, partition, offset, max_bytes=4 << 20)
                count += sum(zlib.crc32(value or b"") in marks for value in fetched.values())
                offset = max(fetched.next_offset, offset + 1)
    return count


def read_reports(bootstrap: str) -> dict[str, int]:
    """By run, up to when (ms) its newest report in the cluster's log is complete. Events that were
    damaged on the way are none."""
    found: dict[str, int] = {}
    with SimpleConsumer(bootstrap_servers=bootstrap, client_id="drill-truth") as consumer:
        span = consumer.start_offsets(AUDIT_TOPIC)[0], consumer.end_offsets(AUDIT_TOPIC)[0]
        for record in _records(consumer, AUDIT_TOPIC, 0, span):
            with suppress(RemoteProtocolError):
                event = decode_event(record.value or b"")
                found[event.instance] = max(found.get(event.instance, 0), event.complete_through)
    return found


def _read_partition(
    consumer: SimpleConsumer, found: Log, topic: str, partition: int, span: tuple[int, int]
) -> None:
    add_records(found, topic, partition, _records(consumer, topic, partition, span))


def _records(
    consumer: SimpleConsumer, topic: str, partition: int, span: tuple[int, int]
) -> Iterator[Record]:
    offset, end = span
    while offset < end:
        try:
            fetched = consumer.fetch(topic, partition, offset, max_bytes=4 << 20)
        except KafkaError as error:
            raise UserError(f"the truth of {topic}-{partition} cannot be read: {error}") from error
        yield from fetched.records()
        offset = max(fetched.next_offset, offset + 1)


def add_records(found: Log, topic: str, partition: int, records: Iterable[Record]) -> None:
    """Add the stamped ones among these records of a partition. UserError: a stamp and its message
    disagree."""
    for record in records:
        stamp = stamp_of(record.headers)
        if not isinstance(stamp, Stamp):
            continue
        _hold_against(stamp, record.value)
        origin = SenderRun(topic, stamp.partition, stamp.server, stamp.instance.hex())
        seen = Seen(partition, record.offset, record.timestamp, zlib.crc32(record.value or b""))
        found.setdefault(origin, {}).setdefault(stamp.sequence, []).append(seen)


def _hold_against(stamp: Stamp, value: bytes | None) -> None:
    """The value of a message that is not damaged says the same as its stamp."""
    expected = message_value(stamp.server, stamp.partition, stamp.sequence)
    if value is None or len(value) != len(expected):
        raise UserError(f"the message of {stamp} holds {value!r}: the books cannot be trusted")
