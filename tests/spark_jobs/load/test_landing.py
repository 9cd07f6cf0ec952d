"""One task: a span of a scripted broker becomes Parquet files and a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.client.producing.stamps import STAMP_HEADER, stamp_ends, uvarint
from tallymark.errors import CorruptMessageError, UserError
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches
from tallymark.protocol.records.compiled import kernel
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import Append, Manifest, OffsetRange, PartitionKey
from tallymark_spark_jobs.lake.tiling import check_append
from tallymark_spark_jobs.load.landing import Landed, LandTask, attempt, land
from tallymark_spark_jobs.load.writing import files
from tallymark_spark_jobs.load.writing.rows import RAW_ROWS, Records
from tallymark_spark_jobs.source import reading, tables
from tallymark_spark_jobs.source.reading import Piece

DAY = 1_769_817_600_000  # 2026-01-31
HOUR = 3_600_000
KEY = PartitionKey("cluster", "", "t", 3)
WITH_ID = KEY._replace(topic_id="0b5e")


@dataclass
class Fetched:
    high_watermark: int
    batches: Sequence[Batch]
    next_offset: int
    last_epoch: int = 0
    left_out: Sequence[Batch] = ()


@dataclass
class Broker:
    """Answers with the batches from the asked offset on; those in ``aborted`` are left out."""

    batches: list[Batch]
    aborted: set[int] = field(default_factory=set[int])
    breaks_at: int = 1 << 62
    at_once: int = 2
    error: BaseException | None = None

    def fetch(self, topic: str, partition: int, offset: int, **limits: int) -> Fetched:
        if self.error is not None and offset >= self.breaks_at:
            raise self.error
        end = max((one.header.next_offset for one in self.batches), default=0)
        some = [one for one in self.batches if one.header.next_offset > offset][: self.at_once]
        goes_on = some[-1].header.next_offset if some else offset
        gone = [one for one in some if one.header.base_offset in self.aborted]
        return Fetched(end, [one for one in some if one not in gone], goes_on, 0, gone)


def batch(base: int, times: Sequence[int], size: int = 20) -> Batch:
    rows = []
    prefix, suffix = stamp_ends(bytes(8), 3, "web-1")
    for at, time in enumerate(times):
        stamp = ((STAMP_HEADER, prefix + uvarint(base + at) + suffix),)
        key = None if at % 3 else b"k%d" % at
        rows.append((key, b"v%d " % (base + at) * size if at % 5 else None, stamp, time))
    made = encode_batch(rows, base_offset=base)
    (found,) = split_batches(made)
    return found


def task(location: Path | str, start: int, end: int, **more: Any) -> LandTask:
    storage = Storage(str(location), {})
    return LandTask(OffsetRange(KEY, start, end), -1, {}, storage, 60_000, **more)


def landed(found: Landed) -> Manifest:
    """Its manifest, which a table takes."""
    assert found.manifest is not None
    assert found.failure == ""
    check_append(Append("job", (found.range,), (found.manifest,)))
    return found.manifest


def rows_of(folder: Path, manifest: Manifest) -> list[dict[str, Any]]:
    tables = [pq.ParquetFile(folder / file.path).read() for file in manifest.files]
    assert all(table.schema == RAW_ROWS for table in tables)
    table = pa.concat_tables(tables)
    if "micros" not in table.column_names:  # Python has no year 100,000
        micros = table["timestamp"].cast(pa.int64())
        table = table.set_column(table.column_names.index("timestamp"), "micros", micros)
    return sorted(table.to_pylist(), key=lambda row: row["offset"])


def test_the_rows_are_the_records(tmp_path: Path) -> None:
    batches = [
        batch(0, [DAY + n for n in range(30)]),
        batch(30, [DAY + HOUR + n for n in range(9)]),
    ]
    manifest = landed(land(task(tmp_path, 4, 37), Broker(batches)))
    rows = rows_of(tmp_path, manifest)
    records = [one for some in batches for one in some.columns().records() if 4 <= one.offset < 37]
    assert [row["offset"] for row in rows] == list(range(4, 37))
    for row, record in zip(rows, records, strict=True):
        assert (row["key"], row["value"]) == (record.key, record.value)
        assert row["micros"] == record.timestamp * 1000
        assert (row["partition"], row["timestampType"], row["late"]) == (3, 0, False)
        (header,) = row["headers"]
        assert ((header["key"], header["value"]),) == tuple(record.headers)
    assert [file.place.folder for file in manifest.files] == [
        "topic=t/date=2026-01-31/hour=00",
        "topic=t/date=2026-01-31/hour=01",
    ]
    assert [file.path.rpartition("/")[2].split("-")[:3] for file in manifest.files] == [
        ["p00003", "4", "37"]
    ] * 2
    assert [file.rows for file in manifest.files] == [26, 7]
    assert [(tmp_path / file.path).stat().st_size for file in manifest.files] == [
        file.bytes for file in manifest.files
    ]
    (offsets,) = (one for one in manifest.files[1].stats if one.column == "offset")
    assert (offsets.lowest, offsets.highest) == (30, 36)


def test_the_tallies_count_what_was_written(tmp_path: Path) -> None:
    manifest = landed(land(task(tmp_path, 0, 40), Broker([batch(0, [DAY] * 40)])))
    (tally,) = manifest.tallies
    assert (tally.messages, tally.ranges) == (40, ((0, 39),))
    assert (tally.key.server, tally.key.window) == ("web-1", DAY)


def test_what_an_aborted_transaction_left_is_a_gap(tmp_path: Path) -> None:
    broker = Broker([batch(0, [DAY] * 4), batch(4, [DAY] * 5), batch(9, [DAY])], aborted={4})
    manifest = landed(land(task(tmp_path, 0, 10), broker))
    assert [row["offset"] for row in rows_of(tmp_path, manifest)] == [0, 1, 2, 3, 9]
    assert (manifest.rows, manifest.gaps) == (5, 5)
    assert sum(tally.messages for tally in manifest.tallies if tally.aborted) == 5


def test_compacted_offsets_are_gaps(tmp_path: Path) -> None:
    broker = Broker([batch(3, [DAY] * 2), batch(9, [DAY])])
    manifest = landed(land(task(tmp_path, 0, 10), broker))
    assert (manifest.rows, manifest.gaps) == (3, 7)


def test_late_rows_are_marked(tmp_path: Path) -> None:
    broker = Broker([batch(0, [DAY + HOUR, DAY + 1, DAY + HOUR + 1])])
    manifest = landed(land(task(tmp_path, 0, 3, on_time=(DAY + HOUR) // HOUR), broker))
    assert [row["late"] for row in rows_of(tmp_path, manifest)] == [False, True, False]
    assert sorted((file.place.hour, file.late_rows) for file in manifest.files) == [
        ("00", 1),
        ("01", 0),
    ]


def test_append_times_are_said() -> None:
    pieces = []
    for base, attributes in ((0, 8), (3, 0)):
        one = batch(base, [DAY] * 3)
        pieces.append(Piece(one.header._replace(attributes=attributes), one.columns()))
    on_time = np.zeros(6, np.bool_)
    found = Records(KEY, pieces).raw(on_time).to_pydict()
    assert found["timestampType"] == [1, 1, 1, 0, 0, 0]
    assert found["topic_id"] == [None] * 6
    assert Records(WITH_ID, pieces).raw(on_time).to_pydict()["topic_id"] == ["0b5e"] * 6


def test_a_batch_that_cannot_be_read_fails_the_span_and_leaves_no_file(tmp_path: Path) -> None:
    error = CorruptMessageError("t", 3, 30, "broker", "its CRC does not hold", 35, False)
    broker = Broker([batch(0, [DAY] * 30), batch(35, [DAY])], set(), 30, 1, error)
    with pytest.raises(UserError, match="t-3 cannot be read from offset 30 on"):
        land(task(tmp_path, 0, 36), broker)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_full_disk_is_one_clear_line_and_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``/dev/full`` takes no byte. The error was a traceback of Arrow's, four times."""

    def create(self: files.SpanFiles, path: str) -> Any:
        return pa.OSFile("/dev/full", "wb")

    monkeypatch.setattr(files.SpanFiles, "_create", create)
    with pytest.raises(files.DiskFull, match="there is no room left in"):
        land(task(tmp_path, 0, 30), Broker([batch(0, [DAY] * 30)]))


