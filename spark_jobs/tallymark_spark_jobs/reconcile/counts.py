"""Count stamped rows into cells, as runs of sequences: DataFrame in, DataFrame out, no I/O.

For jobs of your own, on rows of the source. The reconciliation counts in its tasks
(:mod:`tallymark_spark_jobs.counting`), several times cheaper; tests hold both equal.

The input is ``mode=stamps`` of the source (with any columns of ``by`` added, a cluster's name for
instance); the output has one row per *run*: sequences of one cell that follow one another without
a gap. Runs come from gaps and islands: among the distinct sequences of a cell in order,
``sequence − rank`` is constant exactly as long as none is missing::

    sequence   4 5 6 6 9 10        copies of 6: one beyond the first
    rank       1 2 3 3 4 5
    difference 3 3 3 3 5 5    →    runs 4-6 and 9-10
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from tallymark_audit.model.hashing import BLOCK
from tallymark_spark_jobs.source.kinds import ABORTED, BROKEN_STAMP, DAMAGED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CELL: Final = ("topic", "origin_partition", "window", "server", "instance")
COPIES_NAMED: Final = 1000
"""Of each run so many further copies are named; all are counted."""


def cell_runs(stamps: DataFrame, window_ms: int, by: Sequence[str] = ()) -> DataFrame:
    """The runs of every cell. Rows without a readable stamp make one run a cell, with null
    sequences: server and instance ``""``, and the partition that holds them as their origin.

    Aborted records make runs of their own; without a stamp they make none. Batches that cannot be
    read (``damaged``) make runs too: without messages, but with offsets.

    Columns: ``by``, :data:`CELL`, ``aborted``, ``damaged``, ``first_sequence``, ``last_sequence``,
    ``messages`` (every copy), ``extra`` (copies beyond the first of a sequence), ``copies`` (where
    these lie: partition, offset, sequence; at most :data:`COPIES_NAMED`), ``bytes``, ``malformed``
    (stamps that could not be read), ``first_partition`` and ``last_partition`` (smallest and
    largest that hold the run), ``first_offset``, ``last_offset``, ``min_timestamp``,
    ``max_timestamp``.

    With a column ``content`` runs end where blocks of the content check do, too, and there are
    ``block``, and ``content_low`` and ``content_high``: the sums of the lower and the upper 32 bits
    of the hashes, since a sum of 64 bits would not fit.
    """
    hashed = "content" in stamps.columns
    keys = [*by, *CELL, "aborted", "damaged"]
    in_order = Window.partitionBy(*keys).orderBy("sequence", "partition", "offset")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    again = F.coalesce(F.col("sequence") == F.lag("sequence").over(in_order), F.lit(False))
    # One shuffle serves all: rows of a cell meet, and both windows and groups are finer than that.
    counted = stamps.withColumn("aborted", F.col("stamped") == ABORTED).withColumn(
        "damaged", F.col("stamped") == DAMAGED
    )
    counted = counted.where(~F.col("aborted") | F.col("sequence").isNotNull())
    together = with_cells(counted, window_ms).repartition(*by, *CELL[:3])
    marked = together.withColumn("again", again.cast("long"))
    return (
        marked.withColumn("copy_number", F.sum("again").over(so_far))
        .withColumn("island", F.col("sequence") - F.sum(1 - F.col("again")).over(so_far))
        .withColumn("block", F.floor(F.col("sequence") / BLOCK))
        .groupBy(*keys, "island", *(["block"] if hashed else []))
        .agg(*_totals(), *(_content_sums() if hashed else []))
        .drop("island")
    )


def _content_sums() -> list[Column]:
    low = F.col("content").bitwiseAND(F.lit(0xFFFFFFFF))
    high = F.shiftrightunsigned("content", 32)
    return [F.sum(low).alias("content_low"), F.sum(high).alias("content_high")]


def with_cells(stamps: DataFrame, window_ms: int) -> DataFrame:
    """Each row with its cell: ``window`` (start, ms; all times below zero share the one below
    zero), and for rows without a readable stamp the partition they lie in as their origin."""
    at = F.col("timestamp")
    started = at - F.pmod(at, F.lit(window_ms))
    return stamps.withColumn(
        "window", F.when(at >= 0, started).otherwise(F.lit(-window_ms)).cast("long")
    ).withColumn("origin_partition", F.coalesce("origin_partition", "partition"))


def _totals() -> list[Column]:
    named = (F.col("again") == 1) & (F.col("copy_number") <= COPIES_NAMED)
    copy = F.struct("partition", "offset", "sequence")
    return [
        F.min("sequence").alias("first_sequence"),
        F.max("sequence").alias("last_sequence"),
        F.count(F.lit(1)).alias("messages"),
        F.sum("again").alias("extra"),
        F.collect_list(F.when(named, copy)).alias("copies"),
        F.sum("size").alias("bytes"),
        F.sum(F.when(F.col("stamped") == BROKEN_STAMP, 1).otherwise(0)).alias("malformed"),
        F.min("partition").alias("first_partition"),
        F.max("partition").alias("last_partition"),
        F.min("offset").alias("first_offset"),
        F.max("offset").alias("last_offset"),
        F.min("timestamp").alias("min_timestamp"),
        F.max("timestamp").alias("max_timestamp"),
    ]
