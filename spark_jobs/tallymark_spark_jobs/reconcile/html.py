"""The report as HTML: what the terminal shows, and how complete each topic is over time.

The table is made of :mod:`tallymark_audit.frames`, as a notebook would make it; without pandas
(extra ``frames``) the page has the text alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, Final

from tallymark.errors import UserError
from tallymark_audit.judge.verdicts import GOOD, UNDECIDED, State
from tallymark_audit.model.time_format import utc
from tallymark_spark_jobs.reconcile.lake_output import rows_of
from tallymark_spark_jobs.reconcile.outcome import Outcome
from tallymark_spark_jobs.reconcile.shapes.period import DAY_MS

HOURS_SHOWN: Final = 48
"""Of a longer period the table has days."""
_STYLE: Final = (
    "<style>table.spans{border-collapse:collapse;font:12px monospace;margin:1em 0}"
    "table.spans th,table.spans td{border:1px solid #999;padding:2px 6px;text-align:right}"
    "td.good{background:#e6f2e6}td.open{background:#fff3c4}td.wrong{background:#f6c6c0}</style>"
)


def with_completeness(page: str, outcome: Outcome) -> str:
    """The page with the table of completeness before its end."""
    table = "".join(_table(outcome))
    head, end, rest = page.rpartition("</body>")
    return f"{head}{table}{end}{rest}" if end else page + table


def _table(outcome: Outcome) -> Iterator[str]:
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
    spans = sorted({row["start"] for row in shown})
    yield f'{_STYLE}<table class="spans"><caption>Completeness by {span} of event time, UTC: '
    yield "messages missing (-) and repeated (+)</caption><tr><th scope='col'>edge, topic</th>"
    for start in spans:
        yield f"<th scope='col'>{utc(int(start.timestamp() * 1000))[5:16].replace('T', ' ')}</th>"
    yield "</tr>"
    for name in dict.fromkeys((row["edge"], row["topic"]) for row in shown):
        mine = {row["start"]: row for row in shown if (row["edge"], row["topic"]) == name}
        yield f"<tr><th scope='row'>{escape(' '.join(name))}</th>"
        for start in spans:
            yield _cell(mine[start]) if start in mine else "<td></td>"
        yield "</tr>"
    yield "</table>"


def _cell(row: dict[str, Any]) -> str:
    state = State(str(row["state"]))
    kind = "good" if state in GOOD else "open" if state in UNDECIDED else "wrong"
    counts = [f"-{row['missing']:,}"] if row["missing"] else []
    counts += [f"+{row['duplicates']:,}"] if row["duplicates"] else []
    text = " ".join(counts) or ("?" if state in UNDECIDED else "100 %")
    share = "" if row["share"] != row["share"] else f", {row['share']:.4%} there"
    title = f"{state}: {row['windows']:,} windows, {row['claimed']:,} claimed{share}"
    return f'<td class="{kind}" title="{escape(title)}">{text}</td>'