def test_errors_that_another_try_cannot_mend_are_returned(tmp_path: Path) -> None:
    """Spark tries a task four times and then ends the job. A cluster that refuses is asked once."""
    nobody = task(tmp_path, 0, 3)
    nowhere = LandTask(
        nobody.range,
        -1,
        {"bootstrap_servers": "127.0.0.1:1", "request_timeout_ms": 200},  # type: ignore[typeddict-unknown-key]
        nobody.storage,
        60_000,
    )
    assert "127.0.0.1:1" in attempt(nowhere, last=True).failure
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
        attempt(nowhere, last=False)


@pytest.mark.slow
def test_records_of_many_hours_need_no_more_memory_or_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_OPEN", 3)
    monkeypatch.setattr(files, "HELD_BYTES", 50_000)
    times = [DAY + (n * 7 % 24) * HOUR for n in range(400)]
    batches = [batch(n, times[n : n + 20]) for n in range(0, 400, 20)]
    manifest = landed(land(task(tmp_path, 0, 400), Broker(batches)))
    rows = rows_of(tmp_path, manifest)
    assert [row["offset"] for row in rows] == list(range(400))
    assert len({file.place.hour for file in manifest.files}) == 24


def test_large_spans_become_files_of_the_target_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "GROUP_ROWS", 10)
    batches = [batch(n, [DAY] * 10) for n in range(0, 200, 10)]
    monkeypatch.setattr(reading, "RECORDS_AT_ONCE", 10)
    manifest = landed(land(task(tmp_path, 0, 200, target_bytes=4_000), Broker(batches)))
    assert len(manifest.files) > 3
    assert [row["offset"] for row in rows_of(tmp_path, manifest)] == list(range(200))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(
            st.sampled_from([-1, 0, DAY - 1, DAY, DAY + HOUR, 1 << 62]), min_size=1, max_size=6
        ),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
