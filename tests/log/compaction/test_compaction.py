"""A compacted log against a dictionary: what stays, what goes, and what readers notice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from compacting import CONFIG, FOLDER, closed, compact, contents, open_log, put, read_all
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import CorruptRecordError, KafkaError
from tallymark.log import Log
from tallymark.log.compaction.batch import _assemble, delete_horizon, empty_batch, rewrite
from tallymark.log.compaction.offset_map import OffsetMap
from tallymark.protocol.records.batch import Record, encode_batch, read_header, split_batches
from tallymark.protocol.records.compression import CODECS
from tallymark.testing.memory_files import MemoryFiles

# --- what stays


def test_the_last_record_of_each_key_stays_at_its_offset() -> None:
    files = MemoryFiles()
    log = open_log(files)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"c", b"1"), (b"b", b"2"))
    closed(log)
    put(log, (b"c", b"2"))
    summary = compact(files, log)
    found = [(record.offset, record.key, record.value) for record in read_all(log)]
    # The active segment is never cleaned, so c is there twice.
    assert found == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2"), (5, b"c", b"2")]
    assert (summary.until, summary.records, summary.removed) == (5, 5, 2)
    assert summary.bytes_after < summary.bytes_before


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_shrinks_keeps_what_it_says_of_itself(codec: str) -> None:
    files = MemoryFiles()
    log = open_log(files)
    headers = [("h", b"x"), ("none", None)]
    records = [
        (b"a", bytes(200), headers, 90),
        (b"b", bytes(200), headers, 50),
        (b"a", b"z", [], 1),
    ]
    log.append(
        encode_batch(records, compression=codec, producer_id=7, producer_epoch=2, base_sequence=40),
        0,
        3,
    )
    (before,) = split_batches(log.read(0, 10_000).read())
    closed(log)
    compact(files, log)
    (after,) = split_batches(log.read(0, 10_000).read())
    after.check_crc()
    same = ("base_offset", "last_offset_delta", "partition_leader_epoch", "producer_id")
    for name in (*same, "producer_epoch", "base_sequence", "attributes"):
        assert getattr(after.header, name) == getattr(before.header, name)
    assert after.header.codec == codec
    assert after.records() == [
        Record(1, 50, b"b", bytes(200), tuple(headers)),
        Record(2, 1, b"a", b"z", ()),
    ]
    assert (after.header.max_timestamp, after.header.record_count) == (50, 2)


def test_a_batch_with_nothing_removed_is_copied_byte_for_byte() -> None:
    files = MemoryFiles()
    log = open_log(files)
    put(log, (b"old", b"1"))
    put(log, (b"a", b"1"), (b"b", b"2"), codec="gzip")
    put(log, (b"old", b"2"))
    before = log.read(1, 10_000).read()
    closed(log)
    compact(files, log)
    assert log.read(1, 10_000).read() == before


def test_records_without_a_key_stay() -> None:
    """They are from before the topic was compacted, and nothing says what replaces them."""
    files = MemoryFiles()
    log = open_log(files)
    log.config = replace(CONFIG, compact=False)
    put(log, (None, b"1"), (None, b"2"), (b"k", b"1"))
    log.config = CONFIG
    put(log, (b"k", b"2"))
    closed(log)
    compact(files, log)
    assert [record.value for record in read_all(log)] == [b"1", b"2", b"2"]


def test_a_batch_that_does_not_decode_stays_as_it_is() -> None:
    """A log may hold what nobody looked at when it came, and its topic may become compacted."""
    files = MemoryFiles()
    log = open_log(files)
    put(log, (b"k", b"1"))
    good = split_batches(encode_batch([(b"k", b"x", (), 1)]))[0].header
    garbage = _assemble(good, 0, 1, 1, 1, b"\xff" * 30)
    log.config = replace(CONFIG, compact=False, record_validation="header")
    log.append(garbage, 0, 1)
    log.config = CONFIG
    put(log, (b"k", b"2"))
    closed(log)
    summary = compact(files, log)
    assert summary.undecodable == 1
    batches = split_batches(log.read(0, 10_000).read())
    assert [batch.header.base_offset for batch in batches] == [1, 2]
    assert bytes(batches[0].data)[61:] == b"\xff" * 30


def test_a_damaged_batch_stops_the_compaction() -> None:
    """Written again it would get a right CRC, and the damage could not be told any more."""
    files = MemoryFiles()
    log = open_log(files)
    put(log, (b"k", b"1"))
    put(log, (b"k", b"2"))
    closed(log)
    path = f"{FOLDER}/{0:020d}.log"
    data = bytearray(files.content(path))
    data[-1] ^= 1
    files.overwrite(path, data)
    with pytest.raises(CorruptRecordError):
        compact(files, log)
    assert len(split_batches(log.read(0, 10_000).read())) == 2


# --- tombstones


def test_a_tombstone_stays_until_its_horizon_has_passed() -> None:
    """KIP-534: the clock starts when the tombstone is cleaned first, not when it was written."""
    files = MemoryFiles()
    log = open_log(files)
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))
    closed(log)
    until = compact(files, log, now_ms=1000).until
    assert contents(log) == {b"a": None, b"b": b"1"}
    batch = split_batches(log.read(2, 10_000).read())[0]
    assert delete_horizon(batch.header) == 1100
    assert batch.records()[0].timestamp == 5, "its own time, not the horizon"
    put(log, (b"c", b"1"))
    closed(log)
    until = compact(files, log, clean_until=until, now_ms=1099).until
    assert contents(log) == {b"a": None, b"b": b"1", b"c": b"1"}
    put(log, (b"d", b"1"))
    closed(log)
    compact(files, log, clean_until=until, now_ms=1100)
    assert contents(log) == {b"b": b"1", b"c": b"1", b"d": b"1"}


def test_a_newer_value_takes_the_tombstone_with_its_horizon() -> None:
    files = MemoryFiles()
    log = open_log(files)
    put(log, (b"a", None), (b"b", b"1"))
    closed(log)
    until = compact(files, log).until
    put(log, (b"a", b"2"))
    closed(log)
    compact(files, log, clean_until=until)
    (first, _) = split_batches(log.read(0, 10_000).read())
    assert delete_horizon(first.header) is None
    assert [record.timestamp for record in first.records()] == [6]
    assert contents(log) == {b"a": b"2", b"b": b"1"}


# --- offsets and readers


def test_the_end_of_a_log_stays_though_its_last_records_go() -> None:
    files = MemoryFiles()
    log = open_log(files)
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    closed(log)
    until = compact(files, log, now_ms=0).until
    put(log, (b"x", None))
    closed(log)
    until = compact(files, log, clean_until=until, now_ms=1000).until
    assert (log.end_offset, until) == (3, 3)
    put(log, (b"x", None))
    closed(log)
    compact(files, log, clean_until=until, now_ms=5000)
    assert [record.offset for record in read_all(log, 0)] == [3]
    for offset in range(log.end_offset):
        assert log.read(offset, 1).next_offset > offset, "a reader would stall"
    log.close()
    assert open_log(files).end_offset == 4
    files.kill()
    assert open_log(files, clean=False).end_offset == 4


def test_the_last_batch_of_a_producer_stays_as_its_memory() -> None:
    files = MemoryFiles()
    log = open_log(files)

    def batch(sequence: int, count: int) -> bytes:
        return encode_batch(
            [(b"k", b"v", (), 1)] * count, producer_id=9, producer_epoch=0, base_sequence=sequence
        )

    log.append(batch(0, 2), 0, 1)
    log.append(batch(2, 3), 0, 1)
    put(log, (b"k", b"other"))
    put(log, (b"z", b"last of its segment"))
    closed(log)
    compact(files, log)
    batches = split_batches(log.read(0, 10_000).read())
    assert [(b.header.base_offset, b.header.record_count) for b in batches] == [
        (2, 0),
        (5, 1),
        (6, 1),
    ]
    # Without a snapshot the next start has the log only.
    log.flush()
    files.kill()
    for name in files.listdir(FOLDER):
        if name.endswith(".snapshot"):
            files.remove(f"{FOLDER}/{name}")
    log = open_log(files, clean=False)
    assert log.append(batch(2, 3), 0, 1)[:3] == (2, 4, True)
    with pytest.raises(KafkaError, match="OUT_OF_ORDER"):
        log.append(batch(9, 1), 0, 1)
    assert log.append(batch(5, 1), 0, 1).first_offset == 7


def test_looking_up_times_finds_records_only() -> None:
    """An empty batch has timestamps and no record that they are of."""
    files = MemoryFiles()
    log = open_log(files)
    put(log, (b"a", b"1"), at=900)
    put(log, (b"b", b"1"), at=10)
    put(log, (b"a", b"2"), at=20)
    log.append(
        encode_batch([(b"p", b"", (), 990)], producer_id=1, producer_epoch=0, base_sequence=0), 0, 1
    )
    put(log, (b"p", b""), at=30)
    closed(log)
    compact(files, log)
    for _ in range(2):
        assert log.max_timestamp() == (4, 30)
        assert log.offset_for_time(25) == (4, 30)
        assert log.offset_for_time(15) == (2, 20)
        assert log.offset_for_time(31) is None
        log.close()
        log = open_log(files)


def test_small_segments_become_one_and_no_larger_than_a_segment() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for number in range(40):
        put(log, (b"k%d" % (number % 4), bytes(60)))
    closed(log)
    until = compact(files, log).until
    put(log, (b"k9", b""))
    closed(log)
    before = log.segment_count
    compact(files, log, clean_until=until)
    assert log.segment_count < before
    assert all(segment.size <= CONFIG.segment_bytes for segment in log.closed_segments)
    assert sorted(contents(log), key=str) == [b"k0", b"k1", b"k2", b"k3", b"k9"]


def test_a_map_that_is_too_small_cleans_part_by_part() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for number in range(60):
        put(log, (b"key%02d" % (number % 20), b"%d" % number))
    closed(log)
    until, rounds = -1, 0
    while until < log.end_offset:
        reached = compact(files, log, clean_until=until, map_bytes=200 * 7).until
        assert reached > until
        until, rounds = reached, rounds + 1
    assert rounds > 3
    assert len(read_all(log)) == 20
    assert contents(log) == {b"key%02d" % key: b"%d" % (key + 40) for key in range(20)}


def test_keys_longer_than_a_digest_are_told_apart() -> None:
    offsets = OffsetMap(10_000)
    offsets.put(bytes(100), 1)
    offsets.put(bytes(101), 2)
    offsets.put(b"", 3)
    assert [offsets.last(key) for key in (bytes(100), bytes(101), b"", b"x")] == [1, 2, 3, -1]


def test_what_is_not_flushed_is_not_cleaned() -> None:
    """After a power failure an old segment may be torn: the new one must not be all there is."""
    files = MemoryFiles()
    log = open_log(files)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.roll()
    assert compact(files, log).records == 0
    log.flush()
    assert compact(files, log).records == 2


# --- against a dictionary

Step = tuple[str, Sequence[tuple[int, int | None]]]
pairs = st.lists(
    st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 80))), min_size=1, max_size=5
)
steps = st.lists(
    st.tuples(st.sampled_from(["append", "idempotent", "roll", "compact", "restart"]), pairs),
    min_size=3,
    max_size=30,
)


@given(steps, st.sampled_from(CODECS), st.integers(1, 40))
@settings(max_examples=60)
def test_a_compacted_log_is_the_log_without_what_was_replaced(
    steps: list[Step], codec: str, keys: int
) -> None:
    """Whatever is done: every surviving record is the one that was written at its offset, no last
    value of a key is missing, and from every offset a reader gets to the end."""
    files = MemoryFiles()
    log = open_log(files)
    written: dict[int, tuple[bytes, bytes | None]] = {}
    until, sequence, now = -1, 0, 0
    for kind, content in steps:
        now += 60
        if kind in ("append", "idempotent"):
            idempotent = kind == "idempotent"
            rows = [(b"%d" % k, None if v is None else bytes(v), (), now) for k, v in content]
            data = encode_batch(
                rows,
                compression=codec,
                producer_id=4 if idempotent else -1,
                producer_epoch=0 if idempotent else -1,
                base_sequence=sequence if idempotent else -1,
            )
            info = log.append(data, now, 1)
            assert not info.duplicate
            sequence += len(rows) if idempotent else 0
            for number, row in enumerate(rows):
                written[info.first_offset + number] = row[:2]
        elif kind == "roll":
            closed(log)
        elif kind == "compact":
            end = log.end_offset
            until = compact(files, log, clean_until=until, now_ms=now, map_bytes=200 * keys).until
            assert log.end_offset == end
        else:
            log.close()
            log = open_log(files)
        check(log, written)


def check(log: Log, written: dict[int, tuple[bytes, bytes | None]]) -> None:
    assert log.end_offset == len(written)
    last = {key: offset for offset, (key, _) in written.items()}
    found = read_all(log)
    assert [record.offset for record in found] == sorted({record.offset for record in found})
    assert all((r.key, r.value) == written[r.offset] for r in found)
    there = {record.offset for record in found}
    for key, offset in last.items():
        if offset not in there:
            assert written[offset][1] is None
            assert all(record.key != key for record in found), "a deleted value is back"
    for offset in range(log.start_offset, log.end_offset, 3):
        assert read_all(log, offset) == [record for record in found if record.offset >= offset]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.binary(max_size=3)),
            st.one_of(st.none(), st.binary(max_size=300)),
            st.integers(0, 2**40),
        ),
        min_size=1,
        max_size=6,
    ),
    st.data(),
    st.sampled_from(CODECS),
)
@settings(max_examples=40)
def test_a_batch_written_again_has_exactly_the_records_kept(
    rows: list[tuple[bytes | None, bytes | None, int]], data: st.DataObject, codec: str
) -> None:
    encoded = encode_batch([(k, v, (), t) for k, v, t in rows], base_offset=70, compression=codec)
    (batch,) = split_batches(encoded)
    kept = [record for record in batch.records() if data.draw(st.booleans())] or batch.records()[:1]
    horizon = data.draw(st.one_of(st.none(), st.integers(0, 2**45)))
    again = rewrite(batch.header, kept, horizon)
    (after,) = split_batches(again)
    after.check_crc()
    assert after.records() == kept
    assert delete_horizon(after.header) == horizon
    assert read_header(empty_batch(after.header)).next_offset == batch.header.next_offset
