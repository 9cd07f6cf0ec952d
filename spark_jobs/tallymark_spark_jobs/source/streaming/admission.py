"""Micro-batches of limited size, and ``Trigger.AvailableNow`` in several of them: PySpark 4.2."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tallymark_spark_jobs.engine.errors import in_one_line
from tallymark_spark_jobs.source.streaming.offsets import from_json, to_json
from tallymark_spark_jobs.source.streaming.stream_reader import StreamReader


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Without the mixin Spark would run AvailableNow as one batch without a limit."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxOffsetsPerTrigger``, else ``minOffsetsPerTrigger``; Spark has no limit of both, so
        :meth:`latestOffset` minds the second one with the first."""
        if self.options.most:
            return ReadMaxRows(self.options.most)
        return ReadMinRows(self.options.least) if self.options.least else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # type: ignore[override]
        """Where the batch after ``start`` ends; ``start`` itself: there is nothing to do."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        waits = self.options.least > 0 and not isinstance(limit, ReadAllAvailable)
        with in_one_line():
            return to_json(self.driver.until(from_json(start), most, waits))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of the logs, for the query's progress."""
        with in_one_line():
            found = self.driver.last_ends()
            return None if found is None else to_json(found)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all that this run reads."""
        with in_one_line():
            self.driver.set_target()