def test_any_times_in_any_order_come_whole(times: list[list[int]], data: st.DataObject) -> None:
    import tempfile

    batches, at = [], 0
    for some in times:
        batches.append(batch(at, some))
        at += len(some)
    start = data.draw(st.integers(0, at - 1))
    with tempfile.TemporaryDirectory() as folder:
        manifest = landed(land(task(folder, start, at), Broker(batches)))
        rows = rows_of(Path(folder), manifest)
    assert [row["offset"] for row in rows] == list(range(start, at))
    records = [one for some in batches for one in some.columns().records() if one.offset >= start]
    assert [row["value"] for row in rows] == [one.value for one in records]


@pytest.mark.parametrize("more_headers", [False, True])
def test_compiled_loops_bring_the_same_rows_and_tallies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more_headers: bool
) -> None:
    """Offsets were a view of memory that the next table was read into."""
    pytest.importorskip("numba")
    kernel.warm()
    assert kernel.KERNEL.wait(250)
    monkeypatch.setattr(tables, "_is_little", lambda batches: False)
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 64)
    times = [DAY + n * HOUR // 40 for n in range(300)]
    batches = [batch(n, times[n : n + 30]) for n in range(0, 300, 30)]
    if more_headers:
        records = [(b"k", b"v", (("a", b"1"), ("a", None), ("b", b"")), DAY)] * 5
        batches += split_batches(encode_batch(records, base_offset=300))
    end = batches[-1].header.next_offset
    found: list[tuple[list[dict[str, Any]], Any]] = []
    for ready in (True, False):
        monkeypatch.setattr(kernel, "ready", lambda ready=ready: ready)
        broker = Broker(batches, aborted={90}, at_once=4)
        manifest = landed(land(task(tmp_path, 7, end), broker))
        assert (manifest.rows, manifest.gaps) == (end - 7 - 30, 30)
        found.append((rows_of(tmp_path, manifest), sorted(manifest.tallies, key=lambda t: t.key)))
    assert found[0] == found[1]


def test_an_offset_that_is_there_twice_fails_the_span(tmp_path: Path) -> None:
    broker = Broker([batch(0, [DAY] * 5), batch(3, [DAY] * 5)])
    with pytest.raises(UserError, match="the broker gave offset 3 a second time"):
        land(task(tmp_path, 0, 8), broker)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
