"""Records as Arrow rows: exact schemas, nulls, stamps; and no pandas on the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_logs import Log, made

from tallymark.client.producing.stamps import (
    MAX_SEQUENCE,
    STAMP_HEADER,
    Stamp,
    encode_stamp,
    stamp_of,
    uvarint,
)
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches
from tallymark.protocol.records.compiled import kernel
from tallymark_audit.model.contents import blocks_of
from tallymark_audit.model.hashing import MASK, content
from tallymark_spark_jobs.source import columns, log_reader, rows
from tallymark_spark_jobs.source.damage import Damage
from tallymark_spark_jobs.source.options import SourceOptions, declared_schema, parse_options
from tallymark_spark_jobs.source.planning import Span
from tallymark_spark_jobs.source.reading import Piece, read_span
from tallymark_spark_jobs.source.stamp_runs import stamp_runs

STAMP = Stamp(b"\x01\x02\x03\x04\x05\x06\x07\x08", 3, 300, "web-1")
Row = dict[str, object]


def options(**given: str) -> SourceOptions:
    named = {name.replace("_", "."): value for name, value in given.items()}
    return parse_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **named})


@pytest.fixture(params=["compiled", "pure"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to read."""
    if request.param == "compiled":
        pytest.importorskip("numba")
        kernel.warm()
        assert kernel.KERNEL.wait(250)
    else:
        monkeypatch.setattr(kernel, "ready", lambda: False)
    kind: str = request.param
    return kind


def read(monkeypatch: pytest.MonkeyPatch, log: Log, span: Span, how: SourceOptions) -> list[Row]:
    """The rows of all batches, each batch of exactly the declared schema."""
    monkeypatch.setattr(log_reader, "open_consumer", lambda _: log)
    found: list[Row] = []
    for batch in log_reader.read_batches(how, span):
        assert batch.schema.equals(rows.schema_of(how))
        batch.validate(full=True)
        found += in_python(batch)
    return found


def in_python(batch: Any) -> list[Row]:
    # (pyarrow imports pandas to make Python times: the tests take them as integers)
    if "timestamp" in batch.schema.names:
        at = batch.schema.names.index("timestamp")
        batch = batch.set_column(at, "timestamp", batch.column(at).cast(pa.int64()))
    found: list[Row] = batch.to_pylist()
    return found


def record_row(piece: Piece, record: Any) -> Row:
    """A row of records as an object a record makes it: the reference."""
    headers = [{"key": name, "value": value} for name, value in record.headers]
    return {
        "key": record.key,
        "value": record.value,
        "topic": "t",
        "partition": 1,
        "offset": record.offset,
        "timestamp": rows.micros(record.timestamp),
        "timestampType": int(piece.header.is_log_append_time),
        "headers": headers or None,
    }


def stamp_row(piece: Piece, record: Any) -> Row:
    """The same among stamps."""
    stamp = stamp_of(record.headers)
    kind = 0 if stamp is None else -1
    row: Row = {
        "topic": "t",
        "partition": 1,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "size": len(record.key or b"") + len(record.value or b""),
        "stamped": kind,
        "server": "",
        "instance": "",
        "origin_partition": None,
        "sequence": None,
        "content": None,
    }
    if isinstance(stamp, Stamp) and "\0" not in stamp.server:
        number = content(stamp.sequence, record.key, record.value)
        row |= {
            "stamped": 1,
            "server": stamp.server,
            "instance": stamp.instance.hex(),
            "origin_partition": stamp.partition,
            "sequence": stamp.sequence,
            "content": number - (1 << 64) if number >> 63 else number,
        }
    return row | {"stamped": 2} if piece.aborted else row


def expected(log: Log, span: Span, how: SourceOptions) -> Iterator[Row]:
    low, high = how.starting_timestamp, how.ending_timestamp
    names = rows.schema_of(how).names
    for some in read_span(log, span, True):
        for piece in some if isinstance(some, list) else ():
            for record in piece.records():
                if (low or -(1 << 63)) <= record.timestamp < (high or 1 << 63):
                    make = stamp_row if how.mode == "stamps" else record_row
                    row = make(piece, record)
                    yield {name: row[name] for name in names}


def is_record(row: Row) -> bool:
    return row.get("stamped") != 3 and row.get("timestampType") != -1


@pytest.mark.usefixtures("path")
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**9), start=st.integers(0, 200), length=st.integers(1, 600))
@pytest.mark.slow
def test_rows_from_columns_are_those_of_an_object_a_record(
    seed: int, start: int, length: int
) -> None:
    """Both modes made an object of each record: 0.07 and 0.13 million records a second of
    processor, where the columns give more than a million."""
    log = made(seed)
    span = Span("t", 1, start, min(start + length, log.end))
    more = {} if seed % 2 else {"startingTimestamp": "5", "endingTimestamp": "10"}
    with pytest.MonkeyPatch.context() as patch:
        for mode in (
            {"mode": "stamps", "includeContentHash": "true"},
            {"includeHeaders": "true"},
            {"mode": "stamps", "columns": "sequence,offset,timestamp,stamped"},
        ):
            how = options(failOnCorruptBatch="false", **mode, **more)
            wanted = list(expected(log, span, how))
            if how.mode == "records":  # a broker without transactions reports none as aborted
                wanted = [row for row in wanted if row["offset"] not in aborted(log)]
            found = [row for row in read(patch, log, span, how) if is_record(row)]
            assert found == wanted


