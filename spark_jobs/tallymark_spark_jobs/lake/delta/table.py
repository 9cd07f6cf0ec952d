"""A table in Delta Lake's format, through ``deltalake``: no catalogue and no JVM.

The ends of what is loaded are *application transactions* of the table, one a partition: its version
is the first offset that is not loaded. Two commits on top of one snapshot that name the same one
contradict each other, so the second is refused; a commit that names other partitions passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from tallymark.clock import now_ms
from tallymark.errors import UserError
from tallymark_spark_jobs.lake.columns import as_told
from tallymark_spark_jobs.lake.committing import Change, CommittedTable, Raced, Version
from tallymark_spark_jobs.lake.delta.log import restored_past_a_load, told_by, versions_there
from tallymark_spark_jobs.lake.delta.stats import stats_json
from tallymark_spark_jobs.lake.heads import KEY
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import (
    NO_VERSION,
    PARTITION_COLUMNS,
    SIDE_FOLDER,
    DataFile,
    PartitionKey,
    Place,
    Refused,
    Snapshot,
    marked_rows,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable as Handle

MOST_INLINE: Final = 64 * 1024
_SETTINGS: Final = {"delta.logRetentionDuration": "interval 365 days"}
"""How long the history of a table is kept: its tallies are in it."""


@dataclass(frozen=True)
class DeltaSnapshot:
    """The table at one version. ``handle`` is None before the table is made."""

    version: int
    handle: Handle | None
    known: dict[PartitionKey, int | None] = field(default_factory=dict, compare=False, repr=False)
    """Offsets that were looked up: half a millisecond each, and a topic may have thousands."""

    def loaded(self, key: PartitionKey) -> int | None:
        """The end of what is loaded of a partition."""
        if key not in self.known and self.handle is not None:
            self.known[key] = self.handle.transaction_version(_loaded(key))
        return self.known.get(key)

    def files(self) -> tuple[DataFile, ...]:
        """The files of this version."""
        if self.handle is None:
            return ()
        if "deletionVectors" in (self.handle.protocol().reader_features or ()):
            marked = pa.table(self.handle.deletion_vectors())
            if marked.num_rows:
                raise marked_rows(self.handle.table_uri)
        rows = pa.table(self.handle.get_add_actions(flatten=True))
        columns = (
            "path",
            "size_bytes",
            "num_records",
            *(f"partition.{c}" for c in PARTITION_COLUMNS),
        )
        found = zip(*(rows.column(name).to_pylist() for name in columns), strict=True)
        return tuple(
            DataFile(unquote(path), Place(topic, str(date), hour), rows or 0, size)
            for path, size, rows, topic, date, hour in found
        )

    def schema(self) -> pa.Schema:
        """The columns, those of the folders last."""
        if self.handle is None:
            return pa.schema([])
        return as_told(pa.schema(self.handle.schema().to_arrow()))


class DeltaLakeTable(CommittedTable[DeltaSnapshot]):
    """A :class:`~tallymark_spark_jobs.lake.table.LakeTable`."""

    most_inline = MOST_INLINE

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def open(self) -> DeltaSnapshot:
        """The newest version."""
        with self._errors():
            try:
                handle = DeltaTable(self.location, storage_options=self._options())
            except TableNotFoundError:
                return DeltaSnapshot(NO_VERSION, None)
            return DeltaSnapshot(handle.version(), handle)

    def offsets(self, snapshot: Snapshot) -> Mapping[PartitionKey, int]:
        """Looked up one by one; listing them reads the history. Refused: the table was restored to
        a version before its last load."""
        version = self.mine(snapshot).version
        if target := restored_past_a_load(self.storage, version):
            raise Refused(
                f"{self.location}: it was restored to {target}, and offsets were loaded after that"
                " version, so they do not say what the table holds. Restore the version of the last"
                " load, or load into a new table"
            )
        return _Offsets(self, self.mine(snapshot))

    def versions(self, since: int = 0) -> Iterator[Version]:
        """Those with a head, oldest first."""
        for told in told_by(self.storage, versions_there(self.storage, since)):
            if told.head:
                yield Version(told.version, int(told.info["timestamp"]), told.head)

    def make(self, columns: pa.Schema) -> None:
        """Its first version."""
        with self._raced(), self._errors():
            DeltaTable.create(
                self.location,
                _delta_schema(columns),
                mode="ignore",
                partition_by=list(PARTITION_COLUMNS),
                configuration=_SETTINGS,
                storage_options=self._options(),
            )

    def add_columns(self, snapshot: DeltaSnapshot, columns: pa.Schema) -> None:
        """A version on top of the snapshot's."""
        with self._raced(), self._errors():
            handle = DeltaTable(
                self.location, version=snapshot.version, storage_options=self._options()
            )
            handle.alter.add_columns(_delta_schema(columns).fields)

    def try_change(self, snapshot: DeltaSnapshot, change: Change) -> None:
        """One version: files, offsets, and what it says about itself."""
        handle = snapshot.handle
        assert handle is not None, "a snapshot that was not prepared"
        now = now_ms()
        marks = [Transaction(_loaded(span.key), span.end, now) for span in change.offsets]
        for span in change.repaired:
            name = _repaired(span.key)
            marks.append(Transaction(name, (handle.transaction_version(name) or 0) + 1, now))
        schema = handle.schema()
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                quote(file.path, safe="/="),
                file.bytes,
                file.place._asdict(),
                now,
                not change.rewrites,
                stats_json(file, snapshot.schema()),
            )
            for file in change.added
        ]
        actions += [
            RemoveAction(
                quote(file.path, safe="/="),
                not change.rewrites,
                now,
                size=file.bytes,
                partition_values=file.place._asdict(),
            )
            for file in change.removed
        ]
        with self._raced(), self._errors():
            handle.create_write_transaction(
                actions,
                "append",
                schema,
                list(PARTITION_COLUMNS),
                commit_properties=CommitProperties(
                    custom_metadata={KEY: change.pending.head}, app_transactions=marks
                ),
            )

    def named_files(self, paths: Iterable[str], grace_ms: int) -> set[str]:
        """Also those that were removed since less than ``grace_ms``, for readers of older
        versions."""
        handle = self.open().handle
        if handle is None:
            return set()
        with self._errors():
            unnamed = handle.vacuum(
                max(0, grace_ms // 3_600_000),
                dry_run=True,
                enforce_retention_duration=False,
                full=True,
            )
        newest = {file.path for file in self.open().files()}
        return (set(paths) - {unquote(path) for path in unnamed}) | newest

    def own_file(self, path: str) -> bool:
        """The log, and what deletions keep beside it."""
        return path.startswith("_") and not path.startswith(f"{SIDE_FOLDER}/")

    def mine(self, snapshot: Snapshot) -> DeltaSnapshot:
        """The snapshot as one of this format."""
        assert isinstance(snapshot, DeltaSnapshot), "a snapshot of another kind of table"
        return snapshot

    def _options(self) -> dict[str, str] | None:
        return dict(self.storage.options) or None

    @contextmanager
    def _raced(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError as error:
            raise Raced(str(error)) from error

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError:
            raise
        except (DeltaError, OSError) as error:
            raise UserError(f"{self.location}: {' '.join(str(error).split())}") from error


class _Offsets(Mapping[PartitionKey, int]):
    """A table knows its application transactions by name only, so a listing needs the names."""

    def __init__(self, table: DeltaLakeTable, snapshot: DeltaSnapshot) -> None:
        self._table = table
        self._snapshot = snapshot

    def __getitem__(self, key: PartitionKey) -> int:
        loaded = self._snapshot.loaded(key)
        if loaded is None:
            raise KeyError(key)
        return loaded

    def __iter__(self) -> Iterator[PartitionKey]:
        seen: dict[PartitionKey, None] = {}
        for commit in self._table.history():
            if commit.version <= self._snapshot.version and commit.operation == "load":
                seen.update((span.key, None) for span in commit.ranges)
        return iter(seen)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _delta_schema(columns: pa.Schema) -> DeltaSchema:
    """Refused: the format has no such type."""
    try:
        return DeltaSchema.from_arrow(columns)
    except Exception as error:
        raise Refused(f"a Delta table cannot hold these columns: {error}") from error


def _loaded(key: PartitionKey) -> str:
    return f"{KEY}/load/{_name(key)}"


def _repaired(key: PartitionKey) -> str:
    return f"{KEY}/repair/{_name(key)}"


def _name(key: PartitionKey) -> str:
    parts: list[Any] = [key.cluster_id, key.topic_id, key.topic, key.partition]
    return "/".join(quote(str(part), safe="") for part in parts)
