"""What a start makes of torn, zeroed and garbled files, of wrong indexes, of a cut of the log."""

from __future__ import annotations

import random

import pytest

from tallymark.errors import CODES, KafkaError
from tallymark.log import Log, LogConfig
from tallymark.protocol.records.batch import encode_batch, split_batches
from tallymark.testing.memory_files import MemoryFiles

FOLDER = "/d/orders-0"
LOG = f"{FOLDER}/00000000000000000000.log"
CONFIG = LogConfig(segment_bytes=10**6, index_interval_bytes=100)


def batch(first: int, count: int = 2) -> bytearray:
    return bytearray(encode_batch([(None, b"v", (), first + n) for n in range(count)]))


def open_log(
    files: MemoryFiles, *, clean: bool = False, point: int = 0, config: LogConfig = CONFIG
) -> Log:
    return Log.open(files, FOLDER, config, clean=clean, now_ms=0, recovery_point=point)


def small_log(batches: int = 4, config: LogConfig = CONFIG) -> MemoryFiles:
    """Flushed, in epoch 0, then killed."""
    files = MemoryFiles()
    files.make_dirs(FOLDER)
    files.sync_dir("/")
    files.sync_dir("/d")
    log = open_log(files, config=config)
    log.start_epoch(0)
    for number in range(batches):
        log.append(batch(2 * number), 0, 0)
    log.flush()
    files.kill()
    return files


def offsets(log: Log) -> list[int]:
    found, at = list[int](), log.start_offset
    while at < log.end_offset:
        piece = log.read(at, 10**6)
        for each in split_batches(piece.read()):
            each.check_crc()
            found += [record.offset for record in each.records()]
        at = piece.next_offset
    return found


def assert_sound(log: Log) -> None:
    """What is there is a prefix, can be read and searched, and can be appended to."""
    end = log.end_offset
    assert offsets(log) == list(range(end))
    for offset in range(end):
        assert log.offset_for_time(offset) == (offset, offset)
    assert log.append(batch(end), 0, log.latest_epoch)[:2] == (end, end + 1)
    assert offsets(log) == list(range(end + 2))


def test_a_tail_torn_at_every_byte() -> None:
    whole = small_log().content(LOG)
    ends = [0]
    for each in split_batches(whole):
        ends.append(ends[-1] + each.header.size)
    for size in range(len(whole) + 1):
        files = small_log()
        files.overwrite(LOG, whole[:size])
        log = open_log(files)
        kept = max(n for n, end in enumerate(ends) if end <= size)
        assert log.end_offset == 2 * kept
        assert files.content(LOG) == whole[: ends[kept]]
        assert_sound(log)


@pytest.mark.parametrize("tail", ["zeros", "garbage", "old batch"])
def test_a_tail_that_is_not_a_batch_from_every_byte_on(tail: str) -> None:
    whole = small_log().content(LOG)
    rng = random.Random(7)
    size = len(whole) // 4
    for at in range(1, len(whole) + 1, 3):
        rest = len(whole) - at + 20
        added = {
            "zeros": bytes(rest),
            "garbage": rng.randbytes(rest),
            "old batch": whole[: rest if rest > 200 else 200],
        }[tail]
        files = small_log()
        files.overwrite(LOG, whole[:at] + added)
        log = open_log(files)
        same = next(
            n
            for n in range(5)
            if (whole[:at] + added)[: n * size + size] != whole[: n * size + size] or n == 4
        )
        assert log.end_offset == 2 * same  # zeros after a batch that ends with zeros complete it
        assert_sound(log)


def test_every_flipped_bit_cuts_there() -> None:
    """But in the leader epoch, which the CRC does not cover, and in the base offset, where a
    greater one is a gap as compaction leaves it."""
    whole = small_log(2).content(LOG)
    size = len(whole) // 2
    for at in range(size, 2 * size):
        if at < size + 8 or size + 12 <= at < size + 16:
            continue
        files = small_log(2)
        files.overwrite(LOG, whole[:at] + bytes([whole[at] ^ 0x04]) + whole[at + 1 :])
        log = open_log(files)
        assert log.end_offset == 2
        assert log.recovered is not None
        assert (log.recovered.verified, log.recovered.cut) == (size, size)


