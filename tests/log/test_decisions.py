"""The pure decisions of the room: roll, flush, retention, and what a batch must be."""

from __future__ import annotations

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import KafkaError
from tallymark.log.config import LogConfig
from tallymark.log.upkeep.retention import SegmentFacts, deletable
from tallymark.log.upkeep.roll_policy import must_flush, must_roll
from tallymark.log.validation.batch import validate_batch
from tallymark.protocol.records.batch import encode_batch

CONFIG = LogConfig(
    segment_bytes=1000, segment_ms=60_000, flush_messages=10, flush_ms=500, max_message_bytes=900
)


@pytest.mark.parametrize(
    ("size", "age_ms", "batch", "relative", "roll"),
    [
        (0, 0, 2000, 0, False),  # an empty segment takes anything
        (0, 10**9, 100, 0, False),
        (900, 0, 100, 0, False),
        (901, 0, 100, 0, True),
        (1, 60_000, 10, 0, True),
        (1, 59_999, 10, 0, False),
        (0, 0, 10, 2**31, True),
    ],
)
def test_roll(size: int, age_ms: int, batch: int, relative: int, roll: bool) -> None:
    assert must_roll(CONFIG, size, age_ms, batch, relative) is roll


@pytest.mark.parametrize(
    ("messages", "waited_ms", "flush"),
    [(0, 10**6, False), (1, 499, False), (1, 500, True), (9, 0, False), (10, 0, True)],
)
def test_flush(messages: int, waited_ms: int, flush: bool) -> None:
    assert must_flush(CONFIG, messages, waited_ms) is flush


@pytest.mark.parametrize(
    ("segments", "keep_ms", "keep_bytes", "count"),
    [
        ([(10, 100), (10, 200), (10, 900)], -1, -1, 0),
        ([(10, 100), (10, 200), (10, 900)], 500, -1, 2),
        ([(10, 100), (10, 900), (10, 200)], 500, -1, 1),  # no holes
        ([(10, 100), (10, 200), (10, 300)], 500, -1, 3),  # the active one as well
        ([(10, -1), (10, 200)], 500, -1, 0),  # without a timestamp nothing ages
        ([(10, 100), (0, -1)], 0, 0, 1),  # an empty active segment stays
        ([(10, 100), (10, 200), (10, 900)], -1, 25, 0),
        ([(10, 100), (10, 200), (10, 900)], -1, 20, 1),
        ([(10, 100), (10, 200), (10, 900)], -1, 0, 3),
        ([(10, 2000)], 500, -1, 0),  # from the future
    ],
)
def test_retention(
    segments: list[tuple[int, int]], keep_ms: int, keep_bytes: int, count: int
) -> None:
    facts = [SegmentFacts(*pair) for pair in segments]
    assert deletable(facts, 1000, keep_ms, keep_bytes) == count


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 2000)), max_size=8),
    st.integers(0, 200),
)
def test_retention_by_size_keeps_what_was_asked_for(
    segments: list[tuple[int, int]], keep: int
) -> None:
    facts = [SegmentFacts(*pair) for pair in segments]
    count = deletable(facts, 1000, -1, keep)
    total = sum(size for size, _ in segments)
    kept = sum(size for size, _ in segments[count:])
    assert kept >= min(keep, total)
    if count < len(segments):
        assert kept - segments[count][0] < keep


def batch(
    count: int = 2, *, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1
) -> bytearray:
    return bytearray(
        encode_batch(
            [(b"k", b"v" * 10, (), 1000 + n) for n in range(count)],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
    )


def refused(data: bytes | bytearray, config: LogConfig = CONFIG, *, control: bool = False) -> str:
    with pytest.raises(KafkaError) as refusal:
        validate_batch(data, config, "orders-0", control=control)
    assert "orders-0" in str(refusal.value)
    return refusal.value.name


def test_a_good_batch_passes() -> None:
    header = validate_batch(batch(), CONFIG, "orders-0", control=False)
    assert header.record_count == 2


def test_every_flipped_bit_of_a_batch_is_noticed() -> None:
    """But for those the log writes itself: base offset and leader epoch."""
    good = batch(1)
    for at in range(len(good)):
        if at < 8 or 12 <= at < 16:
            continue
        bad = bytearray(good)
        bad[at] ^= 0x10
        assert refused(bad) in ("CORRUPT_MESSAGE", "INVALID_RECORD", "MESSAGE_TOO_LARGE")


def test_every_cut_of_a_batch_is_noticed() -> None:
    good = batch(1)
    for size in range(len(good)):
        assert refused(good[:size]) in ("CORRUPT_MESSAGE", "INVALID_RECORD")


def test_refusals() -> None:
    assert refused(b"") == "INVALID_RECORD"
    assert refused(batch() + batch()) == "INVALID_RECORD"
    assert refused(batch(100)) == "MESSAGE_TOO_LARGE"
    roomy = LogConfig(segment_bytes=1000, max_message_bytes=10_000)
    assert refused(batch(100), roomy) == "RECORD_LIST_TOO_LARGE"
    assert refused(batch(producer_id=7, producer_epoch=0)) == "INVALID_RECORD"
    assert refused(batch(producer_id=7, base_sequence=0)) == "INVALID_RECORD"
    assert refused(batch(), control=True) == "INVALID_RECORD"


def test_counts_that_do_not_agree() -> None:
    lying = batch(2)
    lying[57:61] = (1).to_bytes(4, "big")
    lying[17:21] = crc32c.crc32c(memoryview(lying)[21:]).to_bytes(4, "big")
    assert refused(lying) == "INVALID_RECORD"
