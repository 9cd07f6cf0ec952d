"""A table in memory, behind the port of the real ones, for tests of what loads and reads.

It runs through the tests that hold the table formats, so that it refuses what they refuse. Objects
that share a :class:`MemoryStore` stand for one table, as processes do for a real one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallymark.clock import now_ms
from tallymark_spark_jobs.lake.commits import check_repairs, commit_of, files_of
from tallymark_spark_jobs.lake.table import (
    NO_VERSION,
    Append,
    Commit,
    DataFile,
    PartitionKey,
    Snapshot,
)
from tallymark_spark_jobs.lake.tiling import check_append, check_offsets

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """The table after its first ``version`` + 1 commits."""

    version: int
    kept: tuple[DataFile, ...]
    columns: pyarrow.Schema | None
    loaded: Mapping[PartitionKey, int]

    def files(self) -> tuple[DataFile, ...]:
        """See :class:`~tallymark_spark_jobs.lake.table.Snapshot`."""
        return self.kept

    def schema(self) -> pyarrow.Schema:
        """See :class:`~tallymark_spark_jobs.lake.table.Snapshot`."""
        import pyarrow

        return pyarrow.schema([]) if self.columns is None else self.columns


@dataclass(slots=True)
class MemoryStore:
    """What the objects of one table share."""

    newest: MemorySnapshot = field(default_factory=lambda: MemorySnapshot(NO_VERSION, (), None, {}))
    commits: list[Commit] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class MemoryTable:
    """A :class:`~tallymark_spark_jobs.lake.table.LakeTable`. ``location`` is where the files lie,
    which it never looks at."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        location: str = "/nowhere",
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.location = location
        self.store = store or MemoryStore()
        self._clock = clock

    def open(self) -> MemorySnapshot:
        """See :class:`~tallymark_spark_jobs.lake.table.LakeTable`, as for all that follow."""
        return self.store.newest

    def offsets(self, snapshot: Snapshot) -> Mapping[PartitionKey, int]:
        """The ends of what is loaded."""
        return dict(self._mine(snapshot).loaded)

    def commit(self, snapshot: Snapshot, append: Append) -> Commit:
        """Check and keep the append."""
        check_append(append)
        check_offsets(append, self._mine(snapshot).loaded)
        with self.store.lock:
            before = self.store.newest
            check_offsets(append, before.loaded)
            check_repairs(append, self.history(snapshot.version + 1))
            commit = commit_of(append, before.version + 1, self._clock())
            loaded = dict(before.loaded)
            if not append.repair:
                loaded.update((span.key, span.end) for span in append.plan)
            self.store.newest = MemorySnapshot(
                commit.version,
                (*before.kept, *files_of(append)),
                _columns(before.columns, append.schema),
                loaded,
            )
            self.store.commits.append(commit)
        return commit

    def history(self, since: int = 0) -> Iterator[Commit]:
        """The commits, which are never forgotten."""
        return iter([commit for commit in self.store.commits if commit.version >= since])

    def _mine(self, snapshot: Snapshot) -> MemorySnapshot:
        assert isinstance(snapshot, MemorySnapshot), "a snapshot of another kind of table"
        return snapshot


def _columns(before: pyarrow.Schema | None, rows: pyarrow.Schema | None) -> pyarrow.Schema | None:
    if rows is None:
        return before
    from tallymark_spark_jobs.lake.columns import evolved, with_partition_columns

    return evolved(before, rows) if before is not None else with_partition_columns(rows)
