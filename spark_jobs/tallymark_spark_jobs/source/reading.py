"""Read one span of one partition, start included, end excluded, and not one record more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import Batch, BatchHeader, Record
from tallymark.protocol.records.columns import RecordColumns
from tallymark_spark_jobs.source.damage import Damage, DamagedError, Expired, Notes
from tallymark_spark_jobs.source.fetching import Fetch, Fetcher, Taken, fetches
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.tables import BatchRead, Table, TableReader

__all__ = [
    "Damage",
    "DamagedError",
    "Expired",
    "Fetch",
    "Fetcher",
    "Piece",
    "Table",
    "read_span",
    "read_tables",
]

AT_ONCE: Final = 32 << 20
"""Bytes that are unpacked before they are handed on; one batch at least."""
RECORDS_AT_ONCE: Final = 65_536
"""And so many records: the columns of small ones are larger than their bytes."""
ANY_TIME: Final = -(1 << 63)


class Piece(NamedTuple):
    """A batch's header and those of its records that lie within the span, one at least; a batch of
    very many records makes several. ``aborted``: their transaction was, so a reader of committed
    records has left them out."""

    header: BatchHeader
    columns: RecordColumns
    aborted: bool = False

    def records(self) -> list[Record]:
        """The records one by one: several times dearer than the columns."""
        return self.columns.records()


def read_span(
    consumer: Fetcher,
    span: Span,
    passes: bool = False,
    *,
    expires: bool = False,
    since: int = ANY_TIME,
    aborted: bool = True,
) -> Iterator[list[Piece] | Damage | Expired]:
    """The records of the span, in lists of pieces that hold about :data:`AT_ONCE` bytes at most.
    Control batches are passed over; and so are batches that cannot be read, if ``passes``: then a
    Damage reports them; and what retention deletes meanwhile, if ``expires``: then it is an
    Expired. Batches whose greatest time (ms) lies before ``since`` are not unpacked. Those that a
    reader of committed records has left out are there too, marked, unless ``aborted`` is false.

    Raises DamagedError when it may not pass a batch that cannot be read, once all before it was
    given; else what :func:`~tallymark_spark_jobs.source.fetching.fetches` raises.
    """
    notes = Notes(span, passes)
    for found in fetches(consumer, span, notes, expires):
        if isinstance(found, Taken):
            yield from _pieces(
                list(_batches(found, span, since, aborted, notes)), found.offset, span, notes
            )
        else:
            yield found
    yield from notes.ended()


def read_tables(
    consumer: Fetcher,
    span: Span,
    tables: TableReader,
    passes: bool = False,
    *,
    expires: bool = False,
    since: int = ANY_TIME,
    aborted: bool = True,
) -> Iterator[Table | list[Piece] | Damage | Expired]:
    """Like :func:`read_span`, by the compiled loops where these are ready and can read a batch."""
    notes = Notes(span, passes)
    for found in fetches(consumer, span, notes, expires):
        if not isinstance(found, Taken):
            yield found
            continue
        loose: list[BatchRead] = []
        batches = list(_batches(found, span, since, aborted, notes))
        for part in tables.read(batches, max(span.start, found.offset), span.end):
            if not isinstance(part, Table):
                loose.append(part)
                continue
            yield from _pieces(loose, found.offset, span, notes)
            loose = []
            for time in part.newest_times():
                yield from notes.read(time)
            yield part
        yield from _pieces(loose, found.offset, span, notes)
    yield from notes.ended()


def _batches(
    taken: Taken, span: Span, since: int, with_aborted: bool, notes: Notes
) -> Iterator[BatchRead]:
    """The batches of a fetch that may hold records of the span, in the order of the log."""
    fetch = taken.fetch
    both = [(batch, False) for batch in fetch.batches]
    if fetch.left_out and with_aborted:
        both += [(batch, True) for batch in fetch.left_out]
        both.sort(key=lambda one: one[0].header.base_offset)
    for batch, aborted in both:
        header = batch.header
        outside = header.next_offset <= taken.offset or header.base_offset >= span.end
        if header.is_control or outside:
            continue
        if header.max_timestamp < since:
            notes.passed(header.max_timestamp)
        else:
            yield batch, aborted


def _pieces(
    batches: Sequence[BatchRead], offset: int, span: Span, notes: Notes
) -> Iterator[list[Piece] | Damage]:
    """The batches' records, unpacked one by one."""
    found: list[Piece] = []
    size = rows = 0
    for batch, aborted in batches:
        header = batch.header
        try:
            parts = _unpacked(batch)
        except CorruptRecordError as error:
            if found:
                yield found
                found, size, rows = [], 0, 0
            end = min(header.next_offset, span.end)
            yield from notes.unreadable(max(offset, header.base_offset), end, str(error))
            continue
        yield from notes.read(header.max_timestamp)
        is_inside = header.base_offset >= offset and header.next_offset <= span.end
        for part in parts:
            columns = part if is_inside else part.within(offset, span.end)
            if len(columns):
                found.append(Piece(header, columns, aborted))
            size, rows = size + columns.size, rows + len(columns)
            if found and (size >= AT_ONCE or rows >= RECORDS_AT_ONCE):
                yield found
                found, size, rows = [], 0, 0
    if found:
        yield found


def _unpacked(batch: Batch) -> Iterable[RecordColumns]:
    """The records of a batch, all of them verified: CorruptRecordError. Those of a batch of very
    many are read twice, so that never all of them are in memory."""
    size = batch.usual_max_size
    if batch.header.record_count <= RECORDS_AT_ONCE:
        return (batch.columns(size),)
    stretches = batch.stretches(size)
    for _ in stretches:
        pass
    return stretches
