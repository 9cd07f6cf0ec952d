"""Records as Arrow rows: exact schemas, nulls, stamps; and no pandas on the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client.producing.stamps import (
    MAX_SEQUENCE,
    STAMP_HEADER,
    Stamp,
    encode_stamp,
    stamp_of,
    uvarint,
)
from tallymark.protocol.records.batch import Record
from tallymark_audit.model.contents import blocks_of
from tallymark_audit.model.hashing import MASK
from tallymark_spark_jobs.source import columns, rows
from tallymark_spark_jobs.source.rows import StampColumns

STAMP = Stamp(b"\x01\x02\x03\x04\x05\x06\x07\x08", 3, 300, "web-1")


def record(offset: int, **more: object) -> Record:
    fields: dict[str, object] = {"timestamp": 1_000, "key": None, "value": b"v", "headers": ()}
    return Record(offset=offset, **{**fields, **more})  # type: ignore[arg-type] # by name


def test_stamps_say_who_and_which() -> None:
    broken = ((STAMP_HEADER, b"\x00broken"),)
    batch = rows.stamp_rows(
        "t",
        1,
        [
            record(7, key=b"key", headers=((STAMP_HEADER, encode_stamp(STAMP)),)),
            record(8, value=None),
            record(9, timestamp=-1, headers=broken),
            record(10, headers=((STAMP_HEADER, encode_stamp(replace(STAMP, server="a\0b"))),)),
        ],
    )
    assert batch.schema.equals(rows.STAMPS)
    batch.validate(full=True)
    assert batch.to_pylist() == [
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
            (7, 1_000, 4, 1, "web-1", "0102030405060708", 3, 300),
            (8, 1_000, 0, 0, "", "", None, None),
            (9, -1, 1, -1, "", "", None, None),
            (10, 1_000, 1, -1, "", "", None, None),
        ]
    ]


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
    quick = StampColumns()
    for headers in some:
        quick.add(headers)
    for row, headers in enumerate(some):
        stamp = stamp_of(headers)
        found = quick.servers[row].decode(), quick.instances[row].decode()
        numbers = quick.kinds[row], quick.origins[row], quick.sequences[row]
        if isinstance(stamp, Stamp):
            assert found == (stamp.server, stamp.instance.hex())
            assert numbers == (1, stamp.partition, stamp.sequence)
        else:
            assert found == ("", "")
            assert numbers == (0 if stamp is None else -1, None, None)


def test_records_with_headers() -> None:
    headers = (("a", b"1"), ("b", None))
    batch = rows.record_rows(
        "t", 0, [record(1, headers=headers), record(2, key=b"k", value=None)], [0, 1], True
    )
    assert batch.schema.equals(rows.RECORDS_WITH_HEADERS)
    batch.validate(full=True)
    # (pyarrow imports pandas to make Python times: the test takes them as integers)
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [1_000_000, 1_000_000]
    first, second = batch.drop_columns(["timestamp"]).to_pylist()
    assert first["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    assert (first["key"], first["value"], first["timestampType"]) == (None, b"v", 0)
    assert (second["key"], second["value"], second["headers"]) == (b"k", None, None)
    assert second["timestampType"] == 1


@pytest.mark.parametrize("timestamp", [2**63 - 1, -(2**63)])
def test_a_time_beyond_sparks_becomes_the_last_there_is(timestamp: int) -> None:
    batch = rows.record_rows("t", 0, [record(1, timestamp=timestamp)], [0], False)
    at = batch.column(5).cast(pa.int64())[0].as_py()
    assert abs(at) == (2**63 - 1) // 1000 * 1000
    assert (at < 0) == (timestamp < 0)


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
    code = (
        "import sys; from tallymark_spark_jobs.source import rows; "
        "from tallymark.protocol.records.batch import Record; "
        "r = Record(offset=1, timestamp=2, key=None, value=b'v', headers=(('h', None),)); "
        "rows.stamp_rows('t', 0, [r]); rows.record_rows('t', 0, [r], [0], True); "
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_contents_are_hashed_as_the_audit_does() -> None:
    """Spark's hash of a record has to be the one that producers and collectors make, or every block
    would be called corrupt; without a stamp there is none."""
    told = [(b"k", b"one"), (None, b"two"), (b"k", None)]
    stamps = [Stamp(b"instance", 0, 7 + at, "web") for at in range(3)]
    records = [
        record(at, key=key, value=value, headers=((STAMP_HEADER, encode_stamp(stamp)),))
        for at, ((key, value), stamp) in enumerate(zip(told, stamps, strict=True))
    ]
    records.append(record(3))
    found = rows.stamp_rows("t", 0, records, contents=True).column("content").to_pylist()
    assert found[3] is None
    (block,) = blocks_of(7, [key for key, _ in told], [value for _, value in told])
    low = sum(each & 0xFFFFFFFF for each in found[:3])
    high = sum((each >> 32) & 0xFFFFFFFF for each in found[:3])
    assert low + (high << 32) & MASK == block.hash