def test_garbage_that_claims_a_huge_batch_is_not_believed() -> None:
    files = small_log()
    whole = files.content(LOG)
    huge = bytearray(whole[: len(whole) // 4])
    huge[0:8] = (8).to_bytes(8, "big")
    huge[8:12] = (3 * 2**20).to_bytes(4, "big")
    files.overwrite(LOG, whole + huge + bytes(3 * 2**20))
    log = open_log(files)
    assert log.end_offset == 8
    assert_sound(log)


def test_a_large_batch_is_verified_in_pieces() -> None:
    config = LogConfig(max_message_bytes=10**7)
    files = small_log(config=config)
    log = open_log(files, config=config)
    log.append(bytearray(encode_batch([(None, bytes(3 * 2**20), (), 8)])), 0, 0)
    files.kill()
    assert open_log(files, config=config).end_offset == 9
    damaged = bytearray(files.content(LOG))
    damaged[-5] ^= 1
    files.overwrite(LOG, damaged)
    assert open_log(files, config=config).end_offset == 8


def test_newer_segments_go_with_the_cut() -> None:
    config = LogConfig(segment_bytes=200, index_interval_bytes=50)
    files = small_log(12, config)
    logs = [name for name in files.listdir(FOLDER) if name.endswith(".log")]
    assert len(logs) >= 5
    second = f"{FOLDER}/{logs[1]}"
    files.overwrite(second, files.content(second)[:-1])
    log = open_log(files, config=config)
    left = [name for name in files.listdir(FOLDER) if name.endswith((".log", ".index"))]
    assert [name for name in left if name.endswith(".log")] == logs[:2]
    assert all(name.split(".")[0] in logs[0] + logs[1] for name in left)
    assert log.end_offset == int(logs[2].split(".")[0]) - 2
    assert_sound(log)


def test_a_segment_that_is_lost_as_a_whole_leaves_no_hole() -> None:
    """A batch, a roll, a kill, a start, and the power fails: the folder had been synced (with the
    epoch checkpoint), the first segment had not. It came back empty and the second one stood there
    with offset 2: the log went on from 2, and offsets 0 and 1 could be neither read nor skipped."""
    files = small_log(0)
    log = open_log(files)
    log.start_epoch(1)
    log.append(batch(0), 0, 1)
    log.roll()
    log.start_epoch(2)
    files.lose_unsynced()
    again = open_log(files)
    assert (again.start_offset, again.end_offset) == (0, 0)
    assert_sound(again)


def test_below_the_recovery_point_nothing_is_read_again() -> None:
    """Older segments are trusted: damage in one of them is met by its reader, not by the start."""
    config = LogConfig(segment_bytes=200, index_interval_bytes=50)
    files = small_log(12, config)
    first = bytearray(files.content(LOG))
    first[-1] ^= 1
    files.overwrite(LOG, first)
    log = open_log(files, point=24, config=config)
    assert log.end_offset == 24
    assert log.recovered is not None
    assert log.recovered.first > 0
    assert log.recovered.cut == 0


def test_a_clean_start_verifies_nothing_unless_the_file_is_torn() -> None:
    files = small_log()
    log = open_log(files)
    log.close()
    assert open_log(files, clean=True).recovered is None
    files.overwrite(LOG, files.content(LOG)[:-1])
    torn = open_log(files, clean=True)
    assert torn.recovered is not None
    assert torn.end_offset == 6


# --- indexes


def all_damages(data: bytes) -> list[bytes | None]:
    flipped = [data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :] for at in range(len(data))]
    return [None, b"", data[:-1], data[:-8], data[12:], data + data, bytes(len(data)), *flipped]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_missing_or_wrong_index_is_built_again(suffix: str) -> None:
    config = LogConfig(segment_bytes=700, index_interval_bytes=100)
    files = small_log(12, config)
    open_log(files, config=config).close()
    path = LOG.removesuffix("log") + suffix
    good = files.content(path)
    for number, data in enumerate(all_damages(good)):
        files.remove(path) if data is None else files.overwrite(path, data)
        log = open_log(files, clean=True, config=config)
        assert offsets(log) == list(range(24))
        for offset in range(0, 24, 3):
            assert (
                split_batches(log.read(offset, 1).read())[0].header.base_offset == offset // 2 * 2
            )
            if suffix == "index" or number < 5:  # a wrong time that fits in is not noticed
                assert log.offset_for_time(offset) == (offset, offset)
        log.abandon()
        files.overwrite(path, good)


def test_leftovers_of_a_crash_are_swept_up() -> None:
    files = small_log()
    for name in (
        "00000000000000000099.index",
        "00000000000000000099.timeindex",
        "x.tmp",
        "y.deleted",
    ):
        files.overwrite(f"{FOLDER}/{name}", b"?")
    files.overwrite(f"{FOLDER}/notes.txt", b"somebody's")
    open_log(files).close()
    names = files.listdir(FOLDER)
    assert "notes.txt" in names
    assert not [n for n in names if "99." in n or n.endswith((".tmp", ".deleted"))]


def test_damage_in_an_old_segment_is_an_error_not_a_hole() -> None:
    config = LogConfig(segment_bytes=400, index_interval_bytes=50)
    files = small_log(12, config)
    open_log(files, config=config).close()
    data = bytearray(files.content(LOG))
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    files.overwrite(LOG, data)
    log = open_log(files, clean=True, config=config)
    assert split_batches(log.read(0, 10).read())
    with pytest.raises(KafkaError) as refusal:
        log.read(7, 10)
    assert refusal.value.code == CODES["CORRUPT_MESSAGE"]
    assert split_batches(log.read(20, 10).read())[0].header.base_offset == 20


# --- a power failure seen by readers


@pytest.mark.parametrize("seed", range(12))
def test_a_cut_after_the_recovery_point_is_told_by_the_epoch(seed: int) -> None:
    """The broker dies; the newest file is cut at a random byte after the recovery point, as a power
    failure does. The next epoch begins at the cut, so whoever has read further learns of it."""
    rng = random.Random(seed)
    files = small_log(4)
    flushed = len(files.content(LOG))
    log = open_log(files, point=8)
    log.start_epoch(3)
    for number in range(6):
        log.append(batch(8 + 2 * number), 0, 3)
    reader_at = log.end_offset
    files.kill()

    whole = files.content(LOG)
    files.overwrite(LOG, whole[: rng.randrange(flushed, len(whole))])
    again = open_log(files, point=8)
    cut_at = again.end_offset
    assert 8 <= cut_at < reader_at
    assert again.next_epoch == 4
    again.start_epoch(4)
    again.append(batch(100, 40), 0, 4)  # others stand there now

    epoch, end = again.end_offset_for_epoch(3)
    assert end == cut_at < reader_at
    assert epoch == (3 if cut_at > 8 else 0)
    again.close()
    assert open_log(files, clean=True).end_offset_for_epoch(3) == (epoch, end)


def test_an_epoch_that_was_cut_is_not_used_again() -> None:
    """Epoch 3 wrote 8..9 and both were cut. Were 3 the next epoch once more, a reader of the old
    records would be told that epoch 3 goes on."""
    files = small_log(4)
    flushed = files.content(LOG)
    log = open_log(files, point=8)
    log.start_epoch(3)
    log.append(batch(8), 0, 3)
    files.kill()
    files.overwrite(LOG, flushed)
    for _ in range(2):  # also when the broker dies again at once
        again = open_log(files, point=8)
        assert again.latest_epoch == 0
        assert again.next_epoch == 4
        files.kill()


def test_epochs_lost_from_the_checkpoint_are_read_from_the_batches() -> None:
    files = small_log(4)
    log = open_log(files)
    log.start_epoch(3)
    log.append(batch(8), 0, 3)
    files.kill()
    files.remove(f"{FOLDER}/leader-epoch-checkpoint")
    again = open_log(files)
    assert again.end_offset_for_epoch(0) == (0, 8)
    assert again.end_offset_for_epoch(3) == (3, 10)


def test_a_cut_to_nothing_leaves_a_good_time_index(caplog: pytest.LogCaptureFixture) -> None:
    """The cut saved the index of the now empty segment with the greatest timestamp of no batch: an
    entry for offset 0, and the first batch's own entry behind it was "not ascending"."""
    files = small_log(0)
    files.overwrite(LOG, b"torn")
    log = open_log(files)
    log.append(bytearray(encode_batch([(None, b"v", (), 5)])), 0, 0)
    log.close()
    again = open_log(files, clean=True)
    assert again.offset_for_time(5) == (0, 5)
    assert "building the indexes again" not in caplog.text
