"""The paper's rule: a message is exposed to consumers only after it is flushed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.protocol.topic_partition import LATEST
from tallymark.testing.memory_files import MemoryFiles

FOLDER = "/d/orders-0"
CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100, flush_before_expose=True)


def batch(first: int, count: int = 3) -> bytearray:
    return bytearray(encode_batch([(None, b"value", (), first + n) for n in range(count)]))


def new_log(config: LogConfig = CONFIG) -> tuple[MemoryFiles, Log]:
    files = MemoryFiles()
    files.make_dirs(FOLDER)
    files.sync_dir("/")
    files.sync_dir("/d")
    log = Log.open(files, FOLDER, config, clean=False, now_ms=0)
    log.start_epoch(0)
    return files, log


def seen(log: Log, at: int = 0, max_bytes: int = 10**6) -> list[int]:
    offsets: list[int] = []
    while (piece := log.read(at, max_bytes)).data:
        for each in split_batches(piece.read()):
            offsets += [record.offset for record in each.records()]
        at = piece.next_offset
    return offsets


@pytest.mark.parametrize("max_bytes", [0, 150, 400, 10**6])
def test_readers_see_what_is_flushed(max_bytes: int) -> None:
    _, log = new_log()
    for number in range(20):
        log.append(batch(3 * number), 0, 0)
        if number == 12:
            assert seen(log, 0, max_bytes) == []
            log.flush()
    assert (log.high_watermark, log.last_stable_offset, log.end_offset) == (39, 39, 60)
    assert seen(log, 0, max_bytes) == list(range(39))
    assert log.read(50, 100).data == b""  # not an error: it will be there
    log.flush()
    assert seen(log, 30, max_bytes) == list(range(30, 60))


def test_a_flush_under_way_shows_nothing_yet() -> None:
    _, log = new_log()
    log.append(batch(0), 0, 0)
    job = log.begin_flush()
    assert job is not None
    log.append(batch(3), 0, 0)
    job.run()
    assert log.high_watermark == 0
    log.finish_flush(job)
    assert seen(log) == [0, 1, 2]


def test_searches_end_there_as_well() -> None:
    _, log = new_log()
    log.append(batch(0), 0, 0)
    log.flush()
    log.append(batch(3), 0, 0)
    assert log.offset_for_time(2) == (2, 2)
    assert log.offset_for_time(3) is None
    assert log.max_timestamp() == (2, 2)
    assert log.offsets_before(LATEST, 1) == [3]


def test_only_what_is_seen_can_be_deleted() -> None:
    _, log = new_log()
    log.append(batch(0), 0, 0)
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        log.delete_records(1)


def test_what_was_seen_survives_a_power_failure() -> None:
    files, log = new_log()
    for number in range(10):
        log.append(batch(3 * number), 0, 0)
        if number % 4 == 3:
            log.flush()
    shown = seen(log)
    files.lose_unsynced()
    again = Log.open(files, FOLDER, CONFIG, clean=False, now_ms=0)
    again.start_epoch(again.next_epoch)
    assert seen(again)[: len(shown)] == shown


def test_a_new_leader_shows_what_was_shown_before() -> None:
    """After a kill the log knows its recovery point only as of the last checkpoint. Were it shown
    up to there, readers would be beyond the end until the next flush."""
    files, log = new_log()
    log.append(batch(0), 0, 0)
    log.flush()
    files.kill()
    again = Log.open(files, FOLDER, CONFIG, clean=False, now_ms=0)
    again.start_epoch(1)
    assert again.high_watermark == 3
    files.lose_unsynced()
    assert Log.open(files, FOLDER, CONFIG, clean=False, now_ms=0).end_offset == 3


def test_switched_on_while_it_runs_it_hides_nothing() -> None:
    _, log = new_log(replace(CONFIG, flush_before_expose=False))
    log.append(batch(0), 0, 0)
    log.config = CONFIG
    assert seen(log) == [0, 1, 2]
    log.append(batch(3), 0, 0)
    assert seen(log) == [0, 1, 2]
    log.config = replace(CONFIG, flush_before_expose=False)
    assert seen(log) == list(range(6))


def test_a_flush_that_was_given_up_shows_nothing() -> None:
    """The broker stops while a flush waits for its thread: the job counted as done, and the marker
    of a clean stop was written over records that no sync had seen."""
    files, log = new_log()
    log.append(batch(0), 0, 0)
    job = log.begin_flush()
    assert job is not None
    log.finish_flush(job)  # without job.run()
    assert log.high_watermark == 0
    assert log.flush_due(10**6)
    log.close()
    assert not files.unsynced(f"{FOLDER}/{0:020d}.log")
