"""The report as HTML: what the terminal shows, how complete each topic is over time, and where
messages are missing.

Tables and charts are made of :mod:`tallymark_audit.frames`, as a notebook would make them; without
pandas (extra ``frames``) the page has the text alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from tallymark.errors import UserError
from tallymark_audit.judge.verdicts import UNDECIDED, State
from tallymark_audit.model.time_format import utc
from tallymark_spark_jobs.reconcile import charts
from tallymark_spark_jobs.reconcile.lake_output import rows_of
from tallymark_spark_jobs.reconcile.outcome import Outcome
from tallymark_spark_jobs.reconcile.shapes.period import DAY_MS

HOURS_SHOWN: Final = 48
"""Of a longer period the table has days."""
_STYLE: Final = (
    "<style>table.spans{border-collapse:collapse;font:12px monospace;margin:1em 0}"
    "table.spans th,table.spans td{border:1px solid #999;padding:2px 6px;text-align:right}"
    "table.spans th[scope=row]{white-space:nowrap}"
    "td.good{background:#e6f2e6}td.open{background:#fff3c4}td.wrong{background:#f6c6c0}"
    f"{charts.STYLE}</style>"
)


def with_completeness(page: str, outcome: Outcome) -> str:
    """The page with charts and tables of completeness before its end."""
    added = "".join(_parts(outcome))
    head, end, rest = page.rpartition("</body>")
    return f"{head}{added}{end}{rest}" if end else page + added


def _parts(outcome: Outcome) -> Iterator[str]:
    from tallymark_audit.frames import completeness, verdicts_of

    rows = [{**row, "judged_at": row["as_of"]} for row in rows_of(outcome)]
    if not rows:
        return
    starts = [row["window"] for row in rows]
    span = "1h" if max(starts) - min(starts) <= HOURS_SHOWN * DAY_MS // 24 else "1D"
    try:
        found = completeness(verdicts_of(rows), by=span).reset_index()
    except UserError:
        return  # pandas is not installed
    shown: list[dict[str, Any]] = found.to_dict("records")
    names = {start: _name(start) for start in sorted({row["start"] for row in shown})}
    yield _STYLE
    yield from charts.by_topic(shown, names)
    yield from _table(shown, names, span)
    yield from charts.by_edge(shown)


def _name(start: Any) -> str:
    return utc(int(start.timestamp() * 1000))[5:16].replace("T", " ")


def _table(shown: Sequence[dict[str, Any]], names: Mapping[Any, str], span: str) -> Iterator[str]:
    yield f'<table class="spans"><caption>Completeness by {span} of event time, UTC: '
    yield "messages missing (-) and repeated (+)</caption><tr><th scope='col'>edge, topic</th>"
    for name in names.values():
        yield f"<th scope='col'>{name}</th>"
    yield "</tr>"
    for edge, topic in dict.fromkeys((row["edge"], row["topic"]) for row in shown):
        mine = {row["start"]: row for row in shown if (row["edge"], row["topic"]) == (edge, topic)}
        yield f"<tr><th scope='row'>{escape(f'{edge} {topic}')}</th>"
        for start in names:
            yield _cell(mine[start]) if start in mine else "<td></td>"
        yield "</tr>"
    yield "</table>"


def _cell(row: dict[str, Any]) -> str:
    state = State(str(row["state"]))
    counts = [f"-{row['missing']:,}"] if row["missing"] else []
    counts += [f"+{row['duplicates']:,}"] if row["duplicates"] else []
    text = " ".join(counts) or ("?" if state in UNDECIDED else "100 %")
    share = "" if row["share"] != row["share"] else f", {charts.floored(row['share'])} there"
    title = f"{state}: {row['windows']:,} windows, {row['claimed']:,} claimed{share}"
    return f'<td class="{charts.kind_of(state)}" title="{escape(title)}">{text}</td>'
