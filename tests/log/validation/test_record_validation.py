"""What a log takes in place of records, by ``record.validation``: nothing, however it is packed."""

from __future__ import annotations

import gc
import struct
import tracemalloc
from dataclasses import replace
from random import Random

import crc32c
import pytest

from tallymark.errors import KafkaError, RecordsRefusedError
from tallymark.log import Log, LogConfig
from tallymark.log.config import RecordValidation
from tallymark.log.validation.preparation import is_slow, prepare
from tallymark.log.validation.records import MOST_NAMED, most_unpacked
from tallymark.protocol.records import check as record_check
from tallymark.protocol.records.batch import HEADER_SIZE, encode_batch
from tallymark.protocol.records.compression import CODECS, compress
from tallymark.protocol.records.walk import walk
from tallymark.testing.memory_files import MemoryFiles

FULL = LogConfig(record_validation="full")
OPENING = [
    FULL,
    LogConfig(record_validation="header", compact=True),
    LogConfig(record_validation="header", timestamp_before_max_ms=10**15),
    LogConfig(record_validation="header", codec="gzip"),
    LogConfig(record_validation="header", codec="none"),
]


def batch_of(payload: bytes, count: int, codec: str = "none") -> bytes:
    """A batch with a right CRC that claims to hold ``count`` records."""
    packed = bytes(compress(codec, payload))
    head = struct.pack(">hiqqqhii", CODECS.index(codec), count - 1, 0, 0, -1, -1, -1, count)
    crc = crc32c.crc32c(packed, crc32c.crc32c(head))
    return struct.pack(">qiibI", 0, 49 + len(packed), -1, 2, crc) + head + packed


def plain(*values: bytes, key: bytes | None = b"k") -> bytes:
    return encode_batch([(key, value, (), 0) for value in values])[HEADER_SIZE:]


def why(data: bytes, config: LogConfig) -> KafkaError:
    late = prepare(data, config, 0, "t-0").late
    assert late is not None, "it was taken"
    return late


def test_random_bytes_under_a_right_crc() -> None:
    """Somebody sent 200 random bytes as a batch of one record, its CRC was right, and the topic
    took them: no consumer got past that offset, and the cluster's mirror began anew for ever."""
    garbage = Random(5).randbytes(200)
    for config in (LogConfig(), *OPENING[:4]):
        refused = why(batch_of(garbage, 1), config)
        assert isinstance(refused, RecordsRefusedError)
        assert (refused.name, refused.record_errors[0][0]) == ("INVALID_RECORD", 0)
    assert prepare(batch_of(garbage, 1), LogConfig(record_validation="header"), 0, "t").late is None


@pytest.mark.parametrize("codec", CODECS)
def test_two_billion_records_in_a_few_bytes(codec: str) -> None:
    """A batch of some hundred bytes claimed 2,147,483,647 records. The log's next offset went up by
    as many, and so did what the audit had to find."""
    data = batch_of(plain(*[b"v"] * 20), 2**31 - 1, codec)
    for config in (LogConfig(), *OPENING):
        if codec == config.codec:
            continue  # it is not opened
        refused = why(data, config)
        assert refused.name == "INVALID_RECORD"
        assert "2147483647 records cannot stand in" in str(refused)


@pytest.mark.parametrize("codec", CODECS)
def test_no_record_at_all(codec: str) -> None:
    """The header said one record, and nothing followed it."""
    assert why(batch_of(b"", 1, codec), FULL).name == "INVALID_RECORD"
    assert why(batch_of(b"", 1), LogConfig()).name == "INVALID_RECORD"


