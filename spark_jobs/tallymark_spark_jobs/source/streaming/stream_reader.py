"""What Spark calls of a stream: where it begins, how far it can go, and the spans of a micro-batch.

One reader lives in a process on the driver as long as the query and answers there; another one is
made where the query is planned, pickled, and only reads, in the tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from tallymark.errors import UserError
from tallymark_spark_jobs.engine.errors import in_one_line
from tallymark_spark_jobs.source.planning import Span, split
from tallymark_spark_jobs.source.streaming.offsets import (
    Offsets,
    backlog,
    check,
    from_json,
    limited,
    spans,
    to_json,
)
from tallymark_spark_jobs.source.streaming.settings import LEAST, MOST, StreamOptions

if TYPE_CHECKING:
    from tallymark_spark_jobs.source.streaming.offsets import Log, Partition


@dataclass(frozen=True)
class StreamPartition(InputPartition):
    """One task's work of a micro-batch."""

    span: Span


class Parts(Protocol):
    """What a stream is made of: how it asks, what its tasks are, and what they read. Can be
    pickled."""

    def driver(self) -> Driver:
        """Made in the one process that answers for the query."""
        ...

    def partitions(
        self, driver: Driver, start: dict[str, Any], end: dict[str, Any]
    ) -> list[InputPartition]:
        """The tasks of a micro-batch."""
        ...

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The Arrow batches of a task."""
        ...


@dataclass(frozen=True, slots=True)
class Records:
    """The records of the logs."""

    options: StreamOptions

    def driver(self) -> Driver:
        """Of the topics that the options name."""
        return Driver(self.options)

    def partitions(
        self, driver: Driver, start: dict[str, Any], end: dict[str, Any]
    ) -> list[InputPartition]:
        """One a span."""
        return [StreamPartition(span) for span in driver.spans(start, end)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The span's records."""
        if not isinstance(partition, StreamPartition):
            return  # for an empty plan Spark makes up InputPartition(None)
        from tallymark_spark_jobs.source.log_reader import read_batches

        # A starting timestamp says where the stream begins; it leaves no later record out.
        options = replace(self.options.source, starting_timestamp=None)
        yield from read_batches(options, partition.span)


