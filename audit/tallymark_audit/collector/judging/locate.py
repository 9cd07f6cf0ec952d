"""Find messages in a cluster: from identities to partitions and offsets, and the records.

The counter kept, for every cell, the first and the last offset it saw it at in each partition;
between those the log is read again, and the stamps identify the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from tallymark.client import FetchSpec
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.errors import CorruptMessageError, CorruptRecordError, KafkaError
from tallymark.protocol.records.batch import Batch, Record
from tallymark.protocol.topic_partition import EARLIEST
from tallymark_audit.model.cells import CellKey, Copy
from tallymark_audit.model.hashing import content
from tallymark_audit.model.log_reader import FetchedLike, LogReader
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.record_runs import Rules, SeenRun, runs_in
from tallymark_audit.store.counted import archive
from tallymark_audit.store.schema.rows import key_from_row
from tallymark_audit.store.schema.tables import observations

FETCH_BYTES: Final = 1 << 20
NEVER: Final = 2**63 - 1


class OffsetRange(NamedTuple):
    """Offsets ``first..last`` (included) of a partition that hold a cell."""

    partition: int
    first: int
    last: int


class Located(NamedTuple):
    """Messages of one cell at consecutive offsets of a log; the form of ``located`` in the cells of
    a verdict. First and last are both included."""

    cluster: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    first_sequence: int
    last_sequence: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Messages to look for: sequences of one cell."""

    key: CellKey
    sequences: RangeSet


def offset_ranges(connection: Connection, cluster: str, key: CellKey) -> list[OffsetRange]:
    """Where in the cluster the cell was seen, in the logs it has now."""
    columns = (
        observations.c.seen_partition,
        observations.c.first_offset,
        observations.c.last_offset,
    )
    query = select(*columns).where(
        observations.c.cluster == cluster,
        observations.c.topic == key.topic,
        observations.c.window == key.window,
        observations.c.partition == key.partition,
        observations.c.server == key.server,
        observations.c.instance == key.instance,
        observations.c.last_offset >= 0,
    )
    # Of a cell that is detached in part the first offset is not known.
    found = [OffsetRange(at, max(0, first), last) for at, first, last in connection.execute(query)]
    packed = archive.packed_rows(connection, observations, cluster, key.topic, [key.window])
    found += [
        OffsetRange(row["seen_partition"], max(0, row["first_offset"]), row["last_offset"])
        for row in packed
        if key_from_row(row) == key and row["last_offset"] >= 0
    ]
    return found


def locate(
    reader: LogReader,
    cluster: str,
    lost: Lost,
    within: Sequence[OffsetRange],
    window_ms: int,
) -> list[Located]:
    """The messages as the cluster has them now; those it no longer has are not in the answer.
    KafkaError: it cannot be read."""
    found: list[Located] = []
    left = lost.sequences
    rules = Rules(window_ms, NEVER)
    for span in within:
        for start, fetched in _fetch_all(reader, lost.key.topic, span):
            for run in _runs(fetched.batches, lost.key.topic, span.partition, start, rules):
                if run.key != lost.key or not left:
                    continue
                for first, last in left & RangeSet.single(run.first, run.last):
                    at = run.offset + first - run.first
                    place = (cluster, run.key.topic, span.partition)
                    _add(found, Located(*place, at, at + last - first, first, last))
                left = left - RangeSet.single(run.first, run.last)
    return found


@dataclass(frozen=True, slots=True)
class HeldCell:
    """Where a cluster holds a cell, under the name that it has there."""

    reader: LogReader
    topic: str
    within: Sequence[OffsetRange]


def changed(
    key: CellKey, sequences: RangeSet, upstream: HeldCell, downstream: HeldCell
) -> list[Copy]:
    """The records of a cell whose contents downstream differ from those upstream, with their
    offsets downstream; records that one side no longer has are left out. KafkaError: a log cannot
    be read."""
    wanted = {(key.instance, key.partition): sequences}
    told = {
        stamp.sequence: content(stamp.sequence, record.key, record.value)
        for span in upstream.within
        for stamp, record in records_between(upstream.reader, upstream.topic, span, wanted)
    }
    return [
        Copy(span.partition, record.offset, stamp.sequence)
        for span in downstream.within
        for stamp, record in records_between(downstream.reader, downstream.topic, span, wanted)
        if stamp.sequence in told
        and told[stamp.sequence] != content(stamp.sequence, record.key, record.value)
    ]


def _add(found: list[Located], place: Located) -> None:
    """Add it, joined to the place before if it continues that."""
    last = found[-1] if found else None
    if (
        last is not None
        and last[:3] == place[:3]
        and place.first_offset == last.last_offset + 1
        and place.first_sequence == last.last_sequence + 1
    ):
        found[-1] = last._replace(last_offset=place.last_offset, last_sequence=place.last_sequence)
    else:
        found.append(place)


def records_between(
    reader: LogReader, topic: str, span: OffsetRange, wanted: Mapping[tuple[str, int], RangeSet]
) -> Iterator[tuple[Stamp, Record]]:
    """The stamped records within a span that are ``wanted``: sequences by (instance as hex,
    origin partition). KafkaError: the log cannot be read."""
    for record in records_in(reader, topic, span):
        stamp = stamp_of(record.headers)
        if isinstance(stamp, Stamp):
            sequences = wanted.get((stamp.instance.hex(), stamp.partition), EMPTY)
            if stamp.sequence in sequences:
                yield stamp, record


def records_in(reader: LogReader, topic: str, span: OffsetRange) -> Iterator[Record]:
    """All records within a span that are still there. KafkaError: the log cannot be read."""
    for start, fetched in _fetch_all(reader, topic, span):
        for batch in fetched.batches:
            if not batch.header.is_control:
                for record in _readable(batch):
                    if start <= record.offset <= span.last:
                        yield record


def _readable(batch: Batch) -> Sequence[Record]:
    """Its records; none of a batch that does not decode, since its records cannot be copied."""
    try:
        return batch.records(batch.usual_max_size)
    except CorruptRecordError:
        return ()


def _runs(
    batches: Sequence[Batch], topic: str, partition: int, start: int, rules: Rules
) -> Iterator[SeenRun]:
    for batch in batches:
        with suppress(CorruptRecordError):
            yield from runs_in([batch], topic, partition, start, rules)


def _fetch_all(
    reader: LogReader, topic: str, span: OffsetRange
) -> Iterator[tuple[int, FetchedLike]]:
    """Fetches from the first offset that is still there up to the last one."""
    (log_start,) = reader.get_offsets_before(topic, span.partition, EARLIEST)
    at = max(span.first, log_start)
    while at <= span.last:
        specs: Any = [FetchSpec(topic, span.partition, at, -1)]
        answer = reader.multifetch(specs, max_bytes=FETCH_BYTES, max_wait_ms=100, min_bytes=1)[0]
        if isinstance(answer, CorruptMessageError) and answer.next_offset > at:
            at = answer.next_offset
            continue
        if isinstance(answer, KafkaError):
            raise answer
        if answer.next_offset <= at:
            return  # the end of the log
        yield at, answer
        at = answer.next_offset
