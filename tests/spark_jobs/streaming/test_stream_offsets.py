"""How far a micro-batch goes, the options of a stream, and the file that keeps where it began."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import UserError
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark_spark_jobs.source.planning import LogBounds, Span
from tallymark_spark_jobs.source.streaming.beginnings import Beginning, BeginningFile
from tallymark_spark_jobs.source.streaming.brokers import starts
from tallymark_spark_jobs.source.streaming.offsets import (
    Log,
    Offsets,
    backlog,
    check,
    from_json,
    limited,
    spans,
    to_json,
)
from tallymark_spark_jobs.source.streaming.settings import as_batch, parse_stream_options

GIVEN = {
    "kafka.bootstrap.servers": "b:9092",
    "subscribe": "t",
    "startingOffsetsLocation": "/checkpoints/x",
}
PARTITIONS = st.tuples(st.sampled_from(["t", "u.v"]), st.integers(0, 3))


def test_offsets_are_written_as_sparks_kafka_source_writes_them() -> None:
    offsets = {("t", 10): 7, ("t", 2): 5, ("a", 0): 1}
    told = to_json(offsets)
    assert json.dumps(told) == '{"a": {"0": 1}, "t": {"2": 5, "10": 7}}'
    assert from_json(json.loads(json.dumps(told))) == offsets


@pytest.mark.parametrize("told", [{"logOffset": 3}, {"t": {"x": 1}}, {"t": {"0": None}}])
def test_a_checkpoint_of_another_source_is_said(told: dict[str, object]) -> None:
    with pytest.raises(UserError, match="not of this source"):
        from_json(told)


@given(
    st.dictionaries(PARTITIONS, st.integers(0, 50)),
    st.dictionaries(PARTITIONS, st.integers(0, 10**12)),
    st.integers(1, 10**6),
)
def test_a_batch_has_its_limit_and_gets_on(start: Offsets, more: Offsets, most: int) -> None:
    end = {partition: start.get(partition, 0) + n for partition, n in more.items()}
    found = limited(start, end, most)
    assert found.keys() == end.keys()
    assert backlog(start, found) <= most
    assert all(start.get(p, 0) <= offset <= end[p] for p, offset in found.items())
    # Rounding down leaves less than one offset a partition.
    assert backlog(start, found) >= min(most, backlog(start, end)) - len(end)
    behind = [p for p in end if end[p] > start.get(p, 0)]
    if len(behind) <= most:
        assert all(found[p] > start.get(p, 0) for p in behind), "a quiet partition does not wait"
    assert (backlog(start, found) > 0) == (backlog(start, end) > 0)


def test_partitions_come_to_their_ends_together() -> None:
    end = {("t", 0): 1_000, ("t", 1): 100}
    assert limited({}, end, 110) == {("t", 0): 99, ("t", 1): 10}


LOGS = {("t", 0): Log(5, 50, "one"), ("t", 1): Log(0, 9, "one")}


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ({("t", 2): 4}, "t-2 is gone, read up to offset 4"),
        ({("t", 1): 10}, "t-1 ends at 9 and was read up to 10: its log was cut"),
    ],
)
def test_what_a_stream_cannot_go_on_with(start: Offsets, says: str) -> None:
    with pytest.raises(UserError, match=says):
        check(start, LOGS, {"t": "one"})


def test_a_topic_made_anew_is_another_one_though_its_log_is_long_enough() -> None:
    """The offsets alone fit: a topic that was deleted, made anew and filled past the old end was
    read on from the middle."""
    with pytest.raises(UserError, match="t was deleted and made anew: its id was zero and is one"):
        check({("t", 0): 40}, LOGS, {"t": "zero"})
    check({("t", 0): 40}, LOGS, {"t": "one"})
    check({("t", 0): 40}, LOGS, {})


def test_spans_of_a_batch() -> None:
    start, end = {("t", 0): 7}, {("t", 0): 9, ("t", 1): 3}
    found = spans(start, end, LOGS, True, "do")
    assert found == [Span("t", 0, 7, 9, "one"), Span("t", 1, 0, 3, "one")]
    with pytest.raises(UserError, match="t-0 holds the offsets 5 to 50, and the stream needs 4 to"):
        spans({("t", 0): 4}, {("t", 0): 9}, LOGS, True, "do")
    assert spans({("t", 0): 4}, {("t", 0): 9}, LOGS, False, "do") == [Span("t", 0, 5, 9, "one")]
    assert spans({("t", 0): 50}, {("t", 0): 50}, {}, True, "do") == []
    cut = spans({("t", 1): 30}, {("t", 1): 9}, LOGS, False, "do")
    assert cut == [Span("t", 1, 0, 9, "one")], "a log that was cut is read from its beginning"


def test_a_stream_begins_at_the_end_unless_told_otherwise() -> None:
    assert parse_stream_options(GIVEN).source.starting == LATEST
    assert parse_stream_options({**GIVEN, "startingOffsets": "latest"}).asked == "latest"
    early = parse_stream_options({**GIVEN, "startingOffsets": "earliest"})
    assert (early.source.starting, early.asked) == (EARLIEST, "earliest")
    by_offset = parse_stream_options({**GIVEN, "startingOffsets": '{"t": {"0": -1}}'})
    assert by_offset.source.starting == {("t", 0): LATEST}
    at = parse_stream_options({**GIVEN, "startingTimestamp": "1000"})
    assert (at.source.starting_timestamp, at.asked) == (1000, "startingtimestamp 1000")
    assert as_batch({**GIVEN, "maxOffsetsPerTrigger": "7"}).topics == ("t",)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"startingOffsetsLocation": " "}, "needs the option startingOffsetsLocation"),
        ({"endingOffsets": "latest"}, "a stream has no endingOffsets"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "is 6, more than"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon'"),
        ({"maxOffsetPerTrigger": "5"}, "no option 'maxoffsetpertrigger'"),
    ],
)
def test_options_that_are_wrong(change: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        parse_stream_options({**GIVEN, **change})


@pytest.mark.parametrize(("text", "ms"), [("500ms", 500), ("30 s", 30_000), ("15m", 900_000)])
def test_delays(text: str, ms: int) -> None:
    assert parse_stream_options({**GIVEN, "maxTriggerDelay": text}).delay_ms == ms


def test_beginnings_also_where_nothing_is_to_be_read() -> None:
    options = parse_stream_options({**GIVEN, "startingOffsets": "earliest"}).source
    bounds = [LogBounds("t", 0, 3, 9), LogBounds("t", 1, 4, 4)]
    assert starts(options, bounds) == {("t", 0): 3, ("t", 1): 4}


@pytest.fixture(params=["path", "address"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    folder = tmp_path / "not there yet"
    return str(folder) if request.param == "path" else f"file://{tmp_path}/folder"


def test_the_first_beginning_stays(location: str) -> None:
    source = parse_stream_options(GIVEN).source
    file = BeginningFile(location, source)
    assert file.read() is None
    first = Beginning("earliest", {("t", 0): 3}, {"t": "one"})
    assert file.begin(first) == first
    assert BeginningFile(location, source).begin(Beginning("earliest", {("t", 0): 9}, {})) == first
    second = Beginning("earliest", {("t", 0): 3}, {"t": "one", "u": "two"})
    file.replace(second)
    assert file.read() == second
    other = parse_stream_options({**GIVEN, "subscribe": "u"}).source
    assert BeginningFile(location, other).read() is None, "two streams in one query"


def test_a_folder_without_rights_and_a_broken_file(tmp_path: Path) -> None:
    source = parse_stream_options(GIVEN).source
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="startingOffsetsLocation needs a folder"):
        BeginningFile(str(tmp_path / "file"), source).begin(Beginning("latest", {}, {}))
    with pytest.raises(UserError, match="cannot be read or written"):
        BeginningFile("nosuchfs://x/y", source)
    file = BeginningFile(str(tmp_path), source)
    Path(file.path).write_text('{"version": 1, "asked": "lat')
    with pytest.raises(UserError, match="does not say where the stream began"):
        file.read()


def test_the_same_starting_offsets_written_another_way() -> None:
    one, other = (
        parse_stream_options({**GIVEN, "startingOffsets": text}).asked
        for text in ('{"t":{"0":1,"1":2}}', '{ "t": {"1": 2, "0": 1} }')
    )
    assert one == other
