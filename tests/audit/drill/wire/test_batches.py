"""Batches that are not what the sender sent are still batches that a broker takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.protocol.records.batch import Batch, Record, encode_batch, split_batches
from tallymark_audit.proof.drill.faults import batches

CODECS = ("none", "gzip", "zstd")


def batch_of(count: int, codec: str = "none", base_offset: int = 0) -> Batch:
    rows = [
        (None if n % 3 else b"k%d" % n, b"value %d" % n, [("tm", b"%d" % n)], 1_000 + n)
        for n in range(count)
    ]
    data = encode_batch(
        rows,
        base_offset=base_offset,
        compression=codec,
        producer_id=77,
        producer_epoch=3,
        base_sequence=500,
    )
    (batch,) = split_batches(data)
    return batch


def whole(data: bytes) -> Batch:
    """The one batch of the bytes; its CRC fits, and it is what a producer may send."""
    (batch,) = split_batches(data)
    assert batch.header.size == len(data)
    batch.check_crc()
    return batch


def fields(records: list[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.timestamp, record.key, record.value) for record in records]


def is_from_nobody(batch: Batch) -> bool:
    header = batch.header
    numbers = (header.producer_id, header.producer_epoch, header.base_sequence)
    return numbers == (-1, -1, -1) and header.last_offset_delta + 1 == header.record_count


@pytest.mark.parametrize("codec", CODECS)
def test_a_neutral_batch_holds_the_same_and_names_no_producer(codec: str) -> None:
    batch = batch_of(5, codec)
    found = whole(batches.neutral(batch))
    assert is_from_nobody(found)
    assert found.header.codec == codec
    assert found.records() == batch.records()


@given(st.integers(1, 40), st.sets(st.integers(0, 39)), st.sampled_from(CODECS))
def test_records_vanish_and_the_others_close_up(count: int, gone: set[int], codec: str) -> None:
    batch = batch_of(count, codec)
    left = [record for place, record in enumerate(batch.records()) if place not in gone]
    data = batches.without(batch, gone)
    if not left:
        assert data is None
        return
    assert data is not None
    found = whole(data)
    assert is_from_nobody(found)
    assert fields(found.records()) == fields(left)
    assert [record.offset for record in found.records()] == list(range(len(left)))
    assert [record.headers for record in found.records()] == [r.headers for r in left]


@given(st.integers(1, 20), st.sets(st.integers(0, 19)))
def test_records_are_repeated_right_behind_themselves(count: int, again: set[int]) -> None:
    batch = batch_of(count)
    found = whole(batches.repeated(batch, again))
    assert is_from_nobody(found)
    expected: list[Record] = []
    for place, record in enumerate(batch.records()):
        expected += [record, record] if place in again else [record]
    assert fields(found.records()) == fields(expected)


@given(st.integers(1, 20), st.sets(st.integers(0, 19)))
def test_only_the_values_at_the_places_are_corrupted(count: int, places: set[int]) -> None:
    batch = batch_of(count)
    found = whole(batches.corrupted(batch, places)).records()
    for place, (before, after) in enumerate(zip(batch.records(), found, strict=True)):
        assert (before.value != after.value) == (place in places)
        assert before._replace(value=None) == after._replace(value=None)


@given(st.none() | st.binary(max_size=50))
def test_damage_is_always_seen(value: bytes | None) -> None:
    assert batches.damaged(value) != value


@given(st.integers(1, 30), st.sets(st.integers(0, 29)), st.sampled_from(CODECS))
def test_what_is_cut_out_of_a_log_leaves_a_hole_in_its_offsets(
    count: int, gone: set[int], codec: str
) -> None:
    batch = batch_of(count, codec, base_offset=1_000)
    found = whole(batches.cut_out(batch, gone))
    assert found.header.base_offset == 1_000
    assert found.header.next_offset == batch.header.next_offset
    left = [record for place, record in enumerate(batch.records()) if place not in gone]
    assert found.records() == left
