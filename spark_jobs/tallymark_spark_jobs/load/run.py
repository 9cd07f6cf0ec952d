"""The driver of a load: plan, land, check, one commit a table, and again where that was refused.

The ends of all logs are fixed before it begins. Each round opens every table afresh and plans from
the offsets that it has *now*: so the round after a crash, after another load, or after a part of
the rows was committed begins exactly where the table ends. Whatever happens in between leaves files
that no commit names, and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tallymark.errors import UserError
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.lake.table import Append, Commit, Conflict, PartitionKey
from tallymark_spark_jobs.load.committable import Committable, committable
from tallymark_spark_jobs.load.landing import Landed, Lander, LandTask
from tallymark_spark_jobs.load.names import loaded_as_of, part_of
from tallymark_spark_jobs.load.planning import LoadPlan, capped, plan_load, readable, shares
from tallymark_spark_jobs.load.shapes import LoadSettings, TopicLoad, TopicResult
from tallymark_spark_jobs.load.writing.places import first_on_time

if TYPE_CHECKING:
    from tallymark_spark_jobs.lake.table import Manifest, Snapshot

TRIES: Final = 5
"""So often a table is planned anew after another writer was faster."""

Committed = Callable[[TopicLoad, Commit], None]


def run_load(
    loads: Sequence[TopicLoad],
    settings: LoadSettings,
    lander: Lander,
    steps: Steps,
    committed: Committed = lambda load, commit: None,
) -> list[TopicResult]:
    """Load all of them; ``committed`` is called after each commit. What is wrong with a partition
    is in its topic's result and holds up no other one. Raises what the lander raises: what was not
    committed is loaded by the next run then."""
    works = [_Work(one, TopicResult(one.cluster, one.topic, one.table.location)) for one in loads]
    left = settings.max_rows
    while ready := _ready(works, settings, left):
        planned = sum(work.plan.offsets for work in ready)
        with steps.step("load", "reading and writing", rows=planned) as step:
            landed = list(lander([task for work in ready for task in _tasks(work, settings)]))
            rows = sum(one.manifest.rows for one in landed if one.manifest)
            step.note = f"{rows:,} rows"
        for work, some in _by_topic(ready, landed):
            _commit(work, some, settings, committed)
        left = None if left is None else left - planned
    return [work.result for work in works]


def plan_only(loads: Iterable[TopicLoad], settings: LoadSettings) -> list[LoadPlan]:
    """What a run would load of each topic, without ``rows_per_commit``."""
    works = [_Work(one, TopicResult(one.cluster, one.topic, one.table.location)) for one in loads]
    for work in works:
        _open(work, settings)
        work.plan = capped(work.plan, settings.max_rows)
    return [work.plan for work in works]


@dataclass(slots=True)
class _Work:
    """One topic in the rounds of a run. ``stopped`` are partitions that are left as they are."""

    load: TopicLoad
    result: TopicResult
    refused: int = 0
    on_time: int | None = None
    snapshot: Snapshot | None = None
    plan: LoadPlan = field(default_factory=LoadPlan)
    stopped: set[PartitionKey] = field(default_factory=set[PartitionKey])


def _ready(works: Iterable[_Work], settings: LoadSettings, left: int | None) -> list[_Work]:
    """Those that have something to load in this round, planned."""
    room = settings.rows_per_commit
    if left is not None:
        room = min(room, left)
    found: list[_Work] = []
    for work in works:
        _open(work, settings)
        work.result.left = work.plan.offsets
        work.plan = capped(work.plan, room)
        room -= work.plan.offsets
        if work.plan.ranges:
            found.append(work)
    return found


def _open(work: _Work, settings: LoadSettings) -> None:
    table = work.load.table
    work.snapshot = table.open()
    if work.on_time is None:  # once: the commits of this run are none before it
        before = loaded_as_of(table, work.snapshot.version)
        work.on_time = first_on_time(before, settings.late_after_ms)
    logs = [log for log in work.load.logs if log.key not in work.stopped]
    work.plan = plan_load(logs, table.offsets(work.snapshot), accept_gap=settings.accept_gap)
    for problem in work.plan.problems:
        _stop(work, problem.range.key, problem.text)


def _stop(work: _Work, key: PartitionKey, why: str) -> None:
    work.stopped.add(key)
    work.result.problems.setdefault(key, why)


def _tasks(work: _Work, settings: LoadSettings) -> Iterator[LandTask]:
    load = work.load
    epochs = {log.key: log.leader_epoch for log in load.logs}
    ranges = readable(work.plan)
    for span in shares(ranges, settings.rows_per_task, settings.at_least_tasks):
        yield LandTask(
            span,
            epochs[span.key],
            load.connection,
            load.storage,
            settings.window_ms,
            settings.contents,
            settings.target_bytes,
            work.on_time or 0,
            settings.accept_gap,
            load.format,
        )


def _by_topic(
    works: Sequence[_Work], landed: Iterable[Landed]
) -> Iterator[tuple[_Work, list[Landed]]]:
    by_key: dict[PartitionKey, list[Landed]] = defaultdict(list)
    for one in landed:
        by_key[one.range.key].append(one)
    for work in works:
        yield work, [one for span in work.plan.ranges for one in by_key[span.key]]


def _commit(
    work: _Work, landed: Sequence[Landed], settings: LoadSettings, committed: Committed
) -> None:
    """One commit of what landed. Where another writer was faster, the next round plans anew."""
    assert work.snapshot is not None
    load, result = work.load, work.result
    found = committable(work.plan.ranges, work.plan.lost, landed)
    for key, why in found.failures.items():
        _stop(work, key, why)
    remove(load, found.useless)
    if not found.ranges:
        return
    whole = found.ranges == work.plan.ranges and not work.plan.left
    run = settings.run if whole else part_of(settings.run)
    append = Append(run, found.ranges, found.manifests, load.format.schema)
    try:
        commit = load.table.commit(work.snapshot, append)
    except Conflict as error:
        remove(load, found.manifests)
        work.refused += 1
        if work.refused >= TRIES:
            for span in found.ranges:
                _stop(work, span.key, f"{span.key}: {TRIES} times in a row: {error}")
        return
    except UserError as error:
        for span in found.ranges:
            _stop(work, span.key, f"{span.key}: {error}")
        return
    work.refused = 0
    _note(result, found, work.plan, commit)
    result.left = max(0, result.left - sum(one.end - one.start for one in found.ranges))
    committed(load, commit)


def _note(result: TopicResult, found: Committable, plan: LoadPlan, commit: Commit) -> None:
    files = [file for manifest in found.manifests for file in manifest.files]
    result.commits.append(commit)
    result.files += len(files)
    result.bytes += sum(file.bytes for file in files)
    ends = {span.key: span.end for span in found.ranges}
    gone = "deleted before it was loaded"
    result.lost += [(gap, gone) for gap in plan.lost if gap.end <= ends.get(gap.key, -1)]
    result.lost += found.damaged


def remove(load: TopicLoad, manifests: Iterable[Manifest]) -> None:
    """Take away files of ours that no commit names; what stays is found by the sweep."""
    for manifest in manifests:
        for path in (*(file.path for file in manifest.files), *manifest.side_files):
            try:
                load.storage.delete(path)
            except UserError:
                return
