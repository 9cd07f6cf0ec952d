"""The reporters, and whether each still reports. Pure.

As long as a reporter reports, its last report has no time here: that changes every few seconds, and
with it every page that shows it, though nothing has happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tallymark_audit.store.counted.facts import is_retired


@dataclass(frozen=True, slots=True)
class ReporterRow:
    """``state``: reports, silent, ended or retired; ``since`` (ms) of the last three, else 0."""

    reporter: str
    server: str
    application: str
    kind: str
    cluster: str
    group: str
    state: str
    tone: str
    symbol: str
    since: int = 0


def reporter_rows(rows: Iterable[Mapping[str, Any]], silent_before: int) -> list[ReporterRow]:
    """Rows of ``reporters``; one whose last report was before ``silent_before`` (ms) is silent. The
    silent ones come first, then those that report, then those that ended."""
    found = [_row(row, silent_before) for row in rows]
    return sorted(found, key=lambda one: (_ORDER[one.state], one.server, one.reporter))


_ORDER = {"silent": 0, "reports": 1, "retired": 2, "ended": 3}


def _row(row: Mapping[str, Any], silent_before: int) -> ReporterRow:
    if row["closed"]:
        state, tone, symbol, since = "ended", "", "", row["last_heard"]
    elif is_retired(row):
        state, tone, symbol, since = "retired", "", "", row["retired_at"]
    elif row["last_heard"] < silent_before:
        state, tone, symbol, since = "silent", "warn", "?", row["last_heard"]
    else:
        state, tone, symbol, since = "reports", "good", "✓", 0
    return ReporterRow(
        reporter=row["reporter"],
        server=row["server"],
        application=row["application"],
        kind=row["kind"],
        cluster=row["cluster"],
        group=row["consumer_group"],
        state=state,
        tone=tone,
        symbol=symbol,
        since=since,
    )