class StreamReader(DataSourceStreamReader):
    """Without limits: all there is, in every micro-batch. That is what PySpark 4.0 and 4.1 can;
    :mod:`.admission` has the rest."""

    def __init__(self, options: StreamOptions, parts: Parts) -> None:
        self.options = options
        self.parts = parts
        self._driver: Driver | None = None

    @property
    def driver(self) -> Driver:
        """Made when it is first asked for: the reader of the tasks never has one."""
        if self._driver is None:
            self._driver = self.parts.driver()
        return self._driver

    def initialOffset(self) -> dict[str, Any]:
        """The kept one, if there is one; else what the options say now, which is kept. Spark asks
        at the first start and again whenever it replays batch 0."""
        with in_one_line():
            return to_json(self.driver.beginning())

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # as PySpark 4.0 has it
        """The ends of the logs."""
        with in_one_line():
            return to_json(self.driver.ends())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks. Raises SourceError where the brokers no longer have all of it."""
        with in_one_line():
            return self.parts.partitions(self.driver, start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow batches, in a task."""
        with in_one_line():
            yield from self.parts.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark calls it when the *next* batch is planned, and never for the last one."""

    def stop(self) -> None:
        """Disconnect from the brokers."""
        if self._driver is not None:
            self._driver.close()


class Driver:
    """The stream as its one process on the driver knows it."""

    def __init__(self, options: StreamOptions, fits: Callable[[str], bool] | None = None) -> None:
        """``fits``: which topics are read, where a pattern is not enough to say."""
        from tallymark_spark_jobs.source.streaming.beginnings import BeginningFile
        from tallymark_spark_jobs.source.streaming.brokers import Brokers

        self._options = options
        self._fails = options.source.fail_on_data_loss
        self._brokers = Brokers(options.source, fits)
        self._file = BeginningFile(options.location, options.source)
        self._ids: dict[str, str] = {}
        self._ends: Offsets | None = None
        self._start: Offsets | None = None
        self._target: Offsets | None = None
        self._waits_since = time.monotonic()

    def close(self) -> None:
        """Disconnect."""
        self._brokers.close()

    def beginning(self) -> Offsets:
        """Where the stream began. Raises UserError where the file is of a stream that was to begin
        elsewhere, or the brokers do not have what the options name."""
        from tallymark_spark_jobs.source.streaming.beginnings import Beginning

        found = self._file.read()
        if found is None:
            logs = self._brokers.logs()
            ids = {topic: log.topic_id for (topic, _), log in logs.items()}
            offsets = self._brokers.beginnings()
            found = self._file.begin(Beginning(self._options.asked, offsets, ids))
        if found.asked != self._options.asked:
            raise UserError(
                f"{self._file.path} has the beginning of a stream with the starting offsets "
                f"{found.asked}, and this one asks for {self._options.asked}",
                "give each stream a folder of its own; to begin anew delete this file together "
                "with the checkpoint",
            )
        return dict(found.offsets)

    def ends(self, start: Offsets | None = None) -> Offsets:
        """The ends of the logs now. Raises UserError where a topic was cut or made anew, unless
        ``failOnDataLoss=false``. ``start``: offsets that were read already."""
        logs = self._checked(start or self._start or {})
        self._learn({topic: log.topic_id for (topic, _), log in logs.items()})
        self._ends = {partition: log.latest for partition, log in logs.items()}
        return dict(self._ends)

    def last_ends(self) -> Offsets | None:
        """As they were when it was asked last; None: not yet."""
        return self._ends

    def until(self, start: Offsets, most: int | None, waits: bool) -> Offsets:
        """How far the batch after ``start`` goes: ``most`` offsets at most (None: no limit), and
        never behind the target. ``waits``: not before there are ``minOffsetsPerTrigger``."""
        end = self.ends(start)
        if self._target is not None:
            end = {
                partition: min(offset, self._target[partition])
                for partition, offset in end.items()
                if partition in self._target
            }
        elif waits and self._is_too_early(backlog(start, end)):
            return start
        self._waits_since = time.monotonic()
        # What is gone, which only failOnDataLoss=false lets pass, is left out for good.
        return end if most is None else limited(start, end, most)

    def set_target(self) -> None:
        """What comes from now on is not for this run."""
        self._target = self.ends()

    def spans(self, start: dict[str, Any], end: dict[str, Any]) -> list[Span]:
        """What lies between, split for parallel work."""
        first, last = from_json(start), from_json(end)
        self._start = last
        logs = self._checked(first)
        says = (
            f"restore them, or begin anew: delete {self._file.path} together with the checkpoint; "
            "failOnDataLoss=false reads what is there"
        )
        source = self._options.source
        found = spans(first, last, logs, self._fails, says)
        return split(found, source.rows_per_partition, source.min_partitions)

    def known(self, end: dict[str, Any]) -> list[tuple[Span, int]]:
        """All that the logs hold up to ``end``, of every partition that is still there; and where
        the stream began to read it, -1: it came later, or its topic is another one now."""
        from tallymark_spark_jobs.source.streaming.offsets import begun

        logs, wanted, kept = self._checked({}), from_json(end), self._file.read()
        found: list[tuple[Span, int]] = []
        for where, log in sorted(logs.items()):
            if where in wanted:
                stop = max(log.earliest, min(wanted[where], log.latest))
                span = Span(*where, log.earliest, stop, log.topic_id, log.leader_epoch)
                at = -1 if kept is None else begun(where, log, kept.offsets, kept.ids)
                found.append((span, at))
        return found

    def _is_too_early(self, there: int) -> bool:
        waited = (time.monotonic() - self._waits_since) * 1000
        return there < self._options.least and waited < self._options.delay_ms

    def _checked(self, start: Offsets) -> Mapping[Partition, Log]:
        if not self._ids:
            kept = self._file.read()  # None: it was deleted; what this run sees still counts
            self._ids = {} if kept is None else dict(kept.ids)
        logs = self._brokers.logs()
        if self._fails:
            check(start, logs, self._ids)
        return logs

    def _learn(self, seen: Mapping[str, str]) -> None:
        """Keep the ids of topics that are new."""
        new = {topic: topic_id for topic, topic_id in seen.items() if topic not in self._ids}
        if not new:
            return
        self._ids |= new
        kept = self._file.read()
        if kept is not None:
            self._file.replace(replace(kept, ids={**new, **kept.ids}))


def stream_reader(options: StreamOptions, parts: Parts | None = None) -> StreamReader:
    """The one for the PySpark that is installed; ``parts``: default records. Raises UserError where
    the options need a newer one."""
    made = parts or Records(options)
    if has_limits():
        from tallymark_spark_jobs.source.streaming.admission import LimitedStreamReader

        return LimitedStreamReader(options, made)
    if not options.most and not options.least:
        return StreamReader(options, made)
    import pyspark

    raise UserError(
        f"{MOST} and {LEAST} need PySpark 4.2 or newer; this is {pyspark.__version__}",
        "leave them out, and every micro-batch takes all there is",
    )


def has_limits() -> bool:
    """Whether this PySpark lets a source say how far a micro-batch goes: since 4.2."""
    return find_spec("pyspark.sql.streaming.datasource") is not None
