"""A follower writes what its leader has, byte for byte, and nothing that is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig
from tallymark.log.validation.leader_batches import LeaderBatchError, Problem
from tallymark.protocol.records.batch import encode_batch, place_batch
from tallymark.testing.memory_files import MemoryFiles

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=120, retention_ms=-1)


def new_log(config: LogConfig = CONFIG, folder: str = "/d/orders-0") -> tuple[MemoryFiles, Log]:
    files = MemoryFiles()
    files.make_dirs(folder)
    files.sync_dir("/")
    files.sync_dir("/d")
    return files, Log.open(files, folder, config, clean=True, now_ms=0)


def batch(offset: int, count: int = 3, epoch: int = 0, size: int = 5, **options: Any) -> bytes:
    """A batch as it is in a leader's log."""
    records = [(None, bytes(size), (), offset + n) for n in range(count)]
    data = bytearray(encode_batch(records, **options))
    place_batch(data, 0, offset, epoch)
    return bytes(data)


def content(log: Log) -> bytes:
    found, at = b"", log.start_offset
    while piece := log.read(at, 10**6).read():
        found += piece
        at = log.read(at, 10**6).next_offset
    return found


def refused(log: Log, data: bytes, leader_epoch: int = 9) -> LeaderBatchError:
    with pytest.raises(LeaderBatchError) as raised:
        log.append_leaders(data, leader_epoch, 0)
    return raised.value


def test_several_batches_are_written_as_they_are() -> None:
    _, log = new_log()
    data = batch(0) + batch(3, 2, epoch=4) + batch(10, epoch=4)  # compaction has left a gap
    assert log.append_leaders(data, 4, 0) == (3, 8, len(data))
    assert (log.end_offset, content(log)) == (13, data)
    assert (log.latest_epoch, log.end_offset_for_epoch(0)) == (4, (0, 3))
    assert log.offset_for_time(4) == (4, 4)


def test_what_a_leader_may_write_is_not_judged_again() -> None:
    """Its settings may have been others when it took the batch."""
    config = LogConfig(max_message_bytes=70, compact=True, timestamp_before_max_ms=1)
    _, log = new_log(config)
    data = batch(0, size=90, producer_id=5, producer_epoch=1, base_sequence=77)
    log.append_leaders(data, 0, 10**6)
    assert content(log) == data


def test_sequences_are_remembered_for_the_day_on_which_it_leads() -> None:
    _, log = new_log()
    sent: dict[str, Any] = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 77}
    log.append_leaders(batch(0, **sent), 0, 0)
    log.start_epoch(1)
    again = encode_batch([(None, bytes(5), (), n) for n in range(3)], **sent)
    assert log.append(again, 0, 1).duplicate


