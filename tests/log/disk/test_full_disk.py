"""A disk that is full refuses, loses nothing, and is written to again when there is room."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from tallymark.errors import CODES, KafkaError
from tallymark.log import Log, LogConfig, LogManager
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.testing.memory_files import MemoryFiles

TOPIC: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "t")
ROUNDS: Final = 12


def opened(files: MemoryFiles) -> tuple[LogManager, Log]:
    config = LogConfig(segment_bytes=250, index_interval_bytes=50)
    manager = LogManager.open(files, ["/d"], config, broker_id=0, now_ms=0, cluster_id="c")
    return manager, manager.create("t", 0, TOPIC, 0)


def patiently(act: Callable[[], object], manager: LogManager) -> None:
    """As a client does: again, when it was refused. Once is enough: there is room then."""
    refused = None
    try:
        act()
    except KafkaError as error:
        refused = error
    if refused is not None:
        assert refused.code == CODES["KAFKA_STORAGE_ERROR"]
        assert manager.offline_dirs == {}, "the disk was only full"
        act()


def live(manager: LogManager, log: Log) -> None:
    for number in range(ROUNDS):
        data = encode_batch(
            [(None, b"%d" % number, (), number)],
            producer_id=9,
            producer_epoch=0,
            base_sequence=number,
        )
        patiently(partial(log.append, bytearray(data), 0, 0), manager)
        if number % 3 == 2:
            patiently(log.flush, manager)


def values(log: Log) -> list[int]:
    found: list[int] = []
    at = log.start_offset
    while at < log.end_offset:
        piece = log.read(at, 1 << 20)
        for batch in split_batches(piece.read()):
            batch.check_crc()
            found += [int(record.value or b"-1") for record in batch.records()]
        at = piece.next_offset
    return found


def is_a_write(failed: str) -> bool:
    return failed.split()[0] in ("append", "create", "make_dirs")


def test_whatever_is_written_when_the_disk_is_full() -> None:
    """A disk was full for a second, while somebody's backup ran: the broker took it offline until
    it was restarted, with all its partitions, though nothing had been lost and there was room
    again. Here every single write fails in its turn, half done, and everything goes on; then the
    power fails, and all is there that was flushed."""
    files = MemoryFiles()
    files.make_dirs("/d")
    manager, log = opened(files)
    before = files.operations
    live(manager, log)
    total = files.operations - before
    assert total > 50
    met: set[str] = set()
    for number in range(total):
        files = MemoryFiles()
        files.make_dirs("/d")
        files.sync_dir("/")
        manager, log = opened(files)
        failing = MemoryFiles.fail_operation
        failing(files, number, error=errno.ENOSPC, written=0.5)
        try:
            live(manager, log)
        except (KafkaError, AssertionError):
            # A sync that has no room may have lost what it was to write: that is another thing.
            assert files.failed is not None
            assert not is_a_write(files.failed), files.failed
            continue
        if files.failed is not None:
            met.add(files.failed.split()[0])
        assert values(log) == list(range(ROUNDS))
        files.lose_unsynced()
        again, found = opened(files)
        assert values(found) == list(range(ROUNDS)), files.failed
        again.close()
    assert {"append", "create"} <= met


@pytest.mark.parametrize("written", [0, 1, 40, 70])
def test_a_torn_append_is_taken_back(written: int) -> None:
    files = MemoryFiles()
    files.make_dirs("/d")
    manager, log = opened(files)
    log.append(bytearray(encode_batch([(None, b"0", (), 0)])), 0, 0)
    files.fail_next_write(".log", written=written)
    with pytest.raises(KafkaError, match="No space left"):
        log.append(bytearray(encode_batch([(None, b"1", (), 0)])), 0, 0)
    assert log.append(bytearray(encode_batch([(None, b"1", (), 0)])), 0, 0).first_offset == 1
    assert values(log) == [0, 1]
    manager.close()


def test_a_stop_on_a_full_disk_is_not_clean() -> None:
    """The marker of a clean stop was written though a log could not be flushed: the next start
    did not look at its end."""
    files = MemoryFiles()
    files.make_dirs("/d")
    manager, log = opened(files)
    log.append(bytearray(encode_batch([(None, b"0", (), 0)])), 0, 0)
    files.fail_next_write("index", written=0)
    manager.close()
    assert manager.offline_dirs == {}
    assert not files.exists("/d/.kafka_cleanshutdown")
    again, found = opened(files)
    assert values(found) == [0]
    again.close()
    assert files.exists("/d/.kafka_cleanshutdown")
