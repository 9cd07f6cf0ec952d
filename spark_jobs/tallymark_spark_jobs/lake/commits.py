"""What a commit says about itself: from an append to a :class:`Commit`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tallymark_spark_jobs.lake.table import (
    Append,
    Commit,
    Conflict,
    DataFile,
    Detail,
    OffsetRange,
    PartitionKey,
)


def commit_of(append: Append, version: int, at_ms: int) -> Commit:
    """The commit that the append becomes as that version of the table."""
    detail = detail_of(append)
    parts = append.manifests
    return Commit(
        version,
        at_ms,
        "repair" if append.repair else "load",
        append.job,
        rows=sum(part.rows for part in parts),
        quarantined=sum(part.quarantined for part in parts),
        late=sum(file.late_rows for file in files_of(append)),
        gaps=sum(part.gaps for part in parts),
        expired=sum(part.expired for part in parts),
        detail=lambda: detail,
    )


def detail_of(append: Append) -> Detail:
    """The long part of the commit."""
    parts = append.manifests
    return Detail(
        ranges=tuple(sorted(append.plan)),
        tallies=tuple(tally for part in parts for tally in part.tallies),
        expired=tuple(sorted(part.span for part in parts if part.expired)),
        side_files=tuple(path for part in parts for path in part.side_files),
    )


def files_of(append: Append) -> Iterator[DataFile]:
    """Every file that holds rows of the append."""
    return (file for part in append.manifests for file in part.files)


def check_repairs(append: Append, later: Iterable[Commit]) -> None:
    """Conflict: another repair of the same offsets was committed ``later`` than the snapshot in
    which they were looked for. Offsets do not show that, since a repair leaves them alone."""
    if not append.repair:
        return
    for commit in later:
        if commit.operation == "repair" and overlap(append.plan, commit.ranges):
            raise Conflict(
                f"{append.plan[0].key}: job {commit.job} has repaired these offsets in the"
                " meantime. Nothing was written; look which rows are still missing"
            )


def overlap(some: Iterable[OffsetRange], others: Iterable[OffsetRange]) -> bool:
    """Whether an offset is in a range of each."""
    by_key: dict[PartitionKey, list[OffsetRange]] = {}
    for other in others:
        by_key.setdefault(other.key, []).append(other)
    return any(
        one.start < other.end and other.start < one.end
        for one in some
        for other in by_key.get(one.key, ())
    )
