"""What a table of the lake holds, and the port behind which its format lies.

A load *lands* files first: tasks write Parquet below :attr:`LakeTable.location` and return a
:class:`Manifest` each. Then the driver makes **one** commit of an :class:`Append`: files, ranges of
offsets and tallies become visible together, or nothing does. Files that no commit names are
orphans; no reader that asks the table sees them.

The offset where the next load of a partition begins is a part of the table, never of a file beside
it, and it is read in the very snapshot that the commit is based on: a writer that was overtaken is
refused with :class:`Conflict`, whatever it believes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from tallymark.errors import UserError

if TYPE_CHECKING:
    import pyarrow

    from tallymark_spark_jobs.counting.tally import CellTally

Operation = Literal["load", "repair", "compact", "verdicts"]
PARTITION_COLUMNS: Final = ("topic", "date", "hour")
"""The columns that the folders of a table are named after; they are not in its files."""
SIDE_FOLDER: Final = "_tallymark"
"""The folder of a table for files that are named by commits and hold no rows of the table."""
NO_VERSION: Final = -1
"""The version of a table that does not exist yet."""


class Conflict(UserError):
    """The partitions moved since the snapshot was read: another writer loaded them. Nothing was
    written. Open the table again, compare its offsets with the plan, and plan anew."""


class Refused(UserError):
    """A commit that would make the table wrong; trying again changes nothing."""


def marked_rows(location: str) -> Refused:
    """The error of a table in whose files rows are marked as deleted."""
    return Refused(
        f"{location}: another engine has marked rows as deleted without writing their files again"
        " (deletion vectors, delete files), so these files hold more rows than the table. Let that"
        " engine rewrite them (Delta: REORG TABLE ... APPLY (PURGE), Iceberg: rewrite_data_files)"
    )


class PartitionKey(NamedTuple):
    """A partition of a log for all time: a topic that is deleted and made anew has another
    ``topic_id`` (the text of its UUID) and starts from its own beginning. ``cluster_id`` is the id
    that the brokers report, not the name in the settings."""

    cluster_id: str
    topic_id: str
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetRange(NamedTuple):
    """Offsets of one partition, ``end`` excluded."""

    key: PartitionKey
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.key} {self.start} to {self.end - 1}"


class Place(NamedTuple):
    """Where the rows of a file belong: ``date`` as ``2026-01-31`` and ``hour`` as ``08``, both of
    the event time in UTC."""

    topic: str
    date: str
    hour: str

    @property
    def folder(self) -> str:
        """The folder below the table's location."""
        return f"topic={self.topic}/date={self.date}/hour={self.hour}"


class Bounds(NamedTuple):
    """What a file says about a column, so that readers may skip it. Times are microseconds since
    1970, UTC. None: not known (or, of ``lowest`` and ``highest``, all values are null)."""

    column: str
    lowest: int | float | str | bool | None
    highest: int | float | str | bool | None
    nulls: int | None = None


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with rows of one place. ``path`` is relative to the table's location,
    separated by ``/``. ``late_rows`` came when their hour had long ended."""

    path: str
    place: Place
    rows: int
    bytes: int
    late_rows: int = 0
    stats: tuple[Bounds, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one task made of its span. Of every offset of the span something is known::

        end - start == rows + quarantined + gaps + expired

    ``quarantined`` records could not be made rows; ``side_files`` holds them (paths relative to the
    table's location, below :data:`SIDE_FOLDER`). ``gaps`` are offsets without a record: control
    records, aborted and compacted ones. ``expired`` ones were deleted before they were loaded,
    which is a loss. ``tallies`` count rows and quarantined records; a topic that is
    not audited has none.
    """

    span: OffsetRange
    files: tuple[DataFile, ...] = ()
    rows: int = 0
    quarantined: int = 0
    gaps: int = 0
    expired: int = 0
    tallies: tuple[CellTally, ...] = ()
    side_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Append:
    """What one commit adds. ``plan`` are the ranges that were to be loaded, one a partition: the
    manifests have to tile them exactly. ``schema`` is that of the rows without
    :data:`PARTITION_COLUMNS`; columns which the table does not have yet are added to it, None
    leaves the table's as it is. ``job`` names the run in the table's history.

    ``repair`` loads ranges below the table's offsets once more, and leaves the offsets alone: for
    rows that the table lost. The caller has checked that the rows are not in the snapshot.
    """

    job: str
    plan: tuple[OffsetRange, ...]
    manifests: tuple[Manifest, ...]
    schema: pyarrow.Schema | None = None
    repair: bool = False


@dataclass(frozen=True, slots=True)
class Detail:
    """The long part of a commit: ``expired`` lists the ranges that hold an expired offset."""

    ranges: tuple[OffsetRange, ...] = ()
    tallies: tuple[CellTally, ...] = ()
    expired: tuple[OffsetRange, ...] = ()
    side_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of the table. ``version`` rises with every commit, not always by one: versions
    that this package did not write have no commit here.

    ``detail()`` has ranges and tallies. It may read a file, so it is called when they are wanted;
    it raises :class:`Refused` where this file is not the one that was committed.
    """

    version: int
    at_ms: int
    operation: Operation
    job: str
    rows: int = 0
    quarantined: int = 0
    late: int = 0
    gaps: int = 0
    expired: int = 0
    detail: Callable[[], Detail] = field(default=Detail, repr=False, compare=False)

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """What was loaded, one range a partition; see ``detail``."""
        return self.detail().ranges

    @property
    def tallies(self) -> tuple[CellTally, ...]:
        """What was counted of what was loaded, one a cell and task; see ``detail``."""
        return self.detail().tallies


class Snapshot(Protocol):
    """A table at one version; what is committed later does not change it."""

    @property
    def version(self) -> int:
        """:data:`NO_VERSION` before the first commit makes the table."""
        ...

    def files(self) -> Iterable[DataFile]:
        """The files that hold the rows; no others may be read. Refused: another engine has marked
        rows in them as deleted, so that they hold more than the table."""
        ...

    def schema(self) -> pyarrow.Schema:
        """The columns of the rows, :data:`PARTITION_COLUMNS` last. Empty before the first
        commit."""
        ...


class LakeTable(Protocol):
    """One table. Objects of it may be used by one thread at a time; any number of objects and
    processes may stand for the same table."""

    @property
    def location(self) -> str:
        """A path of this machine, or an address with ``://``."""
        ...

    def open(self) -> Snapshot:
        """The table as it is now. UserError: it cannot be read."""
        ...

    def offsets(self, snapshot: Snapshot) -> Mapping[PartitionKey, int]:
        """Of every partition that was ever loaded, the first offset that is not in the table."""
        ...

    def commit(self, snapshot: Snapshot, append: Append) -> Commit:
        """Make the append part of the table, in one step. Writers of other partitions do not
        matter. Conflict: the partitions moved since the snapshot. Refused: the manifests do not
        tile the plan, or the table cannot have these columns; nothing was written."""
        ...

    def history(self, since: int = 0) -> Iterator[Commit]:
        """The commits from version ``since`` on, oldest first, as far back as the table keeps
        them."""
        ...
