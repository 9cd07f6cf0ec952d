"""The table of verdicts: what each reconciliation found, for readers of the lake.

One row a window of a topic on an edge. A run replaces the rows of the windows that it judged, in
one commit, and leaves all others alone. A row that was made of a later look stays: a run that began
earlier and ends later changes nothing there. The same result again makes no version.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import pyarrow as pa

from tallymark.errors import UserError
from tallymark_spark_jobs.lake.committing import Raced, waits
from tallymark_spark_jobs.lake.heads import Pending, maintenance
from tallymark_spark_jobs.lake.opening import Lake
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import NO_VERSION

FOLDER: Final = ("_audit", "verdicts")
"""Where the table is in the lake, and its name in a catalogue."""
_KEY: Final = ("edge", "topic", "window")
_TIME: Final = pa.timestamp("us", tz="UTC")
_FIRST_MS: Final = -1_000_000_000_000
_LAST_MS: Final = 253_402_300_799_000
"""The end of the year 9999: more is no time to Python."""
COLUMNS: Final = pa.schema(
    [
        ("edge", pa.string()),
        ("topic", pa.string()),
        ("window", _TIME),
        ("state", pa.string()),
        ("as_of", _TIME),
        ("run", pa.string()),
        *((name, pa.int64()) for name in ("claimed", "observed", "missing", "duplicates")),
        *((name, pa.int64()) for name in ("unclaimed", "explained")),
        ("reasons", pa.list_(pa.field("element", pa.string()))),
        ("cells", pa.string()),
    ]
)
"""``window``: its start. ``as_of``: when the look began of which the verdict is made. ``run``: the
name of the run. ``cells``: those that are not simply complete, as JSON."""


class VerdictTable(Protocol):
    """The table in one format. ``version`` of what was read is what is written on."""

    def read(self, start_us: int, end_us: int) -> tuple[int, pa.Table]:
        """The rows of the windows that start in the range, and the version; :data:`NO_VERSION` and
        no rows before the table is made."""
        ...

    def replace(
        self, version: int, rows: pa.Table, start_us: int, end_us: int, head: Pending
    ) -> int:
        """Put the rows in place of those of the range; the new version. Raced: there is a newer
        version than the one that was read."""
        ...


def write_verdicts(lake: Lake, rows: Iterable[Mapping[str, Any]], *, run: str) -> int | None:
    """Write the verdicts of a run. A row has the columns of :data:`COLUMNS` except ``run``, times
    in ms. The version of the table that has them; None: nothing is new. UserError: the table cannot
    be written."""
    mine = {_key(row): row for row in _told(rows, run)}
    if not mine:
        return None
    windows = [row["window"] for row in mine.values()]
    start, end = min(windows), max(windows) + 1
    table = verdict_table(lake)
    for wait in waits():
        version, found = table.read(start, end)
        theirs = {_key(row): row for row in _raw(found)}
        merged = {**theirs, **{k: row for k, row in mine.items() if _newer(row, theirs.get(k))}}
        if version != NO_VERSION and merged == theirs:
            return None
        try:
            sorted_rows = [merged[key] for key in sorted(merged)]
            return table.replace(
                version, _table(sorted_rows), start, end, maintenance("verdicts", run)
            )
        except Raced:
            time.sleep(wait)
    raise UserError(f"{lake.path}: the verdicts could not be written: others always were faster")


def read_verdicts(lake: Lake, start_ms: int = _FIRST_MS, end_ms: int = _LAST_MS) -> pa.Table:
    """The rows of the windows that start in the range; none where there is no table."""
    _, rows = verdict_table(lake).read(start_ms * 1000, end_ms * 1000)
    return rows.cast(COLUMNS).sort_by([(name, "ascending") for name in _KEY])


def verdict_table(lake: Lake) -> VerdictTable:
    """The table, which may not exist yet. UserError: the format's package is not installed."""
    module = lake.format_module("verdicts")
    storage = Storage("/".join([lake.path.rstrip("/"), *FOLDER]), lake.options)
    made: VerdictTable = module.table(lake, storage)
    return made


def _told(rows: Iterable[Mapping[str, Any]], run: str) -> Iterable[dict[str, Any]]:
    for row in rows:
        told = {name: row[name] for name in COLUMNS.names if name != "run"}
        yield {
            **told,
            "window": row["window"] * 1000,
            "as_of": row["as_of"] * 1000,
            "reasons": list(row["reasons"]),
            "run": run,
        }


def _newer(row: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    """Whether the row may stand in the place of the one that is there. What only names another run
    is not new."""
    if before is None:
        return True
    same = {**row, "run": ""} == {**before, "run": ""}
    return bool(row["as_of"] >= before["as_of"] and not same)


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)


def _raw(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows with times as microseconds."""
    names = [*COLUMNS.names]
    plain = rows.select(names).cast(_UNTIMED).to_pylist()
    return [dict(row) for row in plain]


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=_UNTIMED).cast(COLUMNS)


_UNTIMED: Final = pa.schema(
    [pa.field(each.name, pa.int64() if each.type == _TIME else each.type) for each in COLUMNS]
)
