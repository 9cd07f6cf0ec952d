"""Runs: jobs that judged, repairs, and what people decided; one of them with its details."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from tallymark_audit.store.reading import queries
from tallymark_audit.store.reading.runs import (
    COUNTS,
    DECISION,
    JOB,
    REPAIR,
    WhichRuns,
    decision,
    job_run,
    judged_hops,
    loaded_tables,
    repaired_by,
    run_count,
    run_names,
    run_page,
)
from tallymark_audit.store.schema.rows import Row
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.missing import missing
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import page
from tallymark_dashboards.view.marks import Tone

ROWS: Final = 50
MOST: Final = 200
"""Rows of one run: repaired parts, disagreements, hops and topics."""
GOOD: Final = ("complete", "done", "repaired", "succeeded", "nothing to do")
WAITING: Final = ("undecided", "running", "partly", "")
_ID: Final = re.compile(r"([jd])(\d{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class RunRow:
    """A row of the list. ``key`` names it in addresses; ``took_ms`` is -1 while it goes on."""

    key: str
    row: Row
    tone: Tone
    symbol: str
    took_ms: int


@page("/runs", name="runs", nav="Runs", live=True)
def runs(ask: Ask) -> Page:
    """All of them, the newest first."""
    connection = ask.connection
    names, outcomes = run_names(connection)
    which = WhichRuns(
        ask.range.start,
        ask.range.end,
        ask.one_of("name", ("", *names), ""),
        ask.one_of("outcome", ("", *outcomes), ""),
    )
    count = run_count(connection, which)
    paging = ask.paging(count, ROWS)
    rows = [run_row(row) for row in run_page(connection, which, ROWS, paging.skip)]
    values = {
        "rows": rows,
        "count": count,
        "number": paging.number,
        "pages": paging.pages,
        "which": which,
        "names": names,
        "outcomes": outcomes,
        "tables": loaded_tables(connection, ROWS),
        "overdue_ms": ask.context.deployment.lake.overdue_ms if ask.context.deployment.lake else 0,
        "now_ms": ask.now - ask.now % 60_000,
    }
    newest = next((one for one in rows if one.row["kind"] == JOB), None)
    return Page("Runs", "pages/runs.html", values, newest.tone if newest else "")


@page("/run", name="run", nav="Runs", ranged=False)
def run(ask: Ask) -> Page:
    """One of them: ``j12`` is a run of a job, ``d5`` what a person decided."""
    said = ask.text("id")
    found = _ID.fullmatch(said)
    if found is None:
        return missing("run", said, hint="Runs are named j and d with a number: see the list.")
    number = int(found[2])
    if found[1] == "j":
        row = job_run(ask.connection, number)
        return missing("run", said) if row is None else _job(ask, row)
    row = decision(ask.connection, number)
    return missing("run", said) if row is None else _decision(ask, row)


def run_row(row: Row) -> RunRow:
    """A row of the list as the page shows it."""
    tone, symbol = tone_of(row["outcome"], bool(row["finished_at"]))
    took = row["finished_at"] - row["at"] if row["finished_at"] else -1
    return RunRow(f"{'j' if row['kind'] == JOB else 'd'}{row['id']}", row, tone, symbol, took)


def tone_of(outcome: str, finished: bool) -> tuple[Tone, str]:
    """How an outcome is shown: never by colour alone."""
    if not finished or outcome == "running":
        return "wait", "…"
    if outcome in GOOD:
        return "good", "✓"
    return ("warn", "?") if outcome in WAITING else ("bad", "!")


def _job(ask: Ask, row: Row) -> Page:
    one = {
        **row, "kind": JOB, "at": row["started_at"], "name": row["job"], "who": "", "edge": "",
        "topic": "", "subject": "", "note": "",
    }  # fmt: skip
    detail: Mapping[str, Any] = row["detail"] if isinstance(row["detail"], dict) else {}
    shown = queries.disagreements(ask.connection, MOST + 1, row["from_ms"], row["to_ms"])
    hops = judged_hops(row)
    values: dict[str, Any] = {
        "hops": hops[:MOST],
        "more_hops": max(0, len(hops) - MOST),
        "columns": COUNTS,
        "seconds": _seconds(detail.get("seconds")),
        "damaged": _lines(detail.get("damaged")),
        "damaged_events": detail.get("damaged_events") or 0,
        "disagreements": shown[:MOST],
        "more": len(shown) > MOST,
        "parts": [],
        "detail": {},
    }
    return _page(run_row(one), values)


def _decision(ask: Ask, row: Row) -> Page:
    one = {
        **row, "kind": DECISION, "name": row["action"], "from_ms": row["window"],
        "to_ms": row["window_end"],
    }  # fmt: skip
    detail: Mapping[str, Any] = row["detail"] if isinstance(row["detail"], dict) else {}
    parts = repaired_by(ask.connection, row, MOST + 1) if row["action"] == REPAIR else []
    values: dict[str, Any] = {
        "hops": [],
        "more_hops": 0,
        "columns": COUNTS,
        "seconds": [],
        "damaged": [],
        "damaged_events": 0,
        "disagreements": [],
        "more": len(parts) > MOST,
        "parts": parts[:MOST],
        "detail": detail,
    }
    return _page(run_row(one), values)


def _page(shown: RunRow, values: Mapping[str, Any]) -> Page:
    title = f"{shown.row['name'].capitalize()} {shown.key}"
    return Page(title, "pages/run.html", {"one": shown, **values}, shown.tone)


def _lines(given: object) -> list[Mapping[str, Any]]:
    """Objects of a list that a job has stored; whatever else is there is left out."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        return []
    rows = cast("Sequence[object]", given)
    return [cast("Mapping[str, Any]", one) for one in rows if isinstance(one, dict)][:MOST]


def _seconds(given: object) -> list[tuple[str, float]]:
    if not isinstance(given, dict):
        return []
    steps = cast("Mapping[str, object]", given)
    return [(name, float(took)) for name, took in steps.items() if isinstance(took, int | float)]
