"""CSV that a spreadsheet opens without computing anything: ``=cmd|' /C calc'!A0`` as the name of a
server ran a program on the machine of whoever opened the list."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark_audit.api import csv_text
from tallymark_audit.api.fields import Field

TEXT, NUMBER, TIME = Field("text", ""), Field("number", ""), Field("time", "")
FIELDS = {"name": TEXT, "other": TEXT, "count": NUMBER}


def read(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


@pytest.mark.parametrize(
    ("value", "field", "cell"),
    [
        ("=cmd|' /C calc'!A0", TEXT, "'=cmd|' /C calc'!A0"),
        ("+1", TEXT, "'+1"),
        ("-1", TEXT, "'-1"),
        ("@SUM(A1)", TEXT, "'@SUM(A1)"),
        ("  =1", TEXT, "'  =1"),
        ("\t=1", TEXT, "\\t=1"),
        ("＝1", TEXT, "'＝1"),
        ("web-1", TEXT, "web-1"),
        ("a\nb", TEXT, "a\\nb"),
        ("web\udcff", TEXT, "web\\udcff"),
        ("\u202egnp", TEXT, "\\u202egnp"),
        (-1, NUMBER, "-1"),
        (2**60, NUMBER, str(2**60)),
        (0.25, Field("share", ""), "0.25"),
        (True, Field("flag", ""), "true"),
        (None, NUMBER, ""),
        ([1, 2], Field("list", ""), "[1,2]"),
        ({"=x": "=y"}, Field("object", ""), '{"=x":"=y"}'),
        (1_767_268_800_000, TIME, "2026-01-01T12:00:00Z"),
        (1_767_268_800_007, TIME, "2026-01-01T12:00:00.007Z"),
        (0, TIME, ""),
        (-1, TIME, ""),
        (2**62, TIME, str(2**62)),
    ],
)
def test_values_as_cells(value: Any, field: Field, cell: str) -> None:
    assert csv_text.shown(value, field) == cell


@given(st.lists(st.tuples(st.text(), st.text(), st.integers())))
def test_whatever_text_there_is_a_row_stays_a_row(rows: list[tuple[str, str, int]]) -> None:
    told = [dict(zip(FIELDS, row, strict=True)) for row in rows]
    data = csv_text.head(FIELDS) + csv_text.lines(FIELDS, told)
    names, *found = read(data)
    assert names == list(FIELDS)
    assert [int(count) for *_, count in found] == [count for *_, count in rows]
    for name, other, _ in found:
        assert not (name + "\0").lstrip().startswith(csv_text.FORMULAS)
        assert not (other + "\0").lstrip().startswith(csv_text.FORMULAS)
    assert data.count(b"\r\n") == len(rows) + 1
