"""Batches that the compiled loops make by the keys of records are those of the pure path."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hostile_records import BASES, records
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import CorruptRecordError
from tallymark.protocol.murmur2 import murmur2, partition_of
from tallymark.protocol.records.batch import (
    HEADER_SIZE,
    Batch,
    BatchBuilder,
    encode_batch,
    place_batch,
    split_batches,
)
from tallymark.protocol.records.compiled import kernel, repartition, repartition_loop
from tallymark.protocol.records.compression import CODECS
from tallymark.protocol.records.writer import batch_header
from tallymark.protocol.varint import encode_varint

pytest.importorskip("numba")
SEEDS = st.integers(0, 2**64)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    repartition.warm()
    assert kernel.KERNEL.wait(250)
    assert repartition.KERNEL.wait(250)


def by_the_pure_path(
    batches: Sequence[Batch], since: int, partitions: int, keyless: int, codec: str
) -> list[tuple[int, bytes]]:
    builders: dict[int, BatchBuilder] = {}
    for batch in batches:
        for record in batch.records():
            if record.offset >= since:
                key = record.key
                number = keyless if key is None else partition_of(key, partitions)
                builder = builders.setdefault(number, BatchBuilder())
                builder.append(key, record.value, record.headers, record.timestamp)
    return [(number, each.build(compression=codec)) for number, each in sorted(builders.items())]


def same(batches: Sequence[Batch], since: int, *where: Any) -> bool:
    """Whether both copy; the assertions are that they make the same of it."""
    payloads = [repartition.unpack(each, each.usual_max_size) for each in batches]
    found = repartition.KeyedRecords.read(batches, payloads, since)
    try:
        everything = [one for each in batches for one in each.records()]
    except CorruptRecordError:
        assert found is None
        return False
    if found is None:
        assert any(not -(2**63) <= one.timestamp < 2**63 for one in everything)
        return False
    wanted = [one for one in everything if one.offset >= since]
    assert list(found.offsets) == [record.offset for record in wanted]
    if wanted:
        assert found.oldest == min(record.timestamp for record in wanted)
    made = found.batches(*where)
    if made is None:  # numbers in more bytes than they need, or times too far apart
        return False
    copied = list(made)
    assert [(number, bytes(each.data)) for number, each in copied] == by_the_pure_path(
        batches, since, *where
    )
    for _, each in copied:
        each.check_crc()
    return True


def batch_of(random: Random, payload: bytes, count: int, base_offset: int) -> Batch:
    """A batch whose header says what it likes."""
    header = batch_header(
        payload,
        attributes=random.choice((0, 0, 8)),
        count=max(1, count),
        base_timestamp=random.choice(BASES),
        max_timestamp=random.choice(BASES),
        producer=(-1, -1, -1),
        base_offset=base_offset,
    )
    return split_batches(header + payload)[0]


def try_one(seed: int) -> bool:
    random = Random(seed)
    batches: list[Batch] = []
    for number in range(random.choice((1, 1, 2, 3))):
        payload, count = records(random)
        batches.append(batch_of(random, payload, min(count, 2**20), 1000 * number))
    partitions = random.choice((1, 2, 3, 64))
    since = random.choice((0, 0, 3, 1001, 2**40))
    return same(batches, since, partitions, random.randrange(partitions), "none")


@settings(max_examples=1500, deadline=None)
@given(SEEDS)
@pytest.mark.slow
def test_hostile_batches_become_the_same_batches(seed: int) -> None:
    try_one(seed)


def test_the_seeds_have_what_is_copied_and_what_is_not() -> None:
    copied = sum(map(try_one, range(600)))
    assert 60 < copied < 500


@pytest.mark.soak
def test_two_hundred_thousand_batches_become_the_same() -> None:
    copied = sum(map(try_one, range(200_000)))
    assert copied > 20_000


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(SEEDS, st.sampled_from(CODECS), st.sampled_from(CODECS))
def test_every_codec_is_read_and_written(seed: int, source: str, target: str) -> None:
    random = Random(seed)
    batches = [
        split_batches(
            encode_batch(
                [
                    (
                        random.choice((None, b"", random.randbytes(random.randrange(20)))),
                        random.choice((None, b"v" * random.randrange(9000))),
                        [("tm", b"x" * 17)] * random.randrange(3),
                        1_700_000_000_000 + random.randrange(-100, 10**9),
                    )
                    for _ in range(random.choice((1, 2, 300)))
                ],
                base_offset=base,
                compression=source,
            )
        )[0]
        for base in (0, 300)
    ]
    assert same(batches, random.choice((0, 0, 100)), 7, 3, target)


def test_as_plain_python_the_loops_do_the_same() -> None:
    """The functions themselves, so that coverage and a debugger see them."""
    rows = [
        (b"key %d" % n if n % 3 else None, bytes(n % 80), [("tm", None), ("é", b"x")], 50 - n)
        for n in range(200)
    ]
    (batch,) = split_batches(encode_batch(rows))
    payload = bytes(batch.data[HEADER_SIZE:])
    columns = kernel.record_columns(payload, 200, 0, 50)
    assert columns is not None
    table = columns.base
    found: list[list[bytes]] = []
    for functions in (repartition_loop.__dict__, repartition.KERNEL):
        data: Any = payload if functions is not repartition.KERNEL else np.frombuffer(payload, "u1")
        targets, parts = np.empty(200, np.int64), np.zeros((3, 6), np.int64)
        assert functions["choose_partitions"](data, table, 200, 20, 1, targets, parts) == 0
        assert parts[:, 0].sum() == 180
        sizes = parts[:, 1]
        parts[:, 4] = sizes.cumsum() - sizes
        out = np.empty(sizes.sum(), np.uint8)
        assert functions["copy_records"](data, table, 200, targets, parts, out) == 0
        found.append([out.tobytes(), parts.tobytes(), targets.tobytes()])
    assert found[0] == found[1]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 5))
@pytest.mark.slow
def test_the_hash_is_that_of_kafka(key: bytes, place: int) -> None:
    assert repartition_loop.murmur2(bytes(place) + key, place, len(key)) == murmur2(key)


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_written_as_varints(number: int) -> None:
    wanted = encode_varint(number)
    out = bytearray(10)
    assert repartition_loop.put_varint(out, 0, number) == len(wanted)
    assert out[: len(wanted)] == wanted
    assert repartition_loop.varint_size(number) == len(wanted)


def test_numbers_in_more_bytes_than_they_need_are_left_to_the_pure_path() -> None:
    """Copied as they are, some clients would refuse them: Kafka's reads five bytes at most."""
    body = b"\0\0\0\1\1\2" + b"\x84\0" + b"tm" + b"\1"
    payload = encode_varint(len(body)) + body
    batch = batch_of(Random(1), payload, 1, 0)
    assert batch.records()[0].headers == (("tm", None),)
    found = repartition.KeyedRecords.read([batch], [payload], 0)
    assert found is not None
    assert found.batches(2, 0, "none") is None