def aborted(log: Log) -> set[int]:
    return {
        offset
        for batch, is_aborted in log.batches
        if is_aborted
        for offset in range(batch.header.base_offset, batch.header.next_offset)
    }


def one(*records: tuple[bytes | None, bytes | None, tuple[Any, ...], int]) -> Log:
    batches: list[tuple[Batch, bool]] = []
    for _ in range(3):  # the loops read a fetch of three batches
        at = batches[-1][0].header.next_offset if batches else 0
        (batch,) = split_batches(encode_batch(records, base_offset=at))
        batches.append((batch, False))
    return Log(batches, 3)


def test_stamps_say_who_and_which(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    nul = encode_stamp(replace(STAMP, server="a\0b"))
    log = one(
        (b"key", b"v", ((STAMP_HEADER, encode_stamp(STAMP)),), 1_000),
        (None, None, (), 1_000),
        (None, b"v", ((STAMP_HEADER, b"\x00broken"),), -1),
        (None, b"v", ((STAMP_HEADER, nul),), 1_000),
    )
    found = read(monkeypatch, log, Span("t", 1, 0, 4), options(mode="stamps"))
    assert found == [
        {
            "topic": "t",
            "partition": 1,
            "offset": offset,
            "timestamp": timestamp,
            "size": size,
            "stamped": stamped,
            "server": server,
            "instance": instance,
            "origin_partition": origin,
            "sequence": sequence,
        }
        for offset, timestamp, size, stamped, server, instance, origin, sequence in [
            (0, 1_000, 4, 1, "web-1", "0102030405060708", 3, 300),
            (1, 1_000, 0, 0, "", "", None, None),
            (2, -1, 1, -1, "", "", None, None),
            (3, 1_000, 1, -1, "", "", None, None),
        ]
    ]


_NONE: Any = object()
HEADERS = st.lists(
    st.sampled_from(
        [
            *(encode_stamp(replace(STAMP, sequence=n)) for n in (0, 1, 2, 3, 126, 127, 128, 129)),
            *(encode_stamp(replace(STAMP, sequence=n, server="b")) for n in (1, 2, 3)),
            *(encode_stamp(replace(STAMP, sequence=n, partition=4)) for n in (1, 2, 3)),
            encode_stamp(replace(STAMP, sequence=MAX_SEQUENCE)),
            encode_stamp(replace(STAMP, sequence=1)).replace(b"\x03\x01", b"\x03" + uvarint(2**63)),
            b"no stamp",
            b"",
            None,
        ]
    ).map(lambda raw: ((STAMP_HEADER, raw),))
    | st.sampled_from([(), (("x", b"1"),), (("x", encode_stamp(STAMP)),)]),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(HEADERS)
def test_the_short_cut_for_runs_reads_the_same_stamps(
    some: list[tuple[tuple[str, bytes | None], ...]],
) -> None:
    """A null ``tm`` header was once taken for the continuation of a run that had not begun."""
    last = [dict(headers).get(STAMP_HEADER, _NONE) for headers in some]
    runs = stamp_runs([None if one is _NONE else one or b"" for one in last])
    read = [(run, number) for run in runs for number in range(run.rows)]
    for headers, (run, number) in zip(some, read, strict=True):
        stamp = stamp_of(headers)
        found = run.server.decode(), run.instance.decode()
        numbers = run.kind, run.origin, run.first
        if isinstance(stamp, Stamp):
            assert found == (stamp.server, stamp.instance.hex())
            assert numbers == (1, stamp.partition, stamp.sequence - number)
        else:
            assert found == ("", "")
            assert numbers == (0 if stamp is None else -1, -1, -1)


def test_runs_of_stamps_end_where_the_sequences_do() -> None:
    """A number takes one byte more every 128 times 128 sequences, and begins anew in a byte every
    128: runs go on over both."""
    for first in (0, 1, 100, 127, 128, 129, 16_300, 16_383, 16_384, MAX_SEQUENCE - 300):
        numbers = [*range(first, first + 300), *range(first + 301, first + 305)]
        within = [number for number in numbers if number <= MAX_SEQUENCE]
        runs = stamp_runs([encode_stamp(replace(STAMP, sequence=n)) for n in within])
        assert [(run.first, run.rows) for run in runs] == [
            (first, 300),
            *([(first + 301, 4)] if len(within) == 304 else []),
        ], first


def test_records_with_headers(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    log = one((None, b"v", (("a", b"1"), ("b", None)), 1_000), (b"k", None, (), 1_000))
    how = options(includeHeaders="true")
    first, second = read(monkeypatch, log, Span("t", 0, 0, 2), how)
    assert first["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    assert (first["key"], first["value"], first["timestamp"]) == (None, b"v", 1_000_000)
    assert (second["key"], second["value"], second["headers"]) == (b"k", None, None)


def test_columns_that_are_not_wanted_are_not_there(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    how = options(columns="offset, VALUE")
    assert declared_schema(how) == "value binary, offset bigint"
    log = one((b"k", b"v", (), 1_000))
    assert read(monkeypatch, log, Span("t", 0, 1, 3), how) == [
        {"value": b"v", "offset": 1},
        {"value": b"v", "offset": 2},
    ]


def test_damage_in_the_columns_that_are_wanted() -> None:
    span, told = Span("t", 1, 0, 9), Damage(3, 5, "CRC", 7, 8)
    for how, row in (
        (options(columns="value,offset"), {"value": b"CRC", "offset": 3}),
        (options(mode="stamps", columns="stamped,server"), {"stamped": 3, "server": "CRC"}),
    ):
        make = rows.damaged_stamp if how.mode == "stamps" else rows.damaged_record
        assert make(rows.schema_of(how), span, told).to_pylist() == [row]


@pytest.mark.parametrize("timestamp", [2**63 - 1, -(2**63)])
def test_a_time_beyond_sparks_becomes_the_last_there_is(
    monkeypatch: pytest.MonkeyPatch, path: str, timestamp: int
) -> None:
    log = one((None, b"v", (), timestamp))
    (row,) = read(monkeypatch, log, Span("t", 0, 0, 1), options())
    at = row["timestamp"]
    assert isinstance(at, int)
    assert abs(at) == (2**63 - 1) // 1000 * 1000
    assert (at < 0) == (timestamp < 0)


def test_a_time_beyond_64_bits_does_not_end_the_read(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """A delta may lead beyond 64 bits. No column holds that, and the task ended in a
    traceback."""
    log = one((None, b"v", (), 0), (None, b"v", (), 100))
    for at, (batch, _) in enumerate(log.batches):
        data = bytearray(batch.data)
        data[27:35] = (2**63 - 10).to_bytes(8)  # the base timestamp
        log.batches[at] = (split_batches(bytes(data))[0], False)
    for how in (options(mode="stamps"), options()):
        found = read(monkeypatch, log, Span("t", 0, 0, 2), how)
        assert [row["offset"] for row in found] == [0, 1]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.none() | st.binary(max_size=9)),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.text(max_size=5)),
)
def test_columns_give_back_what_was_put_in(
    some: list[bytes | None], numbers: list[int | None], words: list[str]
) -> None:
    made: dict[Any, tuple[Any, Sequence[object]]] = {
        pa.binary(): (columns.binaries(some), some),
        pa.int64(): (columns.integers(numbers, pa.int64()), numbers),
        pa.string(): (columns.strings(words), words),
    }
    for kind, (column, values) in made.items():
        column.validate(full=True)
        assert column.type == kind
        assert column.null_count == list(values).count(None)
        assert column.to_pylist() == values
    assert columns.constant("ä", len(words)).to_pylist() == ["ä"] * len(words)


def test_no_pandas_is_imported_to_make_rows() -> None:
    """``pyarrow.array(list)`` imports pandas, which cost each new Python worker of a small job
    more than a second: the count of a few thousand messages took longer to start than to run."""
    code = """if True:
        import sys
        from tallymark.protocol.records.batch import encode_batch, split_batches
        from tallymark_spark_jobs.source import rows
        from tallymark_spark_jobs.source.planning import Span
        from tallymark_spark_jobs.source.portions import PiecePortion
        from tallymark_spark_jobs.source.reading import Piece
        from tallymark_spark_jobs.source.record_rows import record_rows
        from tallymark_spark_jobs.source.stamp_rows import stamp_rows
        (batch,) = split_batches(encode_batch([(None, b"v", (("h", None),), 2)]))
        portion = PiecePortion([Piece(batch.header, batch.columns())])
        stamp_rows(rows.STAMPS_WITH_CONTENT, Span("t", 0, 0, 1), portion)
        record_rows(rows.RECORDS_WITH_HEADERS, Span("t", 0, 0, 1), portion)
        assert "pandas" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_contents_are_hashed_as_the_audit_does(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Spark's hash of a record has to be the one that producers and collectors make, or every block
    would be called corrupt; without a stamp there is none."""
    told: list[tuple[bytes | None, bytes | None]]
    told = [(b"k", b"one"), (None, b"two"), (b"k", None)]
    stamps = [encode_stamp(Stamp(b"instance", 0, 7 + at, "web")) for at in range(3)]
    log = one(
        *((k, v, ((STAMP_HEADER, one),), 1) for (k, v), one in zip(told, stamps, strict=True)),
        (None, b"v", (), 1),
    )
    how = options(mode="stamps", includeContentHash="true", columns="content")
    found: list[Any] = [row["content"] for row in read(monkeypatch, log, Span("t", 0, 0, 4), how)]
    assert found[3] is None
    (block,) = blocks_of(7, [key for key, _ in told], [value for _, value in told])
    low = sum(each & 0xFFFFFFFF for each in found[:3])
    high = sum((each >> 32) & 0xFFFFFFFF for each in found[:3])
    assert low + (high << 32) & MASK == block.hash