def test_a_key_longer_than_its_batch() -> None:
    """The key of the only record said that it has 5,000 bytes, in a batch of a hundred."""
    record = bytearray(plain(b"v" * 30))
    record[4:5] = b"\x90\x4e"
    record[0] += 2
    for config in (LogConfig(), *OPENING[:4]):
        refused = why(batch_of(bytes(record), 1), config)
        assert isinstance(refused, RecordsRefusedError)
        ((place, text),) = refused.record_errors
        assert (place, text) == (
            0,
            "its key is longer than the record, or has an impossible length",
        )


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("config", OPENING)
def test_the_record_is_named_where_batches_are_opened(config: LogConfig, codec: str) -> None:
    """Compressed batches went past every check; one broken record in the middle of forty."""
    payload = bytearray(plain(*[b"value %02d" % n for n in range(40)]))
    size = len(payload) // 40
    payload[30 * size + 3] ^= 8  # the offset delta of record 30
    if codec == config.codec:
        pytest.skip("it is not opened")
    refused = why(batch_of(bytes(payload), 40, codec), config)
    assert isinstance(refused, RecordsRefusedError)
    assert refused.record_errors == ((30, "its offset is not the next one"),)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_what_does_not_unpack(codec: str) -> None:
    data = bytearray(batch_of(plain(b"v" * 100), 1, codec))
    data[HEADER_SIZE + 4 :] = bytes(len(data) - HEADER_SIZE - 4)
    data[17:21] = crc32c.crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    for config in OPENING[:3]:
        assert why(bytes(data), config).name == "INVALID_RECORD"


@pytest.mark.parametrize("level", ["header", "lengths", "full"])
@pytest.mark.parametrize("codec", CODECS)
def test_good_batches_are_taken(level: RecordValidation, codec: str) -> None:
    rows = [(b"k" * (n % 3), bytes(n), (("h", b"x"), ("é", None)), n) for n in range(200)]
    data = encode_batch(rows, compression=codec)
    assert prepare(data, LogConfig(record_validation=level), 0, "t-0").late is None


def test_without_the_kernel_the_first_record_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A walk over every record costs a batch of many small ones as much as its append."""
    monkeypatch.setattr(record_check, "COMPILED", False)
    payload = plain(*[b"value %02d" % n for n in range(60)])
    size = len(payload) // 60

    def broken(record: int) -> bytes:
        changed = bytearray(payload)
        changed[record * size + 4] = 0x40  # the length of its key: 32
        return batch_of(bytes(changed), 60)

    assert why(broken(0), LogConfig()).name == "INVALID_RECORD"
    assert prepare(broken(55), LogConfig(), 0, "t-0").late is None
    assert why(broken(55), FULL).name == "INVALID_RECORD"


def test_of_a_large_batch_the_first_records_are_looked_at() -> None:
    """The kernel takes copies, and one of 500 KB costs a tenth of its append."""
    value, count = b"v" * 1000, 200
    payload = plain(*[value] * count)
    size = 1000 + 10  # the offset deltas of the first 64 records have one byte

    def broken(record: int) -> bytes:
        changed = bytearray(payload)
        changed[record * size + 4] ^= 0x40  # its offset delta
        return batch_of(bytes(changed), count)

    assert prepare(batch_of(payload, count), LogConfig(), 0, "t-0").late is None
    assert prepare(broken(60), LogConfig(), 0, "t-0").late is None
    for record, config in ((0, LogConfig()), (10, FULL), (60, FULL)):
        refused = why(broken(record), config)
        assert isinstance(refused, RecordsRefusedError)
        assert refused.record_errors[0][0] == record
    if record_check.COMPILED:
        assert why(broken(10), LogConfig()).name == "INVALID_RECORD"
    huge = bytearray(plain(bytes(100_000)))
    assert prepare(batch_of(bytes(huge), 1), LogConfig(), 0, "t-0").late is None
    huge[0] ^= 4
    assert why(batch_of(bytes(huge), 1), LogConfig()).name == "INVALID_RECORD"


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_batch_may_be_held_to_its_unpacked_size(codec: str) -> None:
    """A megabyte of zeros is a kilobyte of zstd; whoever reads it needs the megabyte. With
    ``message.max.bytes.unpacked`` the topic's limit holds for that, too."""
    data = encode_batch([(b"k", bytes(300_000), (), 0)], compression=codec)
    config = replace(FULL, max_message_bytes=200_000)
    assert prepare(data, config, 0, "t-0").late is None
    bounded = replace(config, bound_unpacked=True)
    assert most_unpacked(bounded) == 200_000
    refused = why(data, bounded)
    assert refused.name == "MESSAGE_TOO_LARGE"
    assert "200000 bytes when decompressed" in str(refused)
    within = replace(bounded, max_message_bytes=301_000)
    assert prepare(data, within, 0, "t-0").late is None


