"""Whether an append is exactly what was planned, and continues what is loaded. Pure.

A task that died, a twin of a task that ran beside it, and a fault of our own all end as manifests
that leave offsets out, name some twice, or hold other numbers of rows than their files. Such an
append is refused as a whole: the driver can load again, a wrong table cannot be mended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from tallymark_spark_jobs.lake.table import (
    SIDE_FOLDER,
    Append,
    Conflict,
    Manifest,
    OffsetRange,
    PartitionKey,
    Refused,
)

PROBLEMS_SAID: Final = 5
"""So many problems are in the text of an error; the first ones say enough."""


def check_append(append: Append) -> None:
    """Refused: the manifests do not tile the plan exactly, or do not add up."""
    problems = list(islice(problems_of(append), PROBLEMS_SAID + 1))
    if problems:
        more = "; and more" if len(problems) > PROBLEMS_SAID else ""
        raise Refused(
            "the tasks did not return what was planned, nothing is committed: "
            + "; ".join(problems[:PROBLEMS_SAID])
            + more
        )


def check_offsets(append: Append, offsets: Mapping[PartitionKey, int]) -> None:
    """Conflict: a range does not begin where the table ends. A partition that was never loaded may
    begin anywhere."""
    for key, start, end in append.plan:
        loaded = offsets.get(key)
        if append.repair:
            if loaded is None or end > loaded:
                raise Refused(
                    f"{key}: a repair of {start} to {end - 1} is not below what is loaded"
                    f" ({loaded or 0}): load the rest first"
                )
        elif loaded is not None and loaded != start:
            raise Conflict(
                f"{key} is loaded up to offset {loaded}, this load began at {start}: another load"
                " of the same table was faster. Nothing was written; load again"
            )


def problems_of(append: Append) -> Iterator[str]:
    """What is wrong with the append, a line each."""
    plan = {span.key: span for span in append.plan}
    if len(plan) != len(append.plan):
        yield "the plan names a partition twice"
    spans: dict[PartitionKey, list[OffsetRange]] = defaultdict(list)
    for manifest in append.manifests:
        spans[manifest.span.key].append(manifest.span)
        yield from _sums(manifest)
    for key in spans.keys() - plan.keys():
        yield f"{key} was not planned"
    for key, planned in plan.items():
        yield from _tiles(planned, spans[key])
    named = Counter(file.path for each in append.manifests for file in each.files)
    yield from (f"{path} is named {count} times" for path, count in named.items() if count > 1)


def _tiles(planned: OffsetRange, spans: Iterable[OffsetRange]) -> Iterator[str]:
    """Holes and overlaps. Empty spans count for nothing, wherever they are."""
    if planned.end <= planned.start:
        yield f"{planned.key}: the planned range {planned.start} to {planned.end} is empty"
    at = planned.start
    for _, start, end in sorted(span for span in spans if span.end != span.start):
        if end < start:
            yield f"{planned.key}: a task returned the range {start} to {end}, which ends too early"
        if start > at:
            yield f"{planned.key}: no task returned offsets {at} to {start - 1}"
        elif start < at:
            yield f"{planned.key}: offsets {start} to {min(at, end) - 1} were returned twice"
        at = max(at, end)
    if at < planned.end:
        yield f"{planned.key}: no task returned offsets {at} to {planned.end - 1}"
    elif at > planned.end:
        yield f"{planned.key}: offsets {planned.end} to {at - 1} were not planned"


def _sums(manifest: Manifest) -> Iterator[str]:
    span, rows = manifest.span, manifest.rows
    known = rows + manifest.quarantined + manifest.gaps + manifest.expired
    if known != span.end - span.start:
        yield (
            f"{span}: {span.end - span.start} offsets, but {rows} rows,"
            f" {manifest.quarantined} in quarantine, {manifest.gaps} gaps"
            f" and {manifest.expired} expired"
        )
    numbers = (rows, manifest.quarantined, manifest.gaps, manifest.expired)
    if min(numbers) < 0:
        yield f"{span}: a number below zero"
    in_files = sum(file.rows for file in manifest.files)
    if in_files != rows:
        yield f"{span}: {rows} rows, but its files hold {in_files}"
    for file in manifest.files:
        if not 0 <= file.late_rows <= file.rows:
            yield f"{file.path}: {file.late_rows} late rows of {file.rows}"
        if not inside(file.path):
            yield f"{file.path}: a file outside the table"
    for path in manifest.side_files:
        if not (inside(path) and path.startswith(f"{SIDE_FOLDER}/")):
            yield f"{path}: a side file outside {SIDE_FOLDER}"
    if manifest.tallies:
        counted = sum(tally.messages for tally in manifest.tallies if not tally.aborted)
        # What is quarantined because its batch cannot be read, cannot be counted either.
        if not rows <= counted <= rows + manifest.quarantined:
            yield (
                f"{span}: {rows} rows and {manifest.quarantined} in quarantine, but the tallies"
                f" count {counted}"
            )


def inside(path: str) -> bool:
    """Whether a path is relative and does not leave its folder."""
    return (
        bool(path)
        and not path.startswith("/")
        and ".." not in path.split("/")
        and ("://" not in path)
    )
