"""The table of verdicts in Delta Lake's format."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from tallymark.clock import now_ms
from tallymark.errors import UserError
from tallymark_spark_jobs.lake.committing import Raced
from tallymark_spark_jobs.lake.heads import KEY, Pending
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import NO_VERSION
from tallymark_spark_jobs.lake.verdicts import COLUMNS

_MARK: Final = f"{KEY}/verdicts"
"""An application transaction of every commit: two on top of one version contradict each other."""


class DeltaVerdicts:
    """A :class:`~tallymark_spark_jobs.lake.verdicts.VerdictTable`."""

    def __init__(self, storage: Storage) -> None:
        self._where = storage.location
        self._options = dict(storage.options) or None

    def read(self, start_us: int, end_us: int) -> tuple[int, pa.Table]:
        """The version, and the rows of the range."""
        try:
            handle = DeltaTable(self._where, storage_options=self._options)
            rows = handle.to_pyarrow_table(
                filters=[("window", ">=", _time(start_us)), ("window", "<", _time(end_us))]
            )
        except TableNotFoundError:
            return NO_VERSION, COLUMNS.empty_table()
        except (DeltaError, OSError) as error:
            raise UserError(f"{self._where}: the verdicts cannot be read: {error}") from error
        return handle.version(), rows.cast(COLUMNS)

    def replace(
        self, version: int, rows: pa.Table, start_us: int, end_us: int, head: Pending
    ) -> int:
        """One version that has these rows instead."""
        try:
            if version == NO_VERSION:
                DeltaTable.create(
                    self._where, COLUMNS, mode="ignore", storage_options=self._options
                )
                version = 0
            handle = DeltaTable(self._where, version=version, storage_options=self._options)
            mark = (handle.transaction_version(_MARK) or 0) + 1
            write_deltalake(
                handle,
                rows,
                mode="overwrite",
                predicate=f"`window` >= {_literal(start_us)} AND `window` < {_literal(end_us)}",
                commit_properties=CommitProperties(
                    custom_metadata={KEY: head.head},
                    app_transactions=[Transaction(_MARK, mark, now_ms())],
                ),
            )
            return handle.version()
        except CommitFailedError as error:
            raise Raced(str(error)) from error
        except (DeltaError, OSError) as error:
            raise UserError(f"{self._where}: the verdicts cannot be written: {error}") from error


def table(lake: Lake, storage: Storage) -> DeltaVerdicts:
    """The table of a lake."""
    return DeltaVerdicts(storage)


def _time(at_us: int) -> object:
    return pa.scalar(at_us, COLUMNS.field("window").type).as_py()


def _literal(at_us: int) -> str:
    text = pa.scalar(at_us, COLUMNS.field("window").type).as_py().isoformat(timespec="microseconds")
    return f"arrow_cast('{text}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
