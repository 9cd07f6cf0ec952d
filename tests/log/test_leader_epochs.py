"""The epoch checkpoint against a naive list of records with their epochs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import KafkaError
from tallymark.log.config import LogConfig
from tallymark.log.disk.checkpoint import read_checkpoint
from tallymark.log.leader_epochs import LeaderEpochs
from tallymark.log.log import Log
from tallymark.protocol.records.writer import encode_batch
from tallymark.testing.memory_files import MemoryFiles

PATH = "/d/leader-epoch-checkpoint"


def fresh() -> tuple[MemoryFiles, LeaderEpochs]:
    files = MemoryFiles()
    files.make_dirs("/d")
    return files, LeaderEpochs(files, "/d")


def test_the_file_is_kafkas() -> None:
    files, epochs = fresh()
    epochs.assign(0, 0)
    epochs.assign(3, 4711)
    assert files.read(PATH) == b"0\n2\n0 0\n3 4711\n"
    assert LeaderEpochs(files, "/d").entries == ((0, 0), (3, 4711))


def test_an_epoch_without_records_makes_way() -> None:
    _, epochs = fresh()
    epochs.assign(0, 0)
    epochs.assign(2, 10)
    epochs.assign(3, 10)
    assert epochs.entries == ((0, 0), (3, 10))


def test_an_older_epoch_is_fenced() -> None:
    _, epochs = fresh()
    epochs.assign(2, 0)
    epochs.assign(2, 5)
    assert epochs.entries == ((2, 0),)
    with pytest.raises(KafkaError, match="FENCED_LEADER_EPOCH"):
        epochs.assign(1, 9)


def test_an_append_does_not_wait_for_the_disk_because_its_epoch_is_new() -> None:
    """A leader's first record in an epoch held up every other partition of the broker: the epoch
    was written beside it, with two syncs, in the event loop."""
    files, epochs = fresh()
    epochs.assign(0, 0)
    before = files.read(PATH)
    files.break_disk("/d")
    epochs.note(1, 5)
    assert (epochs.latest, epochs.noted, epochs.highest) == (1, 1, 1)
    assert epochs.end_offset_for(0, 9) == (0, 5)
    with pytest.raises(OSError, match="Input/output"):
        epochs.save()
    assert before == b"0\n1\n0 0\n"


def test_a_save_that_failed_is_done_by_the_next_one() -> None:
    files, epochs = fresh()
    epochs.note(0, 0)
    files.fail_next_sync(PATH)
    with pytest.raises(OSError, match="Input/output"):
        epochs.save()
    epochs.save()
    assert LeaderEpochs(files, "/d").entries == ((0, 0),)
    files.fail_next_sync(PATH)
    epochs.save()  # there is nothing to save


def test_a_cut_alone_is_not_saved() -> None:
    """Were the epoch gone from the file, a start after a kill would use its number again."""
    files, epochs = fresh()
    epochs.assign(0, 0)
    epochs.assign(4, 10)
    epochs.cut_end(10)
    epochs.save()
    assert LeaderEpochs(files, "/d").highest == 4


def test_the_flush_saves_the_epochs_of_what_it_flushes() -> None:
    """A recovery reads the epochs of records that were not flushed from the records themselves, and
    of those that were from the file."""
    files = MemoryFiles()
    files.make_dirs("/d/t-0")
    files.sync_dir("/")
    files.sync_dir("/d")
    log = Log.open(files, "/d/t-0", LogConfig(), clean=True, now_ms=0)
    for epoch in (3, 3, 5):
        log.append(encode_batch([(None, b"v", (), 1)]), 0, epoch)
    job = log.begin_flush()
    assert job is not None
    log.append(encode_batch([(None, b"v", (), 1)]), 0, 8)
    job.run()
    log.finish_flush(job)
    point = log.recovery_point
    files.kill()
    files.lose_unsynced()
    again = Log.open(files, "/d/t-0", LogConfig(), clean=False, now_ms=0, recovery_point=point)
    assert point == 3
    assert [again.end_offset_for_epoch(epoch) for epoch in (3, 5)] == [(3, 2), (5, 3)]


@pytest.mark.parametrize(
    "text", [b"", b"1\n0\n", b"0\n3\n0 0\n", b"0\n1\n0 x\n", b"0\n1\n0\n", b"\xff\xfe", b"0\nx\n"]
)
def test_a_damaged_file_counts_as_none(text: bytes, caplog: pytest.LogCaptureFixture) -> None:
    files, _ = fresh()
    files.overwrite(PATH, text)
    assert LeaderEpochs(files, "/d").entries == ()
    assert "damaged" in caplog.text
    assert read_checkpoint(files, "/d/none", 2) == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=8),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_end_offsets_are_those_of_the_records(
    steps: list[tuple[int, int]], cut: int, start: int
) -> None:
    """``steps``: go on in an epoch that is so much newer, write so many records."""
    files, epochs = fresh()
    records: list[int] = []  # the epoch of each offset
    epoch = 0
    for newer, count in steps:
        epoch += newer
        epochs.assign(epoch, len(records))
        records += [epoch] * count
    cut = min(cut, len(records))
    epochs.cut_end(cut)
    start = min(start, cut)
    epochs.cut_start(start)
    epochs.assign(epoch + 1, cut)
    kept = records[start:cut]
    for asked in range(epoch + 1):
        known, end = epochs.end_offset_for(asked, cut)
        assert end == start + sum(1 for each in kept if each <= asked)
        assert known == max((each for each in kept if each <= asked), default=asked)
    assert epochs.end_offset_for(epoch + 1, cut + 5) == (epoch + 1, cut + 5)
    assert LeaderEpochs(files, "/d").entries == epochs.entries
