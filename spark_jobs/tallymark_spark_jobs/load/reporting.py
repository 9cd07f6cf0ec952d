"""Reports to the audit what the commits of a table brought.

A commit holds its tallies, so a report can be made at any time. Which versions the audit is known
to have is kept in a file beside the tables; it is written after the audit's brokers have
acknowledged, so a load that dies in between reports a version once more, which changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tallymark.errors import TallymarkError
from tallymark_audit.reporters.lake import (
    LakeCommit,
    LakeGap,
    LakeReports,
    LakeTally,
    LoadedThrough,
)
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.load.writing.quarantine import quarantined_cells, without

if TYPE_CHECKING:
    from tallymark.deployment import Deployment
    from tallymark_spark_jobs.counting.tally import CellTally
    from tallymark_spark_jobs.lake.table import Commit, LakeTable

FOLDER: Final = "_reported"
"""The folder of the lake for these files. No cluster can have this name."""


@dataclass(frozen=True, slots=True)
class Reported:
    """What the audit knows of a table: everything up to ``version``, whose commit is ``job``.
    ``table_id`` and ``created_at`` (ms) distinguish the table from another one at the same
    place."""

    table_id: str
    created_at: int
    version: int = -1
    job: str = ""


def report(
    deployment: Deployment, cluster: str, topic: str, table: LakeTable, storage: Storage
) -> str:
    """Report the commits of a table that are not known to be reported; ``""``, or why that could
    not be done, in one line."""
    place = Storage(deployment.lake_path, storage.options)
    path = f"{FOLDER}/{cluster}/{topic}.json"
    try:
        known, commits = _news(_read(place, path), table)
        if known is None or not commits:
            return ""
        name = f"{cluster}/{topic}"
        with LakeReports(deployment, cluster, name, known.table_id, known.created_at) as reports:
            told = (lake_commit(one, storage, deployment.audit.window_ms) for one in commits)
            version = reports.send(told, known.version)
        place.write(path, _text(replace(known, version=version, job=commits[-1].job)))
    except (TallymarkError, OSError) as error:
        return f"{cluster} {topic}: {' '.join(str(error).split())}"
    return ""


def reported_table(
    deployment: Deployment, cluster: str, topic: str, storage: Storage
) -> Reported | None:
    """What the audit knows of a table; None: nothing was reported."""
    return _read(Storage(deployment.lake_path, storage.options), f"{FOLDER}/{cluster}/{topic}.json")


def lake_commit(commit: Commit, storage: Storage, window_ms: int) -> LakeCommit:
    """A commit as the audit takes it. UserError: its tallies or its quarantine cannot be read."""
    detail = commit.detail()
    sides = detail.side_files if commit.quarantined else ()
    poison = quarantined_cells(storage, sides, window_ms)
    moved = detail.ranges if commit.operation == "load" else ()
    return LakeCommit(
        commit.version,
        commit.at_ms,
        tuple(without(lake_tally(one), poison) for one in detail.tallies if not one.aborted),
        tuple(
            LoadedThrough(one.key.topic, one.key.partition, one.end, one.key.topic_id)
            for one in moved
        ),
        tuple(
            LakeGap(one.key.topic, one.key.partition, one.start, one.end, "retention")
            for one in detail.expired
        ),
    )


def lake_tally(one: CellTally) -> LakeTally:
    """A tally as the audit takes it."""
    return LakeTally(
        key=one.key,
        count=one.messages,
        ranges=one.ranges,
        bytes=one.bytes,
        again=one.again,
        blocks=one.blocks,
        min_timestamp=one.min_timestamp,
        max_timestamp=one.max_timestamp,
    )


def _news(known: Reported | None, table: LakeTable) -> tuple[Reported | None, list[Commit]]:
    """What is known by now, and the commits that are not. Another table at the same place begins
    from its own beginning: it has other commits, or fewer."""
    if known is not None:
        later = list(table.history(max(0, known.version)))
        if later and (later[0].version, later[0].job) == (known.version, known.job):
            return known, _loads(later[1:])
    every = list(table.history())
    if not every:
        return None, []
    return Reported(every[0].job, every[0].at_ms), _loads(every)


def _loads(commits: Iterable[Commit]) -> list[Commit]:
    return [one for one in commits if one.operation in ("load", "repair")]


def _read(place: Storage, path: str) -> Reported | None:
    """None: nothing is known, or not in a form that can be read; then all is reported again."""
    try:
        told: dict[str, Any] = json.loads(place.read(path))
        return Reported(**told)
    except (TallymarkError, ValueError, TypeError):
        return None


def _text(known: Reported) -> bytes:
    return json.dumps(asdict(known)).encode()
