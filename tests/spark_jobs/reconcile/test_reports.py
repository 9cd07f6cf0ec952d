"""The report in each of its forms."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tallymark.errors import UserError
from tallymark_audit.frames import columns
from tallymark_audit.judge.verdicts import CellVerdict, State, Verdict
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet
from tallymark_spark_jobs.reconcile.charts import floored, short
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
    table = page[page.index("<table") : page.index("</table>")]
    assert table.count("scope='col'") == 3
    cells = re.findall(r'<td class="(\w+)" title="([^"]*)">([^<]*)</td>', page)
    assert [(kind, text) for kind, _, text in cells] == [
        ("wrong", "-2"),
        ("good", "100 %"),
        ("wrong", "+3"),
        ("open", "?"),
    ]
    assert cells[0][1] == "LOSS: 1 windows, 10 claimed, 80.0000 % there"
    assert "<t>" not in page


def drawn(page: str, number: int) -> ElementTree.Element:
    """A chart of the page: it has to be XML, as browsers take it."""
    found = re.findall(r"<svg .*?</svg>", page)
    return ElementTree.fromstring(found[number])


def test_a_chart_has_a_box_for_each_topic_and_hour() -> None:
    """Its sign says what its colour says: the worst hop of the topic in that hour."""
    fine = Verdict("producer-to-dc1", "a|b", START, State.COMPLETE, 10, 10)
    more = Verdict("producer-to-dc1", "a|b", START + HOUR, State.LOSS, 9000, 1, 8999)
    chart = drawn(with_completeness(PAGE, outcome(fine, more)), 0)
    boxes = [(box[0].text, box[1].attrib["class"], box[2].text) for box in chart.iter("g")]
    assert [(kind, sign) for _, kind, sign in boxes] == [
        ("wrong", "2"),
        ("wrong", "8k"),
        ("wrong", "3"),
        ("open", "?"),
    ]
    assert boxes[0][0] == "a|b 01-31 00:00: LOSS, 2 missing, 0 repeated, 80.0000 % there"
    labels = [text.text for text in chart.iter("text")]
    assert labels[1:3] == ["01-31 00:00", "01-31 01:00"]
    assert {"a|b", "<t>"} < set(labels)


def test_a_chart_of_hops_has_their_counts() -> None:
    page = with_completeness(PAGE, outcome())
    chart = drawn(page, 1)
    bars = {bar[0].text: int(bar[1].attrib["width"]) for bar in chart.iter("g")}
    assert bars["dc1-to-aggregate: missing 2"] == 280
    assert bars["producer-to-dc1: repeated 3"] == 420
    assert bars["producer-to-dc1: missing 0"] == 0
    (beside,) = re.findall(r"<caption>Messages by hop.*?</table>", page)
    assert re.findall(r"<td>(\d+)</td>", beside) == ["2", "0", "0", "3"]


def test_a_chart_never_says_complete_where_something_is_missing() -> None:
    assert floored(1.0) == "100 %"
    assert floored(0.9999999) == "99.9999 %"
    assert [short(count) for count in (0, 999, 1000, 1_999_999, 3 * 10**9)] == [
        "0", "999", "1k", "1M", "3G"
    ]  # fmt: skip


def test_of_many_topics_the_worst_are_drawn() -> None:
    many = [
        Verdict("producer-to-dc1", f"topic-{n:03}", START, State.COMPLETE, 1, 1) for n in range(60)
    ]
    page = with_completeness(PAGE, outcome(*many))
    labels = {text.text for text in drawn(page, 0).iter("text")}
    assert {"a|b", "<t>"} < labels
    assert "22 more topics are in the table" in page


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