def corrupt(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def of_format(data: bytes, magic: int) -> bytes:
    return data[:16] + bytes([magic]) + data[17:]


@pytest.mark.parametrize(
    ("bad", "problem", "offset", "of_leader"),
    [
        (batch(6, epoch=2)[:-1], Problem.CUT_OFF, 6, True),
        (batch(6, epoch=2)[:40], Problem.CUT_OFF, 6, True),
        (batch(6, epoch=2)[:7], Problem.CUT_OFF, 6, True),
        (of_format(batch(6, epoch=2), 1), Problem.FORMAT, 6, True),
        (bytes(100), Problem.FORMAT, 6, True),
        (corrupt(batch(6, epoch=2)), Problem.CORRUPT, 6, True),
        (batch(5, epoch=2), Problem.OUT_OF_ORDER, 5, True),
        (batch(3, epoch=2), Problem.OUT_OF_ORDER, 3, True),
        (batch(6, epoch=1), Problem.EPOCH_FALLS, 6, False),
        (batch(6, epoch=10), Problem.EPOCH_AHEAD, 6, True),
    ],
)
def test_a_bad_batch_is_named_and_not_written(
    bad: bytes, problem: Problem, offset: int, of_leader: bool
) -> None:
    """A corrupt batch on a leader made its followers ask for it for ever, and no line told which
    disk was wrong. What came before it stays, so that a follower is no further behind than it is.
    """
    _, log = new_log()
    good = batch(0) + batch(3, epoch=2)
    behind = b"" if problem is Problem.CUT_OFF else batch(12, epoch=2)
    error = refused(log, good + bad + behind)
    assert (error.problem, error.offset, error.of_leader) == (problem, offset, of_leader)
    assert f"offset {offset} " in str(error)
    assert ("at fault: the leader" in str(error)) is of_leader
    assert (log.end_offset, content(log)) == (6, good)
    log.append_leaders(batch(6, epoch=2), 2, 0)
    assert log.end_offset == 9


def test_an_answer_to_an_older_ask_is_not_written_twice() -> None:
    """A fetch was under way when the follower had its records from elsewhere (KAFKA-13266)."""
    _, log = new_log()
    log.append_leaders(batch(0), 0, 0)
    for late in (batch(0), batch(2)):
        error = refused(log, late)
        assert (error.problem, error.of_leader) == (Problem.OVERLAP, False)
    assert log.end_offset == 3


@pytest.mark.parametrize("restarts", [False, True])
def test_a_leaders_log_may_begin_inside_of_a_batch(restarts: bool) -> None:
    """DeleteRecords up to 105 leaves the batch 100..110 on the leader. A follower that begins at
    105 is given all of it (Kafka's UnexpectedAppendOffsetException)."""
    files, log = new_log()
    log.append_leaders(batch(0), 0, 0)
    log.begin_deletion(3).run()
    log.append_leaders(batch(105, 0 + 1), 0, 0)
    log.delete_records(106)
    data = batch(100, 11) + batch(111)
    log.append_leaders(data, 0, 0)
    if restarts:
        log.close()
        log = Log.open(files, log.directory, CONFIG, clean=True, now_ms=0)
    assert (log.start_offset, log.end_offset) == (106, 114)
    assert log.read(106, 10**6).read() == data
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        log.read(105, 100)


def test_a_gap_that_no_index_can_hold_begins_a_segment() -> None:
    """Compaction may leave a record every three milliards; the index stores 31 bits."""
    _, log = new_log()
    far = 3 * 2**31
    data = batch(far) + batch(2 * far)
    log.append_leaders(data, 0, 0)
    assert log.start_offset == far
    assert log.read(far, 10**6).read() == batch(far)
    assert log.read(2 * far, 10**6).read() == batch(2 * far)
    assert log.segment_count == 2


def test_a_disk_that_is_full_leaves_what_was_there() -> None:
    files, log = new_log()
    log.append_leaders(batch(0), 0, 0)
    files.fail_next_write(".log", written=30)
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        log.append_leaders(batch(3), 1, 0)
    assert (log.end_offset, log.latest_epoch) == (3, 0)
    log.append_leaders(batch(3), 1, 0)
    assert content(log) == batch(0) + batch(3)


BATCHES = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 90), st.integers(0, 2), st.integers(-1, 2)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.data())
def test_a_copy_is_its_original(
    batches: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    """Segments, bytes, epochs, producers, times: whatever the size of the answers."""
    _, leader = new_log()
    files, copy = new_log(folder="/d/copy-0")
    epoch, stamps = 0, iter(range(10**6))
    sequences = dict.fromkeys(range(3), 0)
    for count, size, later, producer in batches:
        epoch += later
        options: dict[str, Any] = {}
        if producer >= 0:
            options = {"producer_id": producer, "producer_epoch": 0}
            options["base_sequence"] = sequences[producer]
            sequences[producer] += count
        records = [(None, bytes(size), (), next(stamps)) for _ in range(count)]
        leader.append(encode_batch(records, **options), 0, epoch)
    while copy.end_offset < leader.end_offset:
        room = data.draw(st.integers(1, 2000))
        copy.append_leaders(leader.read(copy.end_offset, room).read(), epoch, 0)
    assert content(copy) == content(leader)
    bases = [segment.base_offset for segment in copy.closed_segments]
    assert bases == [segment.base_offset for segment in leader.closed_segments]
    assert list(copy.producers) == list(leader.producers)
    for asked in range(epoch + 1):
        assert copy.end_offset_for_epoch(asked) == leader.end_offset_for_epoch(asked)
    copy.close()
    copy = Log.open(files, copy.directory, CONFIG, clean=True, now_ms=0)
    for offset in range(0, leader.end_offset, 3):
        assert copy.read(offset, 1).read() == leader.read(offset, 1).read()
        assert copy.offset_for_time(offset) == leader.offset_for_time(offset)
