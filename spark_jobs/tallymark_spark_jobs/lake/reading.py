"""Reads a table's rows: with pyarrow, pandas and Spark, or any engine that takes names of files.

A folder of Parquet files is not a table: it holds the files of tasks that died, and those that a
compaction has replaced. After one task that was repeated and one driver that died, a reader of the
folder had 1,000 rows of 500 messages. So every reader here asks a snapshot for its files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import PARTITION_COLUMNS, Place, Snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import Dataset
    from pyspark.sql import DataFrame, SparkSession

Where = Callable[[Place], bool]
"""Which folders are read; by default all."""


def addresses(storage: Storage, snapshot: Snapshot, where: Where | None = None) -> list[str]:
    """The whole addresses of the snapshot's files, sorted: those of one hour together."""
    return [storage.address(path) for path in _paths(snapshot, where)]


def dataset(storage: Storage, snapshot: Snapshot, where: Where | None = None) -> Dataset:
    """The snapshot for pyarrow: nothing is read before it is asked for, and only the columns that
    are. ``.to_table(columns=..., filter=...).to_pandas()`` makes a frame of it."""
    from pyarrow import dataset as datasets

    found, root = storage.open()
    columns = snapshot.schema()
    folders = datasets.partitioning(_folder_columns(columns), flavor="hive")
    return datasets.dataset(
        [f"{root}/{path}" for path in _paths(snapshot, where)],
        schema=columns,
        format="parquet",
        filesystem=found,
        partitioning=folders,
        partition_base_dir=root,
    )


def rows(
    storage: Storage,
    snapshot: Snapshot,
    columns: Sequence[str] | None = None,
    where: Where | None = None,
) -> pa.Table:
    """The rows of the snapshot, all in memory."""
    return dataset(storage, snapshot, where).to_table(columns=list(columns) if columns else None)


def spark_frame(
    spark: SparkSession, storage: Storage, snapshot: Snapshot, where: Where | None = None
) -> DataFrame:
    """The snapshot for Spark, without a jar of the table's format. Files that were written before a
    column was added have nulls in it."""
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = from_arrow_schema(snapshot.schema())
    paths = addresses(storage, snapshot, where)
    if not paths:
        return spark.createDataFrame([], columns)
    return spark.read.schema(columns).option("basePath", storage.location).parquet(*paths)


def _paths(snapshot: Snapshot, where: Where | None) -> list[str]:
    return sorted(file.path for file in snapshot.files() if where is None or where(file.place))


def _folder_columns(columns: pa.Schema) -> Any:
    import pyarrow as pa

    return pa.schema([columns.field(name) for name in PARTITION_COLUMNS])
