"""Columns that the compiled loop has read are those of the pure path."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hostile_records import BASES, records
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records import columns as record_columns
from tallymark.protocol.records.batch import HEADER_SIZE, encode_batch
from tallymark.protocol.records.columns import RecordColumns
from tallymark.protocol.records.compiled import kernel
from tallymark.protocol.records.compiled.loose_columns import LooseColumns, read_loose

pytest.importorskip("numba")
NAMES = ("tm", "a", "é" * 40, "trace")
CONTENTS = (None, b"", b"\1stamp of 17 byte", b"x" * 70)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    kernel.warm()
    assert kernel.KERNEL.wait(250)


def outcome(payload: bytes, *where: Any) -> list[Any] | str:
    """All columns, or the error's text."""
    try:
        columns = RecordColumns(payload, *where)
    except CorruptRecordError as error:
        return str(error)
    later = columns.since(columns.offsets[len(columns) // 2]) if columns else columns
    return [
        (
            list(each.offsets),
            each.timestamps,
            each.timestamp_bounds(),
            each.keys(),
            each.values(),
            each.headers(),
            each.last_headers("tm"),
            each.last_headers("a"),
            each.sizes(),
            each.total_size(),
            each.records(),
            each.size,
        )
        for each in (columns, later)
    ]


def same(payload: bytes, *where: Any) -> list[Any] | str:
    """What both paths say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_columns, "_read_loose", None)
        pure = outcome(payload, *where)
        patch.setattr(record_columns, "_read_loose", read_loose)
        patch.setattr(record_columns, "_COMPILED", range(1, 1 << 18))
        assert outcome(payload, *where) == pure
    return pure


@settings(max_examples=800, deadline=None)
@given(st.integers(0, 2**64))
@pytest.mark.slow
def test_hostile_records_are_read_and_refused_with_the_same_text(seed: int) -> None:
    random = Random(seed)
    payload, count = records(random)
    where = random.choice(BASES), random.choice(BASES), random.choice((None, None, *BASES))
    same(payload, count, *where)


def rows(random: Random, count: int) -> list[Any]:
    """Records as applications send them, each batch of one habit."""
    names = random.sample(NAMES, random.randint(0, 2))
    contents = random.choice((CONTENTS, (b"\1stamp of 17 byte",), (b"one", b"three")))
    keys = random.choice(((None,), (None, b"", b"key"), (b"a", b"other")))
    skips = random.choice((0, 0, 0.5))
    return [
        (
            random.choice(keys),
            random.choice((None, b"", bytes(random.randrange(300)))),
            [(name, random.choice(contents)) for name in names if random.random() >= skips],
            1_700_000_000_000 + random.randrange(-5, 20_000),
        )
        for _ in range(count)
    ]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**64), st.sampled_from((1, 7, 8, 100)))
@pytest.mark.slow
def test_what_applications_send_is_read_as_by_the_pure_path(seed: int, count: int) -> None:
    payload = encode_batch(rows(Random(seed), count))[HEADER_SIZE:]
    assert same(payload, count, 7, 1_700_000_000_000) != ""


def test_records_behind_a_run_of_equal_ones_are_read_by_the_loop() -> None:
    equal: list[Any] = [(None, b"same", [], 5)] * 20
    others: list[Any] = [(None, bytes(number), [], 5 + number) for number in range(50)]
    payload = encode_batch([*equal, *others])[HEADER_SIZE:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_columns, "_read_loose", read_loose)
        found = RecordColumns(payload, 70, 0, 0)
    assert [type(part) for part in found._parts][-1] is LooseColumns
    assert found.offsets == range(70)
    assert found.values()[18:22] == [b"same", b"same", b"", b"\0"]
    assert isinstance(same(payload, 70, 3, 9), list)


def test_a_loop_that_is_not_ready_is_not_asked() -> None:
    payload = encode_batch([(None, bytes(number), [], 5) for number in range(20)])[HEADER_SIZE:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_columns, "_read_loose", read_loose)
        patch.setattr(kernel.KERNEL, "_compiled", None)
        assert len(RecordColumns(payload, 20, 0, 0).values()) == 20


def test_stretches_end_with_columns_of_the_loop() -> None:
    payload = encode_batch([(None, bytes(n % 90), [], 5) for n in range(5000)])[HEADER_SIZE:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_columns, "_read_loose", read_loose)
        found = list(RecordColumns.stretches(payload, 5000, 0, 0))
    assert [len(some) for some in found] == [4096, 904]
    assert type(found[1]._parts[-1]) is LooseColumns
    assert [value for some in found for value in some.values()] == [
        bytes(n % 90) for n in range(5000)
    ]
