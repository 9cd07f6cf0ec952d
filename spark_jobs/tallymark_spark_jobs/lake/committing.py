"""One way to commit, whatever the format: check, try, and after a race look before trying again.

Formats differ in what they do with two writers. Left alone, Delta accepts a commit that was made
once already, as long as the handle is fresh; Iceberg's client by default lays the files of an
overtaken writer on top of the newer version, and they are in the table twice. So no format is
trusted with more than one thing: that a version is made on top of exactly the version that was
read, or not at all. Whatever moved in between is looked at here.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from tallymark.errors import UserError
from tallymark_spark_jobs.lake.commits import check_repairs, files_of
from tallymark_spark_jobs.lake.heads import Pending, commit_from, id_of, pending
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import (
    NO_VERSION,
    Append,
    Commit,
    DataFile,
    OffsetRange,
    PartitionKey,
    Snapshot,
)
from tallymark_spark_jobs.lake.tiling import check_append, check_offsets

if TYPE_CHECKING:
    import pyarrow

TRIES: Final = 30
"""So often a commit is tried while others keep being faster, without touching its partitions."""
_LONGEST_WAIT_S: Final = 0.5

S = TypeVar("S", bound=Snapshot)


class Raced(Exception):
    """Another version was made since the snapshot was read; this one was not."""


class Busy(UserError):
    """Other writers were faster each time. Nothing was written."""


class Version(NamedTuple):
    """A version of the table that has a head."""

    version: int
    at_ms: int
    head: str


class Change(NamedTuple):
    """What one version does. ``offsets`` are the partitions whose end moves; ``repaired`` those
    that are loaded again below it. ``rewrites``: the removed files hold the same rows as the added
    ones."""

    added: Sequence[DataFile]
    removed: Sequence[DataFile]
    offsets: Sequence[OffsetRange]
    repaired: Sequence[OffsetRange]
    rewrites: bool
    pending: Pending


class CommittedTable(ABC, Generic[S]):
    """What the formats share. A format opens, says what a snapshot holds, and makes a version on
    top of a snapshot or raises :class:`Raced`."""

    storage: Storage
    most_inline: int
    """A detail of more bytes is a file of its own."""

    @property
    def location(self) -> str:
        """See :class:`~tallymark_spark_jobs.lake.table.LakeTable`, as for all that follow."""
        return self.storage.location

    @abstractmethod
    def open(self) -> S:
        """The newest version."""

    @abstractmethod
    def offsets(self, snapshot: Snapshot) -> Mapping[PartitionKey, int]:
        """The ends of what is loaded."""

    @abstractmethod
    def versions(self, since: int = 0) -> Iterator[Version]:
        """Those with a head, oldest first."""

    @abstractmethod
    def make(self, columns: pyarrow.Schema) -> None:
        """Make the table, without rows. Raced: another writer does the same."""

    @abstractmethod
    def add_columns(self, snapshot: S, columns: pyarrow.Schema) -> None:
        """Add these to the columns of the table. Raced: another writer was faster."""

    def prepared(self, snapshot: S, rows: pyarrow.Schema | None) -> S:
        """The table with the columns of ``rows``, made if it does not exist: the snapshot itself
        where nothing is to do. They are changed before the commit, in versions of their own:
        nothing is wrong with a table that has a column more than its rows. Raced: another writer
        does the same. Refused: it cannot have these columns."""
        from tallymark_spark_jobs.lake.columns import columns_to_add, first_columns

        if snapshot.version == NO_VERSION:
            self.make(first_columns(rows))
            return self.prepared(self.open(), rows)
        added = columns_to_add(snapshot.schema(), rows) if rows is not None else None
        if not added:
            return snapshot
        self.add_columns(snapshot, added)
        return self.prepared(self.open(), rows)

    @abstractmethod
    def try_change(self, snapshot: S, change: Change) -> None:
        """Make the version. Raced: another was faster, and this one does not exist. UserError: it
        may exist or not."""

    @abstractmethod
    def named_files(self, paths: Iterable[str], grace_ms: int) -> set[str]:
        """Those of the paths that a version names, if only one that is older than ``grace_ms``."""

    @abstractmethod
    def own_file(self, path: str) -> bool:
        """Whether the file belongs to the format itself."""

    def forget(self, days: int) -> int:
        """Let go of versions that are older, with their tallies, where the format does not do it by
        itself; how many. Rows and offsets stay. Raced: another writer was faster."""
        return 0

    def heads(self) -> Iterator[Version]:
        """Every version with a head that the table has, also those it was rolled back from."""
        return self.versions()

    @abstractmethod
    def mine(self, snapshot: Snapshot) -> S:
        """The snapshot as one of this format."""

    def commit(self, snapshot: Snapshot, append: Append) -> Commit:
        """Make the append part of the table, in one step."""
        check_append(append)
        base = self.mine(snapshot)
        check_offsets(append, self.offsets(base))
        change = Change(
            list(files_of(append)),
            (),
            () if append.repair else append.plan,
            append.plan if append.repair else (),
            False,
            pending(append, self.storage, self.most_inline),
        )

        def still_right(newer: S) -> None:
            check_offsets(append, self.offsets(newer))
            check_repairs(append, self.history(base.version + 1))

        return self.change(base, change, still_right, append.schema)

    def change(
        self,
        snapshot: S,
        change: Change,
        still_right: Callable[[S], None],
        rows: pyarrow.Schema | None = None,
        tries: int = TRIES,
    ) -> Commit:
        """Make the version on top of the snapshot, or of whatever others made of it: as long as
        ``still_right``, which is asked about each newer snapshot, does not raise. Busy: others were
        faster ``tries`` times."""
        now = snapshot
        for wait in waits(tries):
            try:
                ready = self.prepared(now, rows)
                if ready is not now:
                    still_right(ready)
                self.try_change(ready, change)
            except Raced:
                time.sleep(wait)
            except UserError:
                # The answer may be lost and the version be there all the same.
                if made := self._made(change, snapshot.version):
                    return made
                raise
            if made := self._made(change, snapshot.version):
                return made
            now = self.open()
            still_right(now)
        raise Busy(
            f"{self.location}: other writers were faster {tries} times. Nothing was written;"
            " look what else writes to this table, and run the job again"
        )

    def history(self, since: int = 0) -> Iterator[Commit]:
        """The commits, oldest first."""
        for version, at_ms, head in self.versions(since):
            yield commit_from(head, version, at_ms, self.storage)

    def _made(self, change: Change, since: int) -> Commit | None:
        """The version of this change, if there is one."""
        for version, at_ms, head in self.versions(since + 1):
            if id_of(head) == change.pending.id:
                return commit_from(head, version, at_ms, self.storage)
        return None


def waits(tries: int = TRIES) -> Iterator[float]:
    """Seconds between attempts, each as random as it may be, so that two writers part."""
    growing = (0.01 * 2**number for number in range(6))
    longest = chain(growing, repeat(_LONGEST_WAIT_S))
    return (random.uniform(0, limit) for limit, _ in zip(longest, range(tries), strict=False))
