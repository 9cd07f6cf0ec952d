"""Takes away files that no version of a table names: those of tasks that died.

Nothing young is touched, since a load that is running has landed files that it will name later; and
no file that any version of the history names, the tallies among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tallymark.clock import now_ms
from tallymark_spark_jobs.lake.committing import CommittedTable
from tallymark_spark_jobs.lake.heads import commit_from, counts_side_files, detail_file
from tallymark_spark_jobs.lake.storage import StoredFile
from tallymark_spark_jobs.lake.table import SIDE_FOLDER

GRACE_MS: Final = 7 * 24 * 3_600_000
"""How old a file has to be: longer than any load takes, and than people read old versions."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What was deleted, or what would be."""

    files: tuple[str, ...]
    bytes: int


def sweep(table: CommittedTable[Any], grace_ms: int = GRACE_MS, *, dry_run: bool = False) -> Swept:
    """Delete the orphans of a table. UserError: it cannot be listed, or a file not be deleted."""
    if table.open().version < 0:
        return Swept((), 0)  # the first load may be landing
    # The listing comes first: what is named while it is made, is named afterwards too.
    listed = [file for file in table.storage.files() if not table.own_file(file.path)]
    orphans = _unnamed_rows(table, listed, grace_ms) + _unnamed_sides(table, listed)
    border = now_ms() - grace_ms
    old = [file for file in orphans if file.changed_ms < border]
    if not dry_run:
        for file in old:
            table.storage.delete(file.path)
    return Swept(tuple(sorted(file.path for file in old)), sum(file.bytes for file in old))


def _unnamed_rows(
    table: CommittedTable[Any], listed: list[StoredFile], grace_ms: int
) -> list[StoredFile]:
    rows = [file for file in listed if not file.path.startswith(f"{SIDE_FOLDER}/")]
    named = table.named_files((file.path for file in rows), grace_ms)
    return [file for file in rows if file.path not in named]


def _unnamed_sides(table: CommittedTable[Any], listed: list[StoredFile]) -> list[StoredFile]:
    """Those that no head names. The history may be shorter than the table is old: what was written
    before its first version may have been named by one that is forgotten, and stays."""
    sides = [file for file in listed if file.path.startswith(f"{SIDE_FOLDER}/")]
    if not sides:
        return []
    named: set[str] = set()
    since: int | None = None
    for version, at_ms, head in table.heads():
        since = at_ms if since is None else min(since, at_ms)
        named |= {detail_file(head)}
        if counts_side_files(head):
            named.update(commit_from(head, version, at_ms, table.storage).detail().side_files)
    if since is None:
        return []
    return [file for file in sides if file.path not in named and file.changed_ms > since]
