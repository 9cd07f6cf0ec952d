"""Check one table: count its rows, compare, and report to the audit what is not as it was reported.

Commits are reported first, so that what follows replaces something. Of which cells another count
than the commits' was reported is kept in a file beside the tables: when a row is there again, the
audit has to get that, too. The file is written after the audit's brokers have acknowledged; without
it a check reports once more what it finds, which changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tallymark.errors import TallymarkError
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.time_format import utc
from tallymark_audit.reporters.lake import LakeCommit, LakeReports
from tallymark_spark_jobs.lake.opening import lake_settings
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.load.checking.differences import (
    Brought,
    CellDifference,
    Differences,
    differences,
)
from tallymark_spark_jobs.load.checking.table_rows import Counting, count_rows
from tallymark_spark_jobs.load.reporting import (
    Reported,
    lake_commit,
    lake_tally,
    report,
    reported_table,
)

if TYPE_CHECKING:
    from tallymark.deployment import Deployment
    from tallymark_spark_jobs.lake.table import Commit, LakeTable

FOLDER: Final = "_checked"
"""The folder of the lake for these files. No cluster can have this name."""


@dataclass(frozen=True, slots=True)
class TableCheck:
    """What became of a table: ``rows`` were read, ``cells`` differ, ``lost`` files are gone.
    ``since`` (ms): windows before it are not compared, since the table forgot its older commits;
    None: there are none such. ``unreported``: why the audit could not be notified."""

    cluster: str
    topic: str
    rows: int
    cells: tuple[CellDifference, ...] = ()
    lost: tuple[str, ...] = ()
    since: int | None = None
    unreported: str = ""


def check_table(
    deployment: Deployment,
    cluster: str,
    topic: str,
    table: LakeTable,
    storage: Storage,
    period: tuple[int | None, int],
    at: int,
) -> TableCheck:
    """Check the windows of the period (ms, whole ones, the end excluded; None: from the beginning).
    ``at`` is now, ms. UserError: the table cannot be read, so nothing is known of it."""
    snapshot = table.open()
    commits = [one for one in table.history() if one.version <= snapshot.version]
    loads = [one for one in commits if one.operation in ("load", "repair")]
    if not loads:
        return TableCheck(cluster, topic, 0)
    unreported = report(deployment, cluster, topic, table, storage)
    known = reported_table(deployment, cluster, topic, storage)
    start, since = _start(period[0], commits[0], known, deployment.audit.window_ms)
    how = Counting(
        topic, deployment.audit.window_ms, start, period[1], _has_contents(deployment, topic)
    )
    counted = count_rows(snapshot.files(), storage, how)
    place = Storage(deployment.lake_path, storage.options)
    path = f"{FOLDER}/{cluster}/{topic}.json"
    told = _read(place, path, known)
    parts, times = _brought(loads, storage, how)
    found = differences(
        parts,
        {one.key: lake_tally(one) for one in counted.tallies},
        loads[-1].version,
        {key for key in told if _in_period(key.window, how)},
    )
    if found.parts and known is not None and not unreported:
        unreported = _tell(deployment, (cluster, topic), known, found, times, at)
        if not unreported:
            kept = {key for key in told if not _in_period(key.window, how)} | found.told
            place.write(path, _text(known, kept))
    return TableCheck(
        cluster, topic, counted.rows, tuple(found.cells), tuple(counted.lost), since, unreported
    )


def _start(
    wanted: int | None, oldest: Commit, known: Reported | None, window_ms: int
) -> tuple[int | None, int | None]:
    """Where the comparison begins, and whether that is later than wanted: rows of commits that the
    table has forgotten would look like rows of nowhere."""
    if known is None or oldest.job == known.table_id:
        return wanted, None
    since = -(-oldest.at_ms // window_ms) * window_ms
    return (since, since) if wanted is None or wanted < since else (wanted, None)


def _has_contents(deployment: Deployment, topic: str) -> bool:
    """Whether the rows have the keys and values of the log, and the audit compares them."""
    decoded = re.fullmatch(lake_settings(deployment).avro_topics, topic)
    return deployment.audit.content_check and decoded is None


def _in_period(window: int, how: Counting) -> bool:
    return window < how.end and (how.start is None or window >= how.start)


def _brought(
    loads: Iterable[Commit], storage: Storage, how: Counting
) -> tuple[dict[CellKey, list[Brought]], dict[int, int]]:
    """By cell of the period what each commit brought of it; and when each was made."""
    found: dict[CellKey, list[Brought]] = {}
    times: dict[int, int] = {}
    for commit in loads:
        times[commit.version] = commit.at_ms
        for tally in lake_commit(commit, storage, how.window_ms).tallies:
            if _in_period(tally.key.window, how):
                part = Brought(commit.version, tally, commit.operation == "repair")
                found.setdefault(tally.key, []).append(part)
    return found, times


def _tell(
    deployment: Deployment,
    name: tuple[str, str],
    known: Reported,
    found: Differences,
    times: dict[int, int],
    at: int,
) -> str:
    """Report; ``""``, or why that could not be done."""
    parts = [
        LakeCommit(version, times[version], tuple(tallies))
        for version, tallies in sorted(found.parts.items())
    ]
    try:
        with LakeReports(
            deployment, name[0], "/".join(name), known.table_id, known.created_at
        ) as reports:
            reports.recounted(parts, max(times), at)
    except (TallymarkError, OSError) as error:
        return f"{' '.join(name)}: {' '.join(str(error).split())}"
    return ""


def _read(place: Storage, path: str, known: Reported | None) -> set[CellKey]:
    """None where there is no such file, where it cannot be read, and of another table."""
    try:
        kept = json.loads(place.read(path))
        if known is not None and kept["table_id"] == known.table_id:
            return {CellKey(*one) for one in kept["cells"]}
    except (TallymarkError, ValueError, TypeError, KeyError):
        pass
    return set()


def _text(known: Reported, cells: Iterable[CellKey]) -> bytes:
    return json.dumps({"table_id": known.table_id, "cells": sorted(cells)}).encode()


def lines_of(check: TableCheck) -> list[str]:
    """What is printed of a table."""
    name = f"{check.cluster}/{check.topic}"
    missing, extra, changed = (
        sum(getattr(one, what) for one in check.cells) for what in ("missing", "extra", "changed")
    )
    told = f"{missing:,} missing, {extra:,} too many, {changed:,} blocks of other contents"
    wrong = f"NOT AS ITS COMMITS SAY: {told}" if check.cells else "as its commits say"
    lines = [f"{name}: {check.rows:,} rows, {wrong}"]
    for one in check.cells[:20]:
        key = one.key
        who = f"{key.server}, instance {key.instance}" if key.stamped else "no stamp"
        lines.append(
            f"  {key.topic}-{key.partition} window {utc(key.window)}, {who}: {one.missing:,}"
            f" missing, {one.extra:,} too many, {one.changed:,} blocks changed"
        )
    lines += [f"  and {len(check.cells) - 20:,} more cells"] if len(check.cells) > 20 else []
    lines += [f"  lost: {file}" for file in check.lost]
    if check.since is not None:
        lines.append(
            f"  windows before {utc(check.since)} were not compared: the table has forgotten what"
            " its commits brought then"
        )
    lines += [f"  the audit could not be told: {check.unreported}"] if check.unreported else []
    return lines
