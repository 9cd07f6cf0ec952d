"""Rows of each format, and how a format is told."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from project import ROOT

from tallymark.errors import UserError
from tallymark.publishing.reading import access_log, host_metrics
from tallymark.publishing.reading.access_log import access_log_rows
from tallymark.publishing.reading.csv_rows import csv_rows
from tallymark.publishing.reading.json_lines import json_rows
from tallymark.publishing.reading.rows import Bad, Line, Lines, Row, Rows, StopAfter
from tallymark.publishing.reading.sources import Shard, open_source, with_event_time
from tallymark.serialization import AvroCodec
from tallymark.shell.times import clf_time_ms, event_time_ms

REAL_LOG = ROOT.parent / "shared/data/apache_access.log"


def lines(*texts: str) -> Lines:
    return iter([Line(number, text) for number, text in enumerate(texts, 1)])


def rows_of(reader: Callable[[Lines], Rows], *texts: str) -> list[Row | Bad]:
    return [row for row in reader(lines(*texts)) if row is not None]


def test_json_lines() -> None:
    first, *bad = rows_of(json_rows, '{"a": 1}', " ", "{", "[1]", '{"a": NaN}', "[" * 100_000)
    assert first == Row(1, None, {"a": 1}, '{"a": 1}')
    assert [type(row) for row in bad] == [Bad] * 4
    assert [row.number for row in bad] == [3, 4, 5, 6]


def test_pauses_pass_through() -> None:
    paused: list[Line | Bad | None] = [None, Bad(1, "why", "raw")]
    for reader in (json_rows, csv_rows, access_log_rows):
        assert list(reader(iter(paused))) == paused


def test_csv() -> None:
    rows = rows_of(
        csv_rows, "id;name;;id", '1;"a ""b""\ncontinued', 'more";x;2', "", '5" disk;;;', "1;2"
    )
    assert rows[0] == Row(
        2,
        None,
        {"id": "1", "name": 'a "b"\ncontinued\nmore', "column_3": "x", "id_4": "2"},
        '1;"a ""b""\ncontinued\nmore";x;2',
    )
    assert isinstance(rows[1], Row)
    assert rows[1].values["id"] == '5" disk'
    assert rows[2] == Bad(6, "2 cells, where the header has 4", "1;2")


def test_a_quote_that_is_never_closed() -> None:
    (bad,) = rows_of(csv_rows, "a,b", '1,"x', "2,y")
    assert isinstance(bad, Bad)
    assert (bad.number, bad.reason) == (2, "a quoted cell is not closed")
    (wrong, fine) = rows_of(csv_rows, "a,b", '1,"x"y', "2,y")
    assert isinstance(wrong, Bad)
    assert isinstance(fine, Row)


COMMON = '10.0.0.1 - ann [17/May/2015:10:05:03 +0200] "GET /x?a=1 HTTP/1.0" 304 -'


def test_access_logs() -> None:
    combined = f'{COMMON} "http://r/" "a \\"quoted\\" agent"'
    odd = '::1 - - [17/May/2015:10:05:03 +0000] "\\x16\\x03" 400 12 "-" "-"'
    common, full, strange = rows_of(access_log_rows, COMMON, "", combined, odd)
    assert isinstance(common, Row)
    assert common.time_ms == 1_431_849_903_000
    assert common.values == {
        "time": 1_431_849_903_000,
        "host": "10.0.0.1",
        "identity": None,
        "user": "ann",
        "method": "GET",
        "path": "/x?a=1",
        "protocol": "HTTP/1.0",
        "request": None,
        "status": 304,
        "bytes": None,
        "referer": None,
        "user_agent": None,
    }
    assert isinstance(full, Row)
    assert full.values["user_agent"] == 'a \\"quoted\\" agent'
    assert isinstance(strange, Row)
    assert (strange.values["method"], strange.values["request"]) == (None, "\\x16\\x03")
    codec = AvroCodec(access_log.SCHEMA)
    for row in (common, full, strange):
        assert codec.encode(row.values)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("hello", "not of the common or combined format"),
        (COMMON[:40], "quote|format"),
        (COMMON + ' "-" "cut off', "a quote is not closed"),
        (COMMON.replace("17/May", "31/Feb"), "day"),
        (COMMON.replace("May", "Mai"), "is not a time"),
    ],
)
def test_lines_that_are_not_of_an_access_log(line: str, reason: str) -> None:
    (bad,) = rows_of(access_log_rows, line)
    assert isinstance(bad, Bad)
    assert any(part in bad.reason for part in reason.split("|"))


@settings(max_examples=80, deadline=20_000)
@given(st.text(alphabet='ab -[]"\\/:0+\n', max_size=300))
def test_any_line_parses_or_is_refused_quickly(text: str) -> None:
    assert len(rows_of(access_log_rows, f"{COMMON[:30]}{text}")) == 1


def test_a_hostile_line_takes_no_time() -> None:
    started = time.monotonic()
    rows_of(
        access_log_rows, "a b " + '[x] "' * 50_000, "a b " + "[x] " * 100_000, 'a b c [x] "' * 9000
    )
    assert time.monotonic() - started < 30


@pytest.mark.skipif(not REAL_LOG.exists(), reason=f"the sample log {REAL_LOG} is not here")
def test_a_real_access_log() -> None:
    """10,000 lines of a real server: one of them is cut off in the middle of its user agent."""
    source = open_source(str(REAL_LOG), "auto", False, StopAfter(threading.Event()))
    rows = list(source.rows)
    source.close()
    assert source.format == "access-log"
    bad = [row for row in rows if isinstance(row, Bad)]
    assert len(rows) == 10_000
    assert [row.number for row in bad] == [8899]
    assert "a quote is not closed" in bad[0].reason
    codec = AvroCodec(access_log.SCHEMA)
    for row in rows[:300]:
        assert isinstance(row, Row)
        assert codec.decode(codec.encode(row.values))["path"] == row.values["path"]


def test_host_metrics() -> None:
    stop = StopAfter(threading.Event())
    codec = AvroCodec(host_metrics.SCHEMA)
    rows = list(itertools.islice(host_metrics.metric_rows(0.01, stop), 3))
    for row in rows:
        assert isinstance(row, Row)
        assert row.time_ms == row.values["time"]
        assert codec.encode(row.values)
    assert list(host_metrics.metric_rows(0.01, StopAfter(threading.Event(), 0))) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('\n{"a": 1}\n{"a": 2}\n', "jsonl"),
        ("a,b\n1,2\n", "csv"),
        ("a\tb\tc\n1\t2\t3\n", "csv"),
        (COMMON + "\n", "access-log"),
        (f"nonsense\n{COMMON}\n{COMMON}\n", "access-log"),
    ],
)
def test_the_format_is_told_by_the_first_lines(tmp_path: Path, text: str, kind: str) -> None:
    path = tmp_path / "input"
    path.write_text(text)
    source = open_source(str(path), "auto", False, StopAfter(threading.Event()))
    assert source.format == kind
    assert any(isinstance(row, Row) for row in source.rows)
    source.close()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"one line of prose\nand another\n", "neither JSON lines, CSV nor an access log"),
        (b"\x1f\x8b\x08\x00\xff\xfe\n", "is not text"),
        (b"a\0b\n", "is not text"),
    ],
)
def test_a_format_that_cannot_be_told(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "input"
    path.write_bytes(data)
    with pytest.raises(UserError, match=reason):
        open_source(str(path), "auto", False, StopAfter(threading.Event()))


@pytest.mark.parametrize(
    ("value", "time_ms"),
    [
        (1431849903, 1431849903000),
        (1431849903.5, 1431849903500),
        (1431849903123, 1431849903123),
        (1431849903123456, 1431849903123),
        (1431849903123456789, 1431849903123),
        ("1431849903", 1431849903000),
        ("2015-05-17T08:05:03Z", 1431849903000),
        ("2015-05-17 08:05:03.123", 1431849903123),
        ("2015-05-17T10:05:03.123+02:00", 1431849903123),
        ("17/May/2015:10:05:03 +0200", 1431849903000),
        (0, 0),
    ],
)
def test_event_times(value: object, time_ms: int) -> None:
    assert event_time_ms(value) == time_ms


@pytest.mark.parametrize(
    "value", [None, True, "", "soon", [], -1, 1e300, float("nan"), "1969-12-31", "9" * 400, "1/2"]
)
def test_what_is_no_time(value: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        event_time_ms(value)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=30))
def test_texts_are_times_or_not(text: str) -> None:
    for parse in (event_time_ms, clf_time_ms):
        try:
            assert parse(text) >= 0
        except ValueError:
            continue


def test_the_event_time_of_rows() -> None:
    rows: list[Row | Bad | None] = [
        Row(1, None, {"at": "2015-05-17T08:05:03Z"}, ""),
        None,
        Row(2, None, {}, ""),
        Row(3, None, {"at": "soon"}, ""),
    ]
    timed = list(with_event_time(iter(rows), "at"))
    assert isinstance(timed[0], Row)
    assert timed[0].time_ms == 1431849903000
    assert [type(row) for row in timed] == [Row, type(None), Bad, Bad]


def test_shards_share_all_rows_between_them() -> None:
    def rows() -> Iterator[Row | Bad | None]:
        for number in range(10):
            yield Row(number, None, {}, "") if number % 3 else Bad(number, "", "")
            yield None

    shards = [Shard.parse(f"{index}/3") for index in range(3)]
    found = [[row.number for row in shard.of(rows()) if row] for shard in shards]
    assert sorted(itertools.chain(*found)) == list(range(10))
    assert found[0] == [0, 3, 6, 9]


@pytest.mark.parametrize("text", ["", "1", "2/2", "-1/2", "a/b", "0/0", "1/"])
def test_shards_that_are_none(text: str) -> None:
    with pytest.raises(UserError, match="I counts from 0"):
        Shard.parse(text)