def test_tables_of_other_sizes_are_refused() -> None:
    data = np.frombuffer(bytes(10), np.uint8)
    columns = kernel.column_table(4)
    targets, parts = np.empty(4, np.int64), np.zeros((2, 6), np.int64)
    choose = repartition.KERNEL["choose_partitions"]
    columns[:] = 0
    columns[0] = 5
    assert choose(data, columns, 4, 9, 0, targets, parts) == 0
    assert targets.tolist() == [repartition_loop.LEFT_OUT] * 4
    for count, keyless, some in (
        (5, 0, parts),
        (4, 2, parts),
        (4, -1, parts),
        (4, 0, parts[:, :5]),
    ):
        assert choose(data, columns, count, 0, keyless, targets, np.ascontiguousarray(some)) == -1
    assert choose(data, columns, 4, 0, 0, targets, parts) == -1  # no record is of 0 bytes
    targets[:] = 2
    copy = repartition.KERNEL["copy_records"]
    assert copy(data, columns, 4, targets, parts, np.empty(9, np.uint8)) == -1


def test_offsets_that_end_beyond_64_bits_are_left_to_the_pure_path() -> None:
    """Such a header is one that can be read; its last offset had no room in the table, and what the
    mirror was given was an OverflowError."""
    data = bytearray(encode_batch([(b"k", b"v", (), 1), (b"k", b"w", (), 1)]))
    place_batch(data, 0, 2**63 - 1, 0)
    (batch,) = split_batches(bytes(data))
    payloads = [repartition.unpack(batch, batch.usual_max_size)]
    assert repartition.KeyedRecords.read([batch], payloads, 0) is None
