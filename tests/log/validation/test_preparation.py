"""Making batches ready: what is checked, and what a codec of the topic's own changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import KafkaError, RecordsRefusedError
from tallymark.log import Log
from tallymark.log.config import LogConfig
from tallymark.log.validation.batch import MOST_TEXTS
from tallymark.log.validation.preparation import SLOW_BYTES, is_slow, prepare
from tallymark.protocol.records.batch import Batch, encode_batch
from tallymark.protocol.records.compression import CODECS
from tallymark.testing.memory_files import MemoryFiles

BYTES = st.binary(max_size=40)
RECORDS = st.lists(
    st.tuples(
        st.none() | BYTES,
        st.none() | BYTES,
        st.lists(st.tuples(st.text(max_size=5), st.none() | BYTES), max_size=2).map(tuple),
        st.integers(0, 2**41),
    ),
    min_size=1,
    max_size=20,
)


@given(RECORDS, st.sampled_from(CODECS), st.sampled_from(CODECS))
def test_a_batch_compressed_anew_holds_the_same_records(
    records: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]],
    theirs: str,
    ours: str,
) -> None:
    data = encode_batch(records, compression=theirs)
    header, made, late = prepare(data, LogConfig(codec=ours), 0, "t-0")
    assert late is None
    assert header.codec == ours
    batch = Batch(header, memoryview(made))
    batch.check_crc()
    before = Batch(prepare(data, LogConfig(), 0, "t-0").header, memoryview(data))
    assert batch.records() == before.records()
    same = ("codec", "attributes", "crc", "batch_length", "size")
    kept = [name for name in header._fields if name not in same]
    assert [getattr(header, n) for n in kept] == [getattr(before.header, n) for n in kept]
    assert header.size == len(made)


def test_what_the_producer_compressed_so_already_is_left_alone() -> None:
    data = encode_batch([(b"k", b"v" * 100, (), 1)], compression="zstd")
    assert prepare(data, LogConfig(codec="zstd", codec_level=19), 0, "t-0").data is data


def test_levels_are_used() -> None:
    text = b"".join(b"%d %d;" % (n, n * n % 977) for n in range(20_000))
    data = encode_batch([(None, text, (), 1)])
    sizes = [
        len(prepare(data, LogConfig(codec=codec, codec_level=level), 0, "t-0").data)
        for codec, level in (("gzip", 1), ("gzip", 9), ("zstd", 1), ("zstd", 19))
    ]
    assert sizes[0] > sizes[1]
    assert sizes[2] > sizes[3]


def refused(data: bytes, config: LogConfig) -> str:
    """The name of the error with which a log refuses the batch."""
    files = MemoryFiles()
    files.make_dirs("/d/t-0")
    log = Log.open(files, "/d/t-0", config, clean=False, now_ms=0)
    with pytest.raises(KafkaError) as error:
        log.append(data, 0, 0)
    assert log.end_offset == 0
    return error.value.name


def test_a_repetition_that_could_not_be_compressed_anew_has_its_first_offset() -> None:
    """A producer did not hear the answer to a batch and sent it again; meanwhile somebody had set
    ``compression.type=uncompressed``, by which the batch is too large. The retry was refused, so
    the application was told that records are lost which stood in the log."""
    files = MemoryFiles()
    files.make_dirs("/d/t-0")
    log = Log.open(files, "/d/t-0", LogConfig(), clean=False, now_ms=0)
    first, next_one = (
        encode_batch(
            [(None, bytes(10_000_000), (), 1)],
            compression="zstd",
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
        )
        for sequence in (0, 1)
    )
    log.append(first, 0, 0)
    log.config = LogConfig(codec="none")
    again = log.append(first, 0, 0)
    assert (again.first_offset, again.duplicate) == (0, True)
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        log.append(next_one, 0, 0)
    assert log.end_offset == 1


def test_a_batch_that_is_too_large_afterwards_is_refused() -> None:
    """Ten megabytes of zeros arrive as some hundred bytes; a topic that stores them plainly would
    hold a batch that no consumer expects."""
    data = encode_batch([(None, bytes(10_000_000), (), 1)], compression="zstd")
    assert refused(data, LogConfig(codec="none")) == "MESSAGE_TOO_LARGE"
    roomy = LogConfig(codec="none", max_message_bytes=20_000_000)
    assert len(prepare(data, roomy, 0, "t-0").data) > 10_000_000


def test_a_bomb_is_not_unpacked() -> None:
    data = encode_batch([(None, bytes(40_000_000), (), 1)], compression="zstd")
    assert refused(data, LogConfig(codec="gzip")) == "MESSAGE_TOO_LARGE"


def test_records_that_cannot_be_unpacked_are_refused() -> None:
    data = bytearray(encode_batch([(None, b"v" * 100, (), 1)], compression="gzip"))
    data[-4:] = b"\0\0\0\0"
    config = LogConfig(codec="none")
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        prepare(data, config, 0, "t-0")  # the CRC tells


def test_many_bad_records_are_all_named_in_few_words() -> None:
    data = encode_batch([(None, b"", (), 1)] * 5000)
    late = prepare(data, LogConfig(compact=True), 0, "t-0").late
    assert isinstance(late, RecordsRefusedError)
    errors = late.record_errors
    assert [number for number, _ in errors] == list(range(5000))
    assert sum(len(why) for _, why in errors) < 100 * MOST_TEXTS


@pytest.mark.parametrize(
    ("config", "codec", "size", "slow"),
    [
        (LogConfig(), "none", 10**6, False),
        (LogConfig(), "gzip", 10**6, False),
        (LogConfig(compact=True), "none", 100, False),
        (LogConfig(compact=True), "none", SLOW_BYTES, True),
        (LogConfig(compact=True), "gzip", 100, True),
        (LogConfig(codec="gzip"), "gzip", 10**6, False),
        (LogConfig(codec="gzip"), "none", SLOW_BYTES, True),
        (LogConfig(codec="none"), "zstd", 100, True),
        (LogConfig(codec="zstd", codec_level=9), "none", 100, False),
        (LogConfig(codec="zstd", codec_level=10), "none", 100, True),
        (LogConfig(codec="zstd", codec_level=22), "zstd", 100, False),
        (LogConfig(timestamp_before_max_ms=1), "none", SLOW_BYTES, True),
        (LogConfig(timestamp_after_max_ms=1), "none", SLOW_BYTES, False),
        (LogConfig(timestamp_after_max_ms=1, log_append_time=True), "none", SLOW_BYTES, False),
    ],
)
def test_what_takes_a_while_is_known_beforehand(
    config: LogConfig, codec: str, size: int, slow: bool
) -> None:
    """With ``compression.zstd.level=22`` batches of a hundred bytes took the event loop for
    milliseconds each: only their sizes were looked at."""
    data = encode_batch([(b"k", bytes(size), (), 1000)], compression=codec)
    assert is_slow(data, config, 1000) is slow
    late = encode_batch([(b"k", bytes(SLOW_BYTES), (), 9999)], compression="none")
    assert is_slow(late, LogConfig(timestamp_after_max_ms=1), 1000)
    assert not is_slow(b"", config, 1000)
