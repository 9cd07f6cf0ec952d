"""The report in each of its forms."""

from __future__ import annotations

import re

import pytest

from tallymark.errors import UserError
from tallymark_audit.frames import columns
from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_spark_jobs.reconcile.html import with_completeness
from tallymark_spark_jobs.reconcile.markdown import to_markdown
from tallymark_spark_jobs.reconcile.outcome import Outcome
from tallymark_spark_jobs.reconcile.reading.read_plan import Unread
from tallymark_spark_jobs.reconcile.shapes.period import Period

HOUR = 3_600_000
START = 1_769_817_600_000
KEY = CellKey("a|b", 0, START, "web-1", "11" * 8)
LOST = CellVerdict(
    KEY, State.LOSS, claimed=10, missing=RangeSet.single(3, 4), missing_count=2, reason="gone"
)
PAGE = "<html><body><pre>text</pre></body></html>"


def outcome(*more: Verdict) -> Outcome:
    verdicts = (
        Verdict("dc1-to-aggregate", "a|b", START, State.LOSS, 10, 8, 2, cells=(LOST,)),
        Verdict("dc1-to-aggregate", "a|b", START + HOUR, State.COMPLETE, 10, 10),
        Verdict("producer-to-dc1", "<t>", START, State.DUPLICATION, 10, 10, duplicates=3),
        Verdict("producer-to-dc1", "<t>", START + HOUR, State.UNKNOWN, 10, reasons=("silent",)),
        *more,
    )
    return Outcome(
        Period(START, START + 2 * HOUR),
        START + 9 * HOUR,
        verdicts,
        {},
        {},
        idle=False,
        unread=(Unread("aggregate", "a|b", 0, 100, 299),),
        notes=("the lake has no verdicts of this run: no space",),
        seconds={"count": 1.25},
    )


def test_markdown_has_the_table_the_findings_and_the_notes() -> None:
    text = to_markdown(outcome())
    assert "**DISCREPANCIES: 2 missing, 3 duplicated" in text
    row = next(line for line in text.splitlines() if "dc1-to-aggregate" in line)
    assert row == "| dc1-to-aggregate | a\\|b | 2 | 20 | 18 | 2 | 0 | 0 | 0 | LOSS |"
    assert "sequences 3-4" in text
    assert "* 200 offsets behind the period were not read" in text
    assert "* the lake has no verdicts of this run: no space" in text
    assert "UNKNOWN, 1 windows: silent" in text
    assert text.endswith("Steps: count 1.2 s.\n")


def test_html_shows_each_hour_in_words_and_numbers() -> None:
    page = with_completeness(PAGE, outcome())
    assert page.endswith("</table></body></html>")
    assert page.startswith("<html><body><pre>text</pre><style>")
    cells = re.findall(r'<td class="(\w+)" title="([^"]*)">([^<]*)</td>', page)
    assert [(kind, text) for kind, _, text in cells] == [
        ("wrong", "-2"),
        ("good", "100 %"),
        ("wrong", "+3"),
        ("open", "?"),
    ]
    assert cells[0][1] == "LOSS: 1 windows, 10 claimed, 80.0000% there"
    assert "<t>" not in page
    assert page.count("scope='col'") == 3


def test_of_many_days_the_table_has_days() -> None:
    late = Verdict("producer-to-dc1", "<t>", START + 72 * HOUR, State.COMPLETE, 1, 1)
    page = with_completeness(PAGE, outcome(late))
    assert "by 1D" in page
    assert page.count("scope='col'") == 3


def test_without_pandas_the_page_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> object:
        raise UserError("pandas is not installed")

    monkeypatch.setattr(columns, "pandas", missing)
    monkeypatch.setattr("tallymark_audit.frames.shares.pandas", missing)
    assert with_completeness(PAGE, outcome()) == PAGE
