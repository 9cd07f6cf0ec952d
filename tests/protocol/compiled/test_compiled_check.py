"""What the compiled check of records accepts, the walk over records accepts."""

from __future__ import annotations

from random import Random

import pytest
from hostile_records import records
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.protocol.records.batch import HEADER_SIZE, encode_batch
from tallymark.protocol.records.check import BadRecordError, check_records, greatest_delta
from tallymark.protocol.records.compiled import check_loop, checking

pytest.importorskip("numba")


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    checking.warm()
    assert checking.KERNEL.wait(250)


def judged(payload: bytes, count: int, last_delta: int) -> bool:
    """Whether the loop accepts the records; the walk does, too, then."""
    greatest = checking.greatest_if_whole(payload, count, last_delta)
    plain = check_loop.check_records(payload, count, last_delta)
    assert plain == (check_loop.NOT_WHOLE if greatest is None else greatest)
    if greatest is None:
        return False
    check_records(payload, max(count, 0), last_delta)
    assert greatest == greatest_delta(payload, count)
    return True


def try_one(seed: int) -> bool:
    random = Random(seed)
    payload, count = records(random)
    count = min(count, 1 << 20)
    return judged(payload, count, max(count - 1, 0) + random.choice((0, 0, 1, 40, -1)))


@settings(max_examples=2000, deadline=None)
@given(st.integers(0, 2**64))
@pytest.mark.slow
def test_hostile_records_that_are_accepted_are_whole(seed: int) -> None:
    try_one(seed)


def test_the_seeds_have_both() -> None:
    assert 100 < sum(map(try_one, range(600))) < 450


@pytest.mark.soak
def test_a_million_batches_that_are_accepted_are_whole() -> None:
    assert sum(map(try_one, range(1_000_000))) > 150_000


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 6))
def test_random_bytes_that_are_accepted_are_whole(payload: bytes, count: int) -> None:
    judged(payload, count, count - 1)


def test_what_producers_send_is_accepted() -> None:
    rows = [
        (None if n % 2 else b"key", bytes(n * 7), [("tm", b"x" * 17), ("é", None)], 50 + n % 3)
        for n in range(300)
    ]
    payload = encode_batch(rows)[HEADER_SIZE:]
    assert judged(payload, 300, 299)
    assert not judged(payload, 299, 299)
    assert not judged(payload + b"\0", 300, 299)
    assert not judged(payload, 300, 298)


@pytest.mark.parametrize("number", [b"\x84\x80\x80\x80\x80\x00", b"\x84\x80\x80\x80\x10"])
def test_numbers_that_kafka_cannot_read_are_not_accepted(number: bytes) -> None:
    """Six bytes, or more than 32 bits, for a length: the walk refuses them."""
    body = b"\0\0\0\1" + number + b"ab" + b"\0"
    payload = bytes([2 * len(body)]) + body
    assert not judged(payload, 1, 0)
    with pytest.raises(BadRecordError):
        check_records(payload, 1, 0)
