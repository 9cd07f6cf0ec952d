"""The table of verdicts in Apache Iceberg's format."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.table import Table, TableProperties
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from tallymark.errors import UserError
from tallymark_spark_jobs.lake.committing import Raced
from tallymark_spark_jobs.lake.heads import KEY, Pending
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import NO_VERSION
from tallymark_spark_jobs.lake.verdicts import COLUMNS, FOLDER

_RACES: Final = (
    CommitFailedException,
    ValidationException,
    TableAlreadyExistsError,
    IntegrityError,
    OperationalError,
)


class IcebergVerdicts:
    """A :class:`~tallymark_spark_jobs.lake.verdicts.VerdictTable`."""

    def __init__(self, lake: Lake, storage: Storage) -> None:
        self._lake = lake
        self._storage = storage
        self._handle: Table | None = None
        self._found = 0

    def read(self, start_us: int, end_us: int) -> tuple[int, pa.Table]:
        """The version, and the rows of the range."""
        try:
            self._handle = self._lake.connect().load_table(FOLDER)
            rows = self._handle.scan(row_filter=_between(start_us, end_us)).to_arrow()
        except NoSuchTableError:
            self._found = 0
            return NO_VERSION, COLUMNS.empty_table()
        except (SQLAlchemyError, OSError, ValueError) as error:
            raise UserError(
                f"{self._storage.location}: the verdicts cannot be read: {error}"
            ) from error
        self._found = rows.num_rows
        return self._version(), rows.cast(COLUMNS)

    def replace(
        self, version: int, rows: pa.Table, start_us: int, end_us: int, head: Pending
    ) -> int:
        """One transaction that has these rows instead, on top of the version that was read."""
        try:
            if version == NO_VERSION:
                self._make()
            handle = self._handle
            assert handle is not None, "replace() before read()"
            handle.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
            summary = {KEY: head.head}
            if self._found:
                handle.overwrite(rows, _between(start_us, end_us), snapshot_properties=summary)
            else:
                handle.append(rows, snapshot_properties=summary)
            return self._version()
        except _RACES as error:
            raise Raced(str(error)) from error
        except (SQLAlchemyError, OSError, ValueError) as error:
            raise UserError(
                f"{self._storage.location}: the verdicts cannot be written: {error}"
            ) from error

    def _make(self) -> None:
        catalogue = self._lake.connect()
        with suppress(NamespaceAlreadyExistsError):
            catalogue.create_namespace(FOLDER[0])
        self._handle = catalogue.create_table(
            FOLDER,
            COLUMNS,
            location=self._storage.uri,
            properties={"format-version": "2", TableProperties.COMMIT_NUM_RETRIES: "0"},
        )

    def _version(self) -> int:
        newest = self._handle.current_snapshot() if self._handle else None
        return (newest.sequence_number or 0) if newest else 0


def table(lake: Lake, storage: Storage) -> IcebergVerdicts:
    """The table of a lake."""
    return IcebergVerdicts(lake, storage)


def _between(start_us: int, end_us: int) -> str:
    return f"window >= '{_text(start_us)}' and window < '{_text(end_us)}'"


def _text(at_us: int) -> str:
    seconds, rest = divmod(at_us, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest).isoformat()
