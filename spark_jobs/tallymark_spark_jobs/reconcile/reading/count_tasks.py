"""Count spans of logs in tasks: one Spark stage, no shuffle, a row a cell and task.

A task reads its spans with the client, counts them by columns
(:mod:`tallymark_spark_jobs.counting`), and yields tallies; and of each span a note of what it met:
how many records, damage, and what expired before it was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from tallymark.client import SimpleConsumer
from tallymark.client.core.security.deployment import ConnectionSettings
from tallymark.protocol.records.compiled.layout import TIMESTAMP
from tallymark_spark_jobs.counting import codec
from tallymark_spark_jobs.counting.arrow import column
from tallymark_spark_jobs.counting.counter import CellCounter
from tallymark_spark_jobs.counting.tally import CellTally
from tallymark_spark_jobs.engine.errors import in_one_line
from tallymark_spark_jobs.reconcile.reading.read_plan import Planned, ReadPlan
from tallymark_spark_jobs.reconcile.shapes.resolve import CellAt, shortened
from tallymark_spark_jobs.reconcile.shapes.tallies import Seen
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.reading import Damage, Expired, Piece, Table, read_tables
from tallymark_spark_jobs.source.tables import TableReader, worth_compiling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW_RANGES = 16
"""So many ranges of a cell a task sends at once in the cheap pass."""
ROWS: Final = 2_000
"""Tallies of one Arrow batch."""
CELL, SPAN = 0, 1
"""What a row is of."""
EVER: Final = (-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class Counting:
    """How to count. ``times`` (ms, the end excluded): of which records. ``most``: so many ranges
    of a cell are sent, None: all. ``only``: the cells that are wanted, None: all."""

    window_ms: int
    times: tuple[int, int] = EVER
    contents: bool = False
    most: int | None = None
    only: frozenset[CellAt] | None = None


class SpanNote(NamedTuple):
    """What a task met in one span. ``messages``: those that were counted, of times (ms) ``oldest``
    to ``newest``. ``expired``: up to which offset (excluded) retention had deleted it by then, 0 if
    nothing; ``left``: the time of the first record behind that, -1 if there is none."""

    cluster: str
    topic: str
    partition: int
    start: int
    end: int
    messages: int = 0
    oldest: int = -1
    newest: int = -1
    spread: bool = False
    damages: tuple[Damage, ...] = ()
    expired: int = 0
    left: int = -1


def schema() -> pa.Schema:
    """The columns of a row: ``kind``, ``cluster``, ``named``, ``note`` (JSON of a SpanNote), and
    those of a tally, which are null in the row of a span."""
    mine = [
        pa.field("kind", pa.int8()),
        pa.field("cluster", pa.string()),
        pa.field("named", pa.bool_()),
        pa.field("note", pa.string()),
    ]
    return pa.schema([*mine, *codec.schema()])


def count_frame(spark: SparkSession, plan: ReadPlan, how: Counting, parallelism: int) -> DataFrame:
    """The rows of the spans of the plan; nothing is read before an action."""
    from pyspark.sql.pandas.types import from_arrow_schema

    tasks = plan.tasks(parallelism)
    work = partial(_run, tasks, dict(plan.connections), how)
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return numbers.mapInArrow(work, from_arrow_schema(schema()))


def _run(
    tasks: Sequence[Sequence[Planned]],
    connections: Mapping[str, ConnectionSettings],
    how: Counting,
    batches: Iterator[Any],
) -> Iterator[Any]:
    """One Spark task: the numbers of the tasks to do."""
    with in_one_line():
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from count_spans(tasks[number], connections, how)


def count_spans(
    spans: Iterable[Planned], connections: Mapping[str, ConnectionSettings], how: Counting
) -> Iterator[pa.RecordBatch]:
    """The rows of these spans."""
    clients: dict[str, SimpleConsumer] = {}
    try:
        for cluster, span in spans:
            if cluster not in clients:
                clients[cluster] = SimpleConsumer(
                    **connections[cluster],
                    client_id="tallymark-reconcile",
                    isolation="read_committed",
                )
            for found in count_span(clients[cluster], cluster, span, how):
                if isinstance(found, SpanNote):
                    yield _note_row(found)
                else:
                    yield from rows_of(cluster, found, how)
    finally:
        for client in clients.values():
            client.close()


def count_span(
    consumer: SimpleConsumer, cluster: str, span: Span, how: Counting
) -> Iterator[list[CellTally] | SpanNote]:
    """Read a span and count it: tallies, as many at a time as memory may hold, and at the end what
    was met."""
    counter = CellCounter(span.topic, span.partition, how.window_ms, how.contents, times=how.times)
    note = SpanNote(cluster, span.topic, span.partition, span.start, span.end)
    worth_compiling(span.offsets)
    read = read_tables(consumer, span, TableReader(), True, expires=True, since=how.times[0])
    for found in read:
        if isinstance(found, Damage):
            note = note._replace(damages=(*note.damages, found))
        elif isinstance(found, Expired):
            note = note._replace(expired=found.end, left=-1)
        else:
            if note.expired and note.left < 0 and found:
                note = note._replace(left=max(0, _oldest(found)))
            for part in (found,) if isinstance(found, Table) else found:
                if isinstance(part, Table):
                    counter.add_table(part)
                else:
                    counter.add(part)
                if counter.full:
                    tallies = counter.tallies()
                    counter.clear()
                    note = _noted(note, tallies)
                    yield tallies
    tallies = counter.tallies()
    yield tallies
    yield _noted(note, tallies)


def _oldest(found: Table | list[Piece]) -> int:
    """The least timestamp (ms)."""
    if isinstance(found, Table):
        times: list[int] = found.column(TIMESTAMP).tolist()
        return min(times)
    return min(piece.columns.timestamp_bounds()[0] for piece in found)


def _noted(note: SpanNote, tallies: Sequence[CellTally]) -> SpanNote:
    """The note with what these tallies have counted."""
    if not tallies:
        return note
    times = [time for one in tallies for time in (one.min_timestamp, one.max_timestamp)]
    if note.newest >= 0:
        times += [note.oldest, note.newest]
    return note._replace(
        messages=note.messages + sum(one.messages for one in tallies if not one.aborted),
        oldest=max(-1, min(times)),
        newest=max(times),
        spread=note.spread or any(one.key.partition != note.partition for one in tallies),
    )


def rows_of(
    cluster: str, tallies: Iterable[CellTally], how: Counting = Counting(0)
) -> Iterator[pa.RecordBatch]:
    """Tallies as rows, those that are wanted, with as many ranges as may be sent."""
    wanted = [tally for tally in tallies if how.only is None or (cluster, tally.key) in how.only]
    for at in range(0, len(wanted), ROWS):
        some = wanted[at : at + ROWS]
        sent = some if how.most is None else [shortened(one, how.most) for one in some]
        named = [one is before for one, before in zip(sent, some, strict=True)]
        made = codec.to_arrow(sent)
        count = len(sent)
        mine = [
            column([CELL] * count, pa.int8()),
            column([cluster] * count, pa.string()),
            column(named, pa.bool_()),
            pa.nulls(count, pa.string()),
        ]
        yield pa.RecordBatch.from_arrays([*mine, *made.columns], schema=schema())


def _note_row(note: SpanNote) -> pa.RecordBatch:
    told = json.dumps(note)
    values = {"kind": SPAN, "cluster": note.cluster, "note": told}
    columns = [
        column([values[field.name]], field.type)
        if field.name in values
        else pa.nulls(1, field.type)
        for field in schema()
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema())


def notes_of(seen: Iterable[Seen]) -> list[SpanNote]:
    """What tasks would have noted that counted these, of each partition."""
    found: dict[tuple[str, str, int], list[CellTally]] = {}
    for cluster, tally, _ in seen:
        place = cluster, tally.key.topic, tally.first_partition
        found.setdefault(place, []).append(tally)
    return [_noted(SpanNote(*place, 0, 0), tallies) for place, tallies in found.items()]


@dataclass(slots=True)
class Counted:
    """The rows of a look, read again. ``seen`` is filled on the driver for small looks only."""

    notes: list[SpanNote] = field(default_factory=list[SpanNote])
    seen: list[Seen] = field(default_factory=list[Seen])


def read_rows(table: pa.Table) -> Counted:
    """The inverse: tallies and notes."""
    found = Counted()
    for batch in table.to_batches():
        kinds = batch.column("kind").to_pylist()
        notes = batch.column("note").to_pylist()
        found.notes += [
            _note(told) for kind, told in zip(kinds, notes, strict=True) if kind == SPAN
        ]
        found.seen += read_cells(batch)
    return found


def read_cells(rows: pa.RecordBatch | pa.Table) -> list[Seen]:
    """The tallies among the rows."""
    is_cell = [kind == CELL for kind in rows["kind"].to_pylist()]
    cells = rows.filter(column(is_cell, pa.bool_()))
    names = codec.schema().names
    tallies = codec.from_arrow(cells.select(names))
    clusters, named = cells["cluster"].to_pylist(), cells["named"].to_pylist()
    return [Seen(*one) for one in zip(clusters, tallies, named, strict=True)]


def _note(told: str) -> SpanNote:
    raw = SpanNote(*json.loads(told))
    return raw._replace(damages=tuple(Damage(*one) for one in raw.damages))


def exactly(how: Counting, only: Iterable[CellAt]) -> Counting:
    """The same, with all ranges, of these cells."""
    return replace(how, most=None, only=frozenset(only))
