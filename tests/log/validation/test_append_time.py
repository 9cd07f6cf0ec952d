"""The broker's clock in records, limits on the producer's, and what a compacted topic takes."""

from __future__ import annotations

import gzip
from dataclasses import replace

import crc32c
import pytest

from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig
from tallymark.log.validation.preparation import prepare
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.testing.memory_files import MemoryFiles

CONFIG = LogConfig(log_append_time=True, index_interval_bytes=60)


def new_log(config: LogConfig) -> Log:
    files = MemoryFiles()
    files.make_dirs("/d/orders-0")
    return Log.open(files, "/d/orders-0", config, clean=False, now_ms=0)


def batch(*timestamps: int, key: bytes | None = b"k", compression: str = "none") -> bytearray:
    records = [(key, b"v" * 20, (), timestamp) for timestamp in timestamps]
    return bytearray(encode_batch(records, compression=compression))


def with_crc(data: bytearray) -> bytearray:
    data[17:21] = crc32c.crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return data


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_log_append_time(compression: str) -> None:
    log = new_log(CONFIG)
    for now in (5000, 6000, 7000):
        info = log.append(bytes(batch(10, 99, compression=compression)), now, -1)
        assert (info.append_time_ms, info.max_timestamp) == (now, now)
    for each in split_batches(log.read(0, 10**6).read()):
        each.check_crc()
        assert each.header.is_log_append_time
        assert {record.timestamp for record in each.records()} == {each.header.max_timestamp}
    assert log.offset_for_time(5500) == (2, 6000)
    assert log.max_timestamp() == (4, 7000)


def test_a_repetition_keeps_its_first_time() -> None:
    log = new_log(CONFIG)
    data = encode_batch([(None, b"", (), 1)], producer_id=1, producer_epoch=0, base_sequence=0)
    log.append(data, 5000, -1)
    assert log.append(data, 6000, -1).duplicate
    assert log.max_timestamp() == (0, 5000)


def test_the_producers_clock_within_limits() -> None:
    log = new_log(LogConfig(timestamp_before_max_ms=1000, timestamp_after_max_ms=50))
    for stamps in ((9000, 10_050), (10_000,), (-1,)):
        log.append(batch(*stamps), 10_000, -1)
    for stamps in ((8999, 10_000), (10_000, 10_051), (0,)):
        with pytest.raises(KafkaError, match="INVALID_TIMESTAMP"):
            log.append(batch(*stamps), 10_000, -1)
    log.config = replace(CONFIG, timestamp_before_max_ms=0, timestamp_after_max_ms=0)
    log.append(batch(1), 10_000, -1)  # the broker's own clock is never wrong


def test_a_producer_may_not_claim_the_brokers_clock() -> None:
    data = batch(1)
    data[22] |= 0x08
    for config in (CONFIG, LogConfig()):
        with pytest.raises(KafkaError, match="INVALID_TIMESTAMP"):
            new_log(config).append(with_crc(bytearray(data)), 0, -1)


# --- a compacted topic is opened

COMPACTED = LogConfig(compact=True, max_message_bytes=2**20)


def refused(data: bytes | bytearray) -> str:
    late = prepare(data, COMPACTED, 0, "t-0").late
    assert late is not None
    return late.name


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_a_compacted_topic_need_keys(compression: str) -> None:
    keyless = batch(1, 2, key=None, compression=compression)
    assert refused(keyless) == "INVALID_RECORD"
    assert prepare(keyless, LogConfig(), 0, "t-0").late is None
    good = batch(1, 2, key=b"", compression=compression)
    assert prepare(good, COMPACTED, 0, "t-0").late is None


def test_records_that_are_not_what_the_header_says() -> None:
    rubbish = batch(1, 2)
    rubbish[61:] = b"\xff" * (len(rubbish) - 61)
    assert refused(with_crc(rubbish)) == "INVALID_RECORD"
    no_gzip = batch(1, compression="gzip")
    no_gzip[65:] = bytes(len(no_gzip) - 65)
    assert refused(with_crc(no_gzip)) == "INVALID_RECORD"


def test_a_bomb_is_not_unpacked() -> None:
    bomb = batch(1, compression="gzip")[:61] + gzip.compress(bytes(64 * 2**20))
    bomb[8:12] = (len(bomb) - 12).to_bytes(4, "big")
    assert len(bomb) < 2**20
    assert refused(with_crc(bomb)) == "MESSAGE_TOO_LARGE"
