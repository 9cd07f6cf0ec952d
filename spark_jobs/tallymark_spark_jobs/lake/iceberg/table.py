"""A table in Apache Iceberg's format, through ``pyiceberg`` and a catalogue.

The version is the *sequence number* of the snapshot, which rises by one with each. The ends of what
is loaded are one property of the table, made in the same transaction as the snapshot: its metadata
has them once, not once a snapshot. They carry the number of that snapshot, so a table that was
rolled back is seen. Files are partitioned by the three columns of their folders; what a file's
place is stands in the commit, so that no file is opened for it.

pyiceberg by default repeats an overtaken commit on top of the newer version. That setting is put to
zero in the table's properties, and in the handle too, since anyone may change properties.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table, TableProperties
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from tallymark.errors import UserError
from tallymark_spark_jobs.lake.columns import as_told
from tallymark_spark_jobs.lake.committing import Change, CommittedTable, Raced, Version
from tallymark_spark_jobs.lake.heads import KEY, ranges_in, ranges_out
from tallymark_spark_jobs.lake.iceberg.files import from_iceberg, path_of, to_iceberg
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import (
    NO_VERSION,
    PARTITION_COLUMNS,
    DataFile,
    OffsetRange,
    PartitionKey,
    Refused,
    Snapshot,
    marked_rows,
)

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Transaction
    from pyiceberg.table.snapshots import Snapshot as IcebergsSnapshot

MOST_INLINE: Final = 4 * 1024
"""Less than in Delta: every version of the table's metadata repeats the heads of all snapshots."""
OFFSETS: Final = f"{KEY}.offsets"
_SETTINGS: Final = {
    "format-version": "2",
    TableProperties.COMMIT_NUM_RETRIES: "0",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


@dataclass(frozen=True)
class IcebergSnapshot:
    """The table at one version. ``handle`` is None before the table is made."""

    version: int
    handle: Table | None
    storage: Storage

    def files(self) -> tuple[DataFile, ...]:
        """The files of this version."""
        if self.handle is None:
            return ()
        tasks = list(self.handle.scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise marked_rows(self.storage.location)
        return tuple(from_iceberg(task.file, self.storage) for task in tasks)

    def schema(self) -> pa.Schema:
        """The columns, those of the folders last."""
        if self.handle is None:
            return pa.schema([])
        return as_told(schema_to_pyarrow(self.handle.schema(), include_field_ids=False))


class IcebergTable(CommittedTable[IcebergSnapshot]):
    """A :class:`~tallymark_spark_jobs.lake.table.LakeTable`. ``catalogue`` makes a connection to
    the catalogue, ``name`` is the table's in it: a namespace and a name."""

    most_inline = MOST_INLINE

    def __init__(
        self, storage: Storage, catalogue: Callable[[], Catalog], name: tuple[str, str]
    ) -> None:
        self.storage = storage
        self._connect = catalogue
        self._name = name
        self._catalogue: Catalog | None = None

    def open(self) -> IcebergSnapshot:
        """The newest version."""
        with self._errors():
            try:
                handle = self._catalog().load_table(self._name)
            except NoSuchTableError:
                return IcebergSnapshot(NO_VERSION, None, self.storage)
        newest = handle.current_snapshot()
        version = newest.sequence_number or 0 if newest else 0
        return IcebergSnapshot(version, handle, self.storage)

    def offsets(self, snapshot: Snapshot) -> Mapping[PartitionKey, int]:
        """The ends of what is loaded. Refused: the table was rolled back."""
        mine = self.mine(snapshot)
        told = mine.handle.properties.get(OFFSETS) if mine.handle else None
        if told is None:
            return {}
        after, ends = _offsets_in(told)
        if after > mine.version:
            raise Refused(
                f"{self.location}: the table is at version {mine.version}, but offsets were loaded"
                f" with version {after}: it was rolled back, so they do not say what it holds."
                " Roll it forward again, or load into a new table"
            )
        return ends

    def versions(self, since: int = 0) -> Iterator[Version]:
        """Those with a head, oldest first, without what was rolled back."""
        handle = self.open().handle
        found = []
        for each in _lineage(handle) if handle else ():
            if (each.sequence_number or 0) < since:
                break
            if each.summary and (head := each.summary.additional_properties.get(KEY)):
                found.append(Version(each.sequence_number or 0, each.timestamp_ms, head))
        return reversed(found)

    def make(self, columns: pa.Schema) -> None:
        """A transaction of its own."""
        with self._errors(), self._raced():
            self._make(columns)

    def add_columns(self, snapshot: IcebergSnapshot, columns: pa.Schema) -> None:
        """Likewise."""
        assert snapshot.handle is not None, "a table that does not exist"
        with (
            self._errors(),
            self._raced(),
            _transaction(snapshot.handle) as made,
            made.update_schema() as update,
        ):
            update.union_by_name(columns)

    def try_change(self, snapshot: IcebergSnapshot, change: Change) -> None:
        """One snapshot, and with it the ends of what is loaded."""
        handle = snapshot.handle
        assert handle is not None, "a snapshot that was not prepared"
        summary = {KEY: change.pending.head}
        with self._errors(), self._raced(), _transaction(handle) as made:
            if change.offsets:
                ends = dict(self.offsets(snapshot))
                ends.update((span.key, span.end) for span in change.offsets)
                made.set_properties(
                    {OFFSETS: _offsets_out(handle.metadata.next_sequence_number(), ends)}
                )
            update = made.update_snapshot(summary)
            with update.overwrite() if change.removed else update.merge_append() as files:
                for file in change.added:
                    files.append_data_file(to_iceberg(file, self.storage, handle.metadata))
                gone = {file.path for file in change.removed}
                if gone:
                    for task in handle.scan().plan_files():
                        if from_iceberg(task.file, self.storage).path in gone:
                            files.delete_data_file(task.file)

    def heads(self) -> Iterator[Version]:
        """Every version with a head, also those it was rolled back from."""
        handle = self.open().handle
        for each in handle.metadata.snapshots if handle else ():
            if each.summary and (head := each.summary.additional_properties.get(KEY)):
                yield Version(each.sequence_number or 0, each.timestamp_ms, head)

    def forget(self, days: int) -> int:
        """Every version of the table's metadata lists all snapshots, so old ones are let go."""
        handle = self.open().handle
        newest = handle.current_snapshot() if handle else None
        if handle is None or newest is None:
            return 0
        border = datetime.now(UTC) - timedelta(days=days)
        old = [
            each.snapshot_id
            for each in handle.metadata.snapshots
            if each.timestamp_ms < border.timestamp() * 1000 and each is not newest
        ]
        if old:
            handle.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
            with self._errors(), self._raced():
                handle.maintenance.expire_snapshots().by_ids(old).commit()
        return len(old)

    def named_files(self, paths: Iterable[str], grace_ms: int) -> set[str]:
        """Those of every snapshot that the table has, however old."""
        handle = self.open().handle
        if handle is None:
            return set()
        with self._errors():
            manifests = {
                manifest.manifest_path: manifest
                for snapshot in handle.metadata.snapshots
                for manifest in snapshot.manifests(handle.io)
            }
            return {
                path_of(entry.data_file.file_path, self.storage)
                for manifest in manifests.values()
                for entry in manifest.fetch_manifest_entry(handle.io, discard_deleted=False)
            }

    def own_file(self, path: str) -> bool:
        """The table's metadata."""
        return path.startswith("metadata/")

    def mine(self, snapshot: Snapshot) -> IcebergSnapshot:
        """The snapshot as one of this format."""
        assert isinstance(snapshot, IcebergSnapshot), "a snapshot of another kind of table"
        return snapshot

    def _make(self, columns: pa.Schema) -> None:
        catalogue = self._catalog()
        with suppress(NamespaceAlreadyExistsError):
            catalogue.create_namespace(self._name[0])
        with catalogue.create_table_transaction(
            self._name, columns, location=self.storage.uri, properties=dict(_SETTINGS)
        ) as made:
            with made.update_spec() as spec:
                for name in PARTITION_COLUMNS:
                    spec.add_identity(name)
            # Files have no field ids: their columns are found by name.
            mapping = made.table_metadata.schema().name_mapping.model_dump_json()
            made.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})

    def _catalog(self) -> Catalog:
        if self._catalogue is None:
            self._catalogue = self._connect()
        return self._catalogue

    @contextmanager
    def _raced(self) -> Iterator[None]:
        try:
            yield
        except (CommitFailedException, ValidationException, TableAlreadyExistsError) as error:
            raise Raced(str(error)) from error
        except IntegrityError as error:  # a SQL catalogue: the same row at the same time
            raise Raced(str(error)) from error
        except OperationalError as error:
            if "locked" not in str(error):
                raise
            raise Raced(str(error)) from error

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError, ValueError, NoSuchTableError, RESTError) as error:
            raise UserError(f"{self.location}: {' '.join(str(error).split())}") from error


@contextmanager
def _transaction(handle: Table) -> Iterator[Transaction]:
    """Committed at the end, once: see the top of this file."""
    handle.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
    with handle.transaction() as made:
        yield made


def _lineage(handle: Table) -> Iterator[IcebergsSnapshot]:
    """The snapshots that made the table what it is, newest first, as far back as it has them."""
    newest = handle.current_snapshot()
    while newest is not None:
        yield newest
        parent = newest.parent_snapshot_id
        newest = handle.metadata.snapshot_by_id(parent) if parent is not None else None


def _offsets_out(after: int, ends: Mapping[PartitionKey, int]) -> str:
    ranges = tuple(OffsetRange(key, 0, end) for key, end in ends.items())
    return json.dumps({"after": after, "ranges": ranges_out(ranges)}, separators=(",", ":"))


def _offsets_in(told: str) -> tuple[int, dict[PartitionKey, int]]:
    try:
        raw = json.loads(told)
        return int(raw["after"]), {span.key: span.end for span in ranges_in(raw["ranges"])}
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"the table's property {OFFSETS} cannot be understood: {error}") from error
