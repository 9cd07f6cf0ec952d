"""What one task does: read a span, write its rows as Parquet files, count them in the same pass.

Nothing that a task writes is part of the table. What it returns, a manifest, is made part of the
table by the driver's one commit; of a task that ran twice Spark returns one manifest, and the files
of the other run are orphans.

Failures that another try cannot mend are *returned*, not raised: Spark would try four times, and
then end a job that other topics' spans are part of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from tallymark.client import SimpleConsumer
from tallymark.client.core.security.deployment import ConnectionSettings
from tallymark.errors import AuthenticationError, KafkaError, TallymarkError, UserError
from tallymark_spark_jobs.counting.counter import CellCounter
from tallymark_spark_jobs.counting.tally import merged
from tallymark_spark_jobs.engine.files import located
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import Manifest, OffsetRange
from tallymark_spark_jobs.load.writing.files import SpanFiles
from tallymark_spark_jobs.load.writing.formats import RAW, RowFormat, RowMaker, joined
from tallymark_spark_jobs.load.writing.places import hours_of
from tallymark_spark_jobs.load.writing.quarantine import KIND, poison_rows
from tallymark_spark_jobs.load.writing.rows import Records
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.reading import Damage, Expired, read_tables
from tallymark_spark_jobs.source.tables import Table, TableReader, worth_compiling

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tallymark_spark_jobs.counting.tally import CellTally
    from tallymark_spark_jobs.source.reading import Fetcher, Piece


@dataclass(frozen=True, slots=True)
class LandTask:
    """One task: the span, where to read it and where to write. ``on_time``: rows of hours before it
    are late. ``passes``: offsets that cannot be read are left out and counted as lost."""

    range: OffsetRange
    leader_epoch: int
    connection: ConnectionSettings = field(repr=False)
    storage: Storage
    window_ms: int
    contents: bool = False
    target_bytes: int = 128 << 20
    on_time: int = 0
    passes: bool = False
    format: RowFormat = RAW

    @property
    def span(self) -> Span:
        key = self.range.key
        return Span(
            key.topic,
            key.partition,
            self.range.start,
            self.range.end,
            key.topic_id,
            self.leader_epoch,
        )


@dataclass(frozen=True, slots=True)
class Landed:
    """What became of a task: its manifest, or in one line why there is none. ``lost`` are ranges
    that could not be read, each with the reason."""

    range: OffsetRange
    manifest: Manifest | None = None
    failure: str = ""
    lost: tuple[tuple[OffsetRange, str], ...] = ()


class Lander(Protocol):
    """Runs tasks somewhere, and returns what became of each, in any order."""

    def __call__(self, tasks: Sequence[LandTask], /) -> Iterable[Landed]: ...


def land_here(tasks: Sequence[LandTask]) -> Iterator[Landed]:
    """A :class:`Lander` without Spark: one task after the other, in this process."""
    for task in tasks:
        yield attempt(task, last=True)


def attempt(task: LandTask, last: bool) -> Landed:
    """Land the task's span. ``last``: nothing will try again, so every error of ours is returned;
    otherwise those that may pass are raised."""
    worth_compiling(task.span.offsets)
    try:
        with SimpleConsumer(
            **located(task.connection),
            client_id="tallymark-load",
            isolation="read_committed",
        ) as consumer:
            return land(task, consumer)
    except (TallymarkError, OSError) as error:
        if last or is_permanent(error):
            return Landed(task.range, failure=f"{task.range.key}: {_in_one_line(error)}")
        raise


def is_permanent(error: BaseException) -> bool:
    """Whether it is in vain to try the same again."""
    if isinstance(error, KafkaError):
        return not error.retriable
    return isinstance(error, UserError | AuthenticationError)


def land(task: LandTask, consumer: Fetcher) -> Landed:
    """Read the span of the task from ``consumer`` and write its files. When it raises, files that
    it wrote are removed again. UserError: the log does not hold the span any more, a batch cannot
    be read, or the files cannot be written; else errors of the client."""
    key, start, end = task.range
    files = SpanFiles(
        task.storage,
        key.topic,
        f"p{key.partition:05d}-{start}-{end}",
        task.format.schema,
        task.target_bytes,
        task.on_time,
    )
    try:
        with closing(task.format.opened()) as maker:
            return _Landing(task, files, maker).run(consumer)
    except BaseException:
        files.abandon()
        raise


class _Landing:
    """The state of one span's landing."""

    def __init__(self, task: LandTask, files: SpanFiles, maker: RowMaker) -> None:
        key = task.range.key
        self._task = task
        self._files = files
        self._maker = maker
        self._counter = CellCounter(key.topic, key.partition, task.window_ms, task.contents)
        self._tallies: list[CellTally] = []
        self._lost: list[tuple[OffsetRange, str]] = []
        self._poison: list[Any] = []
        self._quarantined = 0
        self._next = task.range.start
        self._read = 0

    def run(self, consumer: Fetcher) -> Landed:
        span, passes = self._task.span, self._task.passes
        for found in read_tables(consumer, span, TableReader(), passes, expires=passes):
            if isinstance(found, Damage | Expired):
                self._leave_out(found)
            elif isinstance(found, Table):
                self._counter.add_table(found)
                self._take(found)
            else:
                for piece in found:
                    self._counter.add(piece)
                self._take(found)
        self._pass_tallies_on()
        side = tuple(self._files.side_file(KIND, table) for table in joined(self._poison))
        files = self._files.finish()
        expired = sum(one.end - one.start for one, _ in self._lost)
        manifest = Manifest(
            span=self._task.range,
            files=files,
            rows=self._read - self._quarantined,
            quarantined=self._quarantined,
            gaps=span.offsets - self._read - expired,
            expired=expired,
            tallies=tuple(merged(self._tallies)),
            side_files=side,
        )
        return Landed(self._task.range, manifest, lost=tuple(self._lost))

    def _take(self, found: Sequence[Piece] | Table) -> None:
        if self._counter.full:
            self._pass_tallies_on()
        records = Records(self._task.range.key, found)
        self._check_order(records)
        hours = hours_of(records.timestamps)
        batch, bad = self._maker.rows(records, hours < self._task.on_time)
        keep = records.committed
        poison = [(row, why) for row, why in bad if keep[row]]
        self._read += int(keep.sum())
        if poison:
            keep = keep.copy()
            keep[[row for row, _ in poison]] = False
            self._poison.append(poison_rows(records, poison))
            self._quarantined += len(poison)
        for hour, rows in by_hour(batch, hours, keep):
            self._files.add(hour, rows)

    def _check_order(self, records: Records) -> None:
        """A record that is there twice would be in the table twice."""
        offsets = records.offsets
        steps = np.diff(offsets, prepend=self._next - 1)
        if (steps <= 0).any():
            raise UserError(
                f"{self._task.range.key}: the broker gave offset "
                f"{offsets[int(np.argmax(steps <= 0))]} a second time",
                "tallymark verify-log on its broker shows what the log has there",
            )
        self._next = int(offsets[-1]) + 1

    def _leave_out(self, found: Damage | Expired) -> None:
        why = found.why if isinstance(found, Damage) else "deleted while it was being loaded"
        self._lost.append((OffsetRange(self._task.range.key, found.offset, found.end), why))

    def _pass_tallies_on(self) -> None:
        self._tallies += self._counter.tallies()
        self._counter.clear()


def by_hour(
    batch: Any, hours: NDArray[np.int64], keep: NDArray[np.bool_]
) -> Iterator[tuple[int, Any]]:
    """The rows that are kept, hour by hour."""
    whole = bool(keep.all())
    different = np.unique(hours if whole else hours[keep]).tolist()
    for hour in different:
        if whole and len(different) == 1:
            yield hour, batch
        else:
            yield hour, batch.filter(pa.array((hours == hour) & keep))


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
