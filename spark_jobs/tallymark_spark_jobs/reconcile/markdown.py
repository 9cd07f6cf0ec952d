"""The report as Markdown, for a ticket or a chat: the same tables and lines as on the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from tallymark_spark_jobs.reconcile.outcome import Outcome, findings, lines
from tallymark_spark_jobs.reconcile.report import (
    NAMED,
    asides_of,
    finding_of,
    reasons_of,
    summary_of,
)

_COLUMNS = ("windows", "claimed", "observed", "missing", "duplicated", "unclaimed", "explained")


def to_markdown(outcome: Outcome) -> str:
    """The whole report."""
    table = lines(outcome.verdicts)
    parts = [f"# Reconciliation, {outcome.period}", f"**{_plain(summary_of(outcome, table))}**"]
    if table:
        head = ["edge", "topic", *_COLUMNS, "state"]
        rows = [head, ["---", "---", *["---:"] * len(_COLUMNS), "---"]]
        rows += [
            [line.edge, line.topic]
            + [f"{getattr(line, name):,}" for name in _COLUMNS]
            + [str(line.state)]
            for line in table
        ]
        parts.append("\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows))
    found = findings(outcome.verdicts)
    if found:
        parts.append("## Findings")
        for verdict, cell in found[:NAMED]:
            told = [_plain(text).strip("\n") for text in finding_of(verdict, cell, outcome)]
            parts.append("```\n" + "\n".join(told) + "\n```")
        if len(found) > NAMED:
            parts.append(f"{len(found) - NAMED:,} more findings are in the JSON result.")
    notes = [*reasons_of(outcome.verdicts), *asides_of(outcome)]
    if notes:
        parts += ["## Notes", "\n".join(f"* {_plain(note)}" for note in notes)]
    taken = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in outcome.seconds.items())
    return "\n\n".join([*parts, *_last(taken)]) + "\n"


def _last(taken: str) -> Iterable[str]:
    if taken:
        yield f"Steps: {taken}."


def _plain(text: object) -> str:
    return str(getattr(text, "plain", text))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
