"""Leader epochs where their checkpoint is missing or damaged: they are read from the batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.log import Log, LogConfig
from tallymark.log.leader_epochs import FILE_NAME
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.memory_files import MemoryFiles

FOLDER = "/d/orders-0"
PATH = f"{FOLDER}/{FILE_NAME}"
CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100, retention_ms=-1)


def new_files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_dirs(FOLDER)
    files.sync_dir("/")
    files.sync_dir("/d")
    return files


def opened(files: MemoryFiles, *, clean: bool = True, recovery_point: int = 0) -> Log:
    return Log.open(files, FOLDER, CONFIG, clean=clean, now_ms=0, recovery_point=recovery_point)


def append(log: Log, epoch: int) -> None:
    log.append(bytearray(encode_batch([(None, b"value", (), 1)])), 0, epoch)


def filled(files: MemoryFiles, epochs: list[int]) -> Log:
    """One record in each of these epochs, several segments."""
    log = opened(files)
    for epoch in epochs:
        append(log, epoch)
    return log


def ends(log: Log) -> list[tuple[int, int]]:
    return [log.end_offset_for_epoch(epoch) for epoch in range(-1, log.latest_epoch + 2)]


def remove(files: MemoryFiles) -> None:
    files.remove(PATH)


def overwrite(text: bytes) -> Callable[[MemoryFiles], None]:
    return lambda files: files.overwrite(PATH, text)


LOST = pytest.mark.parametrize(
    "lose",
    [
        remove,
        overwrite(b""),
        overwrite(b"0\n0\n"),
        overwrite(b"0\n3\n0 0\n"),
        overwrite(b"1\n1\n0 0\n"),
        overwrite(b"0\n1\n0 zero\n"),
        overwrite(b"\xff\x00" * 50),
    ],
    ids=["removed", "empty", "without entries", "torn", "another version", "words", "garbage"],
)


@LOST
def test_after_a_clean_stop_they_are_read_from_the_batches(
    lose: Callable[[MemoryFiles], None], caplog: pytest.LogCaptureFixture
) -> None:
    """After a crash a recovery reads the epochs of what it verifies; after a clean stop nothing is
    verified. The log then knew no epoch: each follower was told "undefined" and cut its log to its
    high watermark, and the next epoch was 0 again, which consumers had read records of."""
    files = new_files()
    log = filled(files, [2] * 9 + [3, 5] + [5] * 9 + [8])
    before = ends(log)
    log.close()
    lose(files)
    again = opened(files)
    assert (again.recovered, again.latest_epoch, again.next_epoch) == (None, 8, 9)
    assert ends(again) == before
    assert "leader epochs" in caplog.text
    append(again, 8)  # the epoch goes on, and the flush writes the file
    again.close()
    assert files.read(PATH) == b"0\n4\n2 0\n3 9\n5 10\n8 20\n"


@LOST
def test_so_they_are_below_the_recovery_point_after_a_crash(
    lose: Callable[[MemoryFiles], None],
) -> None:
    files = new_files()
    log = filled(files, [0] * 9 + [3] * 6)
    log.flush()
    point = log.recovery_point
    for epoch in (3, 4):
        append(log, epoch)
    before = ends(log)
    files.kill()
    lose(files)
    again = opened(files, clean=False, recovery_point=point)
    assert again.recovered is not None
    assert again.recovered.first > 9
    assert ends(again) == before


def test_deleted_records_have_no_epochs() -> None:
    files = new_files()
    log = filled(files, [0] * 9 + [3] * 6 + [4])
    log.delete_records(11)
    before = ends(log)
    log.close()
    files.remove(PATH)
    again = Log.open(files, FOLDER, CONFIG, clean=True, now_ms=0)
    assert again.start_offset == 11
    assert ends(again) == before


def test_a_new_log_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    opened(new_files())
    assert caplog.text == ""


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=8))
def test_they_are_those_that_the_checkpoint_had(steps: list[tuple[int, int]]) -> None:
    """``steps``: go on in an epoch that is so much newer, write so many records."""
    files = new_files()
    epoch, written = 0, list[int]()
    for newer, count in steps:
        epoch += newer
        written += [epoch] * count
    log = filled(files, written)
    before = ends(log)
    log.close()
    files.remove(PATH)
    assert ends(opened(files)) == before
