"""Load once more exactly the offsets that a table lacks below its end.

The audit names them: ``tallymark audit repair --plan FILE``. Before anything is read, the table's
files are searched for them, in the snapshot that the repair is committed on; what is there is left
out, so a plan that is carried out twice changes nothing. If another repair was faster, the commit
is refused and all of it begins again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tallymark.errors import UserError
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_spark_jobs.lake.table import Append, Commit, Conflict, OffsetRange, PartitionKey
from tallymark_spark_jobs.load.landing import Lander, LandTask
from tallymark_spark_jobs.load.names import loaded_as_of
from tallymark_spark_jobs.load.run import Committed, remove
from tallymark_spark_jobs.load.shapes import LoadSettings, TopicLoad, TopicResult
from tallymark_spark_jobs.load.writing.places import first_on_time
from tallymark_spark_jobs.load.writing.quarantine import quarantined_offsets

if TYPE_CHECKING:
    from tallymark_spark_jobs.lake.storage import Storage
    from tallymark_spark_jobs.lake.table import DataFile, Manifest, Snapshot

Offsets = Mapping[int, RangeSet]
"""Of each partition the offsets that are wanted."""
MOST_RANGES: Final = 1_000
"""So many ranges of a partition one repair takes: each is a commit."""
TRIES: Final = 5


def repair(
    load: TopicLoad, wanted: Offsets, settings: LoadSettings, lander: Lander, committed: Committed
) -> TopicResult:
    """Bring those of the wanted offsets that the table has not. What cannot be brought is a problem
    of the result, also where a file of the table cannot be read. UserError: too much is wanted."""
    result = TopicResult(load.cluster, load.topic, load.table.location)
    refused = 0
    while True:
        snapshot = load.table.open()
        ranges = _missing(load, snapshot, wanted, result)
        if not ranges:
            return result
        found = _landed(ranges, load, snapshot, settings, lander, result)
        if not found:
            return result
        append = Append(
            settings.run, tuple(one.span for one in found), found, load.format.schema, repair=True
        )
        try:
            commit = load.table.commit(snapshot, append)
        except Conflict:
            remove(load, found)
            refused += 1
            if refused >= TRIES:
                raise
            continue
        refused = 0
        _note(result, commit, found)
        committed(load, commit)


def missing_in(
    files: Iterable[DataFile], storage: Storage, wanted: Mapping[PartitionKey, RangeSet]
) -> dict[PartitionKey, RangeSet]:
    """Those of the offsets that no file holds a row of. UserError: a file cannot be read."""
    left = dict(wanted)
    for file in files:
        for key, there in _offsets_in(file, storage, left).items():
            left[key] = left[key] - there
        left = {key: ranges for key, ranges in left.items() if ranges}
    return left


def _missing(
    load: TopicLoad, snapshot: Snapshot, wanted: Offsets, result: TopicResult
) -> list[OffsetRange]:
    """The first missing range of each partition."""
    keys = {log.key.partition: log for log in load.logs}
    ends = load.table.offsets(snapshot)
    asked: dict[PartitionKey, RangeSet] = {}
    for partition, ranges in wanted.items():
        log = keys.get(partition)
        if log is None:
            raise UserError(f"cluster {load.cluster} has no {load.topic}-{partition}")
        if len(ranges.ranges) > MOST_RANGES:
            raise UserError(
                f"{log.key}: {len(ranges.ranges)} ranges of offsets are to be loaded again, "
                f"{MOST_RANGES} at most",
                "make a plan of a shorter time",
            )
        if log.key in result.problems:
            continue
        end = ends.get(log.key, 0)
        asked[log.key] = ranges & RangeSet.single(0, end - 1) if end > 0 else EMPTY
    asked = {key: ranges for key, ranges in asked.items() if ranges}
    try:
        asked = missing_in(snapshot.files(), load.storage, asked)
        if asked:
            asked = _without_quarantine(load, asked)
    except UserError as error:  # other tables are repaired
        result.problems.update((key, f"{key}: {error}") for key in asked)
        return []
    return [
        OffsetRange(key, ranges.ranges[0][0], ranges.ranges[0][1] + 1)
        for key, ranges in sorted(asked.items())
    ]


def _without_quarantine(
    load: TopicLoad, asked: Mapping[PartitionKey, RangeSet]
) -> dict[PartitionKey, RangeSet]:
    poison: dict[tuple[str, int], RangeSet] = defaultdict(lambda: EMPTY)
    for commit in load.table.history():
        if commit.quarantined:
            for place, some in quarantined_offsets(
                load.storage, commit.detail().side_files
            ).items():
                poison[place] = poison[place] | some
    left = {key: some - poison[key.topic_id, key.partition] for key, some in asked.items()}
    return {key: ranges for key, ranges in left.items() if ranges}


def _landed(
    ranges: Iterable[OffsetRange],
    load: TopicLoad,
    snapshot: Snapshot,
    settings: LoadSettings,
    lander: Lander,
    result: TopicResult,
) -> tuple[Manifest, ...]:
    before = loaded_as_of(load.table, snapshot.version)
    on_time = first_on_time(before, settings.late_after_ms)
    epochs = {log.key: log for log in load.logs}
    tasks: list[LandTask] = []
    for span in ranges:
        log = epochs[span.key]
        if span.start < log.earliest:
            last = min(span.end, log.earliest) - 1
            result.problems[span.key] = (
                f"{span.key}: offsets {span.start} to {last} are not in the log any more"
            )
            continue
        tasks.append(
            LandTask(
                span,
                log.leader_epoch,
                load.connection,
                load.storage,
                settings.window_ms,
                settings.contents,
                settings.target_bytes,
                on_time,
                format=load.format,
            )
        )
    found: list[Manifest] = []
    for one in lander(tasks):
        if one.manifest is None:
            result.problems[one.range.key] = one.failure
        elif one.manifest.rows or one.manifest.quarantined:
            found.append(one.manifest)
        else:
            result.problems[one.range.key] = (
                f"{one.range}: there is no record at these offsets (compacted, or of a transaction "
                "that was aborted)"
            )
    return tuple(found)


def _offsets_in(
    file: DataFile, storage: Storage, wanted: Mapping[PartitionKey, RangeSet]
) -> dict[PartitionKey, RangeSet]:
    import pyarrow.parquet as pq

    if not wanted:
        return {}
    system, root = storage.open()
    names = ["topic_id", "partition", "offset"]
    try:
        with pq.ParquetFile(f"{root}/{file.path}", filesystem=system) as parquet:
            if not _may_hold(parquet.metadata, wanted):
                return {}
            rows = parquet.read(names)
    except (OSError, KeyError) as error:
        raise UserError(
            f"{storage.address(file.path)}: the table names this file, and it cannot be read: "
            f"{error}",
            "restore it from a copy, or load the topic into a new table",
        ) from error
    found: dict[PartitionKey, RangeSet] = {}
    for key, ranges in wanted.items():
        there = rows.filter(_is(rows, "partition", key.partition))
        there = there.filter(_is(there, "topic_id", key.topic_id or None))
        offsets = there["offset"].to_pylist()
        found[key] = RangeSet.of(offsets) & ranges
    return found


def _is(rows: Any, column: str, value: object) -> Any:
    from pyarrow import compute

    pc: Any = compute
    return pc.is_null(rows[column]) if value is None else pc.equal(rows[column], value)


def _may_hold(footer: Any, wanted: Mapping[PartitionKey, RangeSet]) -> bool:
    """By the least and the greatest offset of the row groups."""
    low = min(ranges.first for ranges in wanted.values())
    high = max(ranges.last for ranges in wanted.values())
    for at in range(footer.num_row_groups):
        group = footer.row_group(at)
        for column in (group.column(n) for n in range(group.num_columns)):
            if column.path_in_schema != "offset":
                continue
            told = column.statistics
            if told is None or not told.has_min_max or (told.min <= high and told.max >= low):
                return True
    return False


def _note(result: TopicResult, commit: Commit, manifests: Iterable[Manifest]) -> None:
    files = [file for one in manifests for file in one.files]
    result.commits.append(commit)
    result.files += len(files)
    result.bytes += sum(file.bytes for file in files)