@pytest.mark.slow
def test_millions_of_records_take_no_memory_of_their_own() -> None:
    """A few kilobytes of gzip held two million records without a key, for a compacted topic. Each
    became some objects, half a gigabyte of them, and each was named in the answer."""
    count = 100_000
    body = bytearray()
    for number in range(count):
        delta = number << 1
        varint = bytearray()
        while delta > 0x7F:
            varint.append(delta & 0x7F | 0x80)
            delta >>= 7
        varint.append(delta)
        body += bytes((2 * (5 + len(varint)), 0, 0)) + varint + b"\1\1\0"
    payload = bytes(body)
    assert walk(payload, 0, count, count - 1, count)[:2] == (0, count)
    data = batch_of(payload, count, "zstd")
    tracemalloc.start()
    refused = why(data, LogConfig(compact=True))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(refused, RecordsRefusedError)
    assert len(refused.record_errors) == MOST_NAMED
    assert peak < 6 * len(payload), "what is unpacked may be copied and grown, no more"


def test_a_refusal_keeps_nothing_of_what_was_unpacked() -> None:
    """A broker that refused a bomb after the other grew by 16 MB with each: the error held the
    frames it came from, they what was unpacked, and all of it waited for the garbage collector."""
    bomb = encode_batch([(b"k", bytes(20 << 20), (), 0)], compression="zstd")
    keyless = encode_batch([(None, bytes(10 << 20), (), 0)], compression="zstd")
    config = LogConfig(compact=True)
    for data in (bomb, keyless):
        gc.disable()
        try:
            tracemalloc.start()
            refused = [why(data, config) for _ in range(8)]
            kept = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
            gc.enable()
        assert len(refused) == 8
        assert kept < 1 << 20


def test_what_is_opened_is_opened_beside_the_event_loop() -> None:
    small, large = batch_of(plain(b"v"), 1), batch_of(plain(bytes(20_000)), 1)
    assert not is_slow(small, FULL, 0)
    assert is_slow(large, FULL, 0)
    assert is_slow(batch_of(plain(b"v"), 1, "zstd"), FULL, 0)
    assert not is_slow(large, LogConfig(), 0)


# --- what a log holds already


def open_log(files: MemoryFiles, config: LogConfig, *, clean: bool) -> Log:
    return Log.open(files, "/d/t-0", config, clean=clean, now_ms=0)


def test_what_stands_in_a_log_stays_there() -> None:
    """A log of before holds a batch that is none. A start after a crash that were as strict as a
    produce would cut everything from there on: acknowledged records, all of them good."""
    files = MemoryFiles()
    files.make_dirs("/d/t-0")
    log = open_log(files, LogConfig(record_validation="header"), clean=False)
    good = encode_batch([(b"k", b"v", (), 0)] * 3)
    for data in (good, batch_of(Random(1).randbytes(200), 2), good):
        log.append(data, 0, 0)
    again = open_log(files, FULL, clean=False)
    assert (again.end_offset, again.recovered is not None) == (8, True)
    assert again.recovered is not None
    assert again.recovered.cut == 0
    assert again.append(good, 0, 0).first_offset == 8


def test_a_repetition_of_what_was_taken_before_has_its_first_offset() -> None:
    """A producer did not hear the answer to a batch and sent it again; meanwhile the broker had
    started with ``record.validation=full``."""
    files = MemoryFiles()
    files.make_dirs("/d/t-0")
    log = open_log(files, LogConfig(record_validation="header"), clean=False)
    data = bytearray(
        encode_batch([(b"k", b"v" * 9, (), 0)], producer_id=7, producer_epoch=0, base_sequence=0)
    )
    data[HEADER_SIZE] ^= 4
    data[17:21] = crc32c.crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    log.append(bytes(data), 0, 0)
    log.config = FULL
    assert log.append(bytes(data), 0, 0).duplicate
