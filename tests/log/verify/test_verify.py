"""The checker of log files finds every damaged byte, and calls nothing damage that is none."""

from __future__ import annotations

import json
import os
import tracemalloc
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crc32c
import pytest
from click.testing import CliRunner, Result
from hostile_batches import bomb

from tallymark.cli.admin.verify_log import command
from tallymark.errors import UserError
from tallymark.log import Log, LogConfig, LogManager, OsFiles
from tallymark.log.disk.kept_offsets import StartOffsets
from tallymark.log.disk.partition_folder import LogKey
from tallymark.log.progress import Progress
from tallymark.log.verify.verify import LogReport, Surroundings, verify_log
from tallymark.protocol.records.batch import encode_batch, place_batch
from tallymark.protocol.records.compiled import checking
from tallymark.testing.memory_files import MemoryFiles


@pytest.fixture(params=["pure", "compiled"], autouse=True)
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """Records are checked by the walk, or first by the compiled loop."""
    if request.param == "compiled":
        pytest.importorskip("numba")
        checking.warm()
        assert checking.KERNEL.wait(250)
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checking.KERNEL, "_compiled", None)
        yield


FOLDER = "/d/orders-0"
KEY = LogKey("orders", 0)
FIRST = f"{FOLDER}/{0:020d}"
CONFIG = LogConfig(segment_bytes=250, index_interval_bytes=100)


def batch(first: int, count: int = 2, **producer: Any) -> bytearray:
    records = [(b"k", b"v", (), first + n) for n in range(count)]
    return bytearray(encode_batch(records, compression="none", **producer))


def stopped_log(batches: int = 12) -> MemoryFiles:
    files = MemoryFiles()
    files.make_dirs(FOLDER)
    log = Log.open(files, FOLDER, CONFIG, clean=False, now_ms=0)
    log.start_epoch(3)
    for number in range(batches):
        log.append(
            batch(2 * number, producer_id=1, producer_epoch=0, base_sequence=2 * number), 0, 3
        )
    log.close()
    return files


def check(
    files: MemoryFiles,
    *,
    clean: bool = True,
    flushed: int = 0,
    compacted: bool = False,
    deep: bool = False,
) -> LogReport:
    around = Surroundings(
        clean, {KEY: flushed}, {KEY: 0} if compacted else {}, StartOffsets(files, "/d")
    )
    return verify_log(files, FOLDER, around, deep=deep, pause=lambda _: None)


def written(*batches: bytearray, epoch: int = 0, offsets: list[int] | None = None) -> MemoryFiles:
    """A log of one segment without indexes that holds just these."""
    files, at = MemoryFiles(), 0
    files.make_dirs(FOLDER)
    data = b""
    for number, each in enumerate(batches):
        at = offsets[number] if offsets else at
        place_batch(each, 0, at, epoch)
        data += each
        at += int.from_bytes(each[23:27], "big") + 1
    files.overwrite(f"{FIRST}.log", data)
    return files


def test_a_good_log() -> None:
    report = check(stopped_log(), deep=True)
    assert report.ok
    assert (report.start_offset, report.end_offset, report.records) == (0, 24, 24)
    assert (report.batches, report.segments > 2, report.notes) == (12, True, [])


def test_every_flipped_bit_is_found() -> None:
    """In the newest segment and in an old one, but for a leader epoch that is only greater."""
    files = stopped_log(4)
    for name in files.listdir(FOLDER):
        if not name.endswith((".log", "index")):
            continue
        path = f"{FOLDER}/{name}"
        good = files.content(path)
        for at in range(len(good)):
            files.overwrite(path, good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
            report = check(files)
            last_epoch = len(good) - at if name.endswith(".log") else 0
            if not report.ok or (last_epoch and good[at] ^ 0x10 > good[at]):
                continue
            raise AssertionError((name, at))
        files.overwrite(path, good)
    assert check(files).ok


def test_every_cut_is_found() -> None:
    files = stopped_log(6)
    for name in files.listdir(FOLDER):
        path = f"{FOLDER}/{name}"
        good = files.content(path)
        for size in range(len(good) if name.endswith(".log") else 0):
            files.overwrite(path, good[:size])
            whole = size % (len(good) // 6) == 0
            assert not check(files).ok or whole
        files.overwrite(path, good)


def test_the_torn_end_after_a_crash_is_no_damage_unless_it_was_flushed() -> None:
    files = stopped_log()
    newest = max(name for name in files.listdir(FOLDER) if name.endswith(".log"))
    path = f"{FOLDER}/{newest}"
    files.overwrite(path, files.content(path)[:-5])
    told = check(files, clean=False, flushed=20)
    assert told.ok
    assert "no whole batch at position" in told.notes[0]
    assert not check(files, clean=False, flushed=24).ok
    assert not check(files, clean=True).ok


def test_missing_indexes_are_told() -> None:
    files = stopped_log()
    files.remove(f"{FIRST}.index")
    report = check(files)
    assert report.ok
    assert "00.index is missing" in report.notes[0]


@pytest.mark.parametrize(
    ("files", "damage"),
    [
        (lambda: written(batch(0), batch(2), offsets=[0, 5]), "offsets 2 to 4 are missing"),
        (lambda: written(batch(0), batch(2), offsets=[0, 1]), "offset 1 once more, 2 is next"),
        (lambda: written(batch(0), offsets=[4]), "offsets 0 to 3 are missing"),
        (
            lambda: written(
                batch(0, producer_id=7, producer_epoch=0, base_sequence=0),
                batch(2, producer_id=7, producer_epoch=0, base_sequence=3),
            ),
            "sequence 3, 2 is next",
        ),
        (
            lambda: written(
                batch(0, producer_id=7, producer_epoch=0, base_sequence=0),
                batch(2, producer_id=7, producer_epoch=0, base_sequence=0),
            ),
            "sequence 0 once more, 2 is next",
        ),
        (
            lambda: written(
                batch(0, producer_id=7, producer_epoch=4, base_sequence=0),
                batch(2, producer_id=7, producer_epoch=3, base_sequence=0),
            ),
            "epoch 3 after epoch 4",
        ),
    ],
)
def test_batches_that_do_not_follow(files: object, damage: str) -> None:
    assert callable(files)
    report = check(files())
    assert any(damage in text for text in report.damage), report.damage


def test_compaction_leaves_gaps() -> None:
    files = written(
        batch(0, producer_id=7, producer_epoch=0, base_sequence=0),
        batch(9, producer_id=7, producer_epoch=0, base_sequence=8),
        offsets=[3, 9],
    )
    assert check(files, compacted=True).ok
    assert not check(files).ok


def test_an_epoch_that_goes_back() -> None:
    first, second = batch(0), batch(2)
    files = written(first, second)
    data = bytearray(files.content(f"{FIRST}.log"))
    data[12:16] = (9).to_bytes(4, "big")
    files.overwrite(f"{FIRST}.log", data)
    assert "leader epoch 0 after 9" in check(files).damage[0]


def test_deep_looks_at_records() -> None:
    data = batch(0)
    data[35:43] = (0).to_bytes(8, "big")  # the greatest timestamp is 1
    data[17:21] = crc32c.crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    files = written(data)
    assert check(files).ok
    assert "the timestamp 1, above 0" in check(files, deep=True).damage[0]
    data[61:] = b"\xff" * (len(data) - 61)
    data[17:21] = crc32c.crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    assert "cannot be read" in check(written(data), deep=True).damage[0]


def test_what_a_running_broker_changes_meanwhile_is_looked_at_again() -> None:
    files = stopped_log()
    newest = f"{FOLDER}/{max(n for n in files.listdir(FOLDER) if n.endswith('.log'))}"
    whole = files.content(newest)
    files.overwrite(newest, whole[:-5])
    around = Surroundings(False, {KEY: 24}, {}, StartOffsets(files, "/d"))
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        files.overwrite(newest, whole)

    report = verify_log(files, FOLDER, around, pause=pause)
    assert (report.ok, report.notes, len(pauses)) == (True, [], 1)


def test_segments_that_retention_takes_meanwhile_leave_no_hole() -> None:
    files = stopped_log()
    names = [name for name in files.listdir(FOLDER) if name.endswith(".log")]
    assert len(names) > 3
    steps: list[int] = []

    def step(size: int) -> None:
        """When the first segment is done, the first three go."""
        if not steps:
            for name in names[:3]:
                files.remove(f"{FOLDER}/{name}")
        steps.append(size)

    around = Surroundings(True, {}, {}, StartOffsets(files, "/d"))
    report = verify_log(files, FOLDER, around, step=step, pause=lambda _: None)
    assert report.damage == []
    assert len(report.notes) == 2
    assert report.end_offset == 24


def test_progress_is_told_every_two_seconds() -> None:
    now, told = [0.0], list[str]()
    progress = Progress(10_000, "logs", told.append, clock=lambda: now[0])
    for _ in range(20):
        now[0] += 0.25
        progress.step(250)
    assert told == ["2,000 of 10,000 logs", "4,000 of 10,000 logs"]


# --- the command


def data_dir(tmp_path: Path) -> str:
    manager = LogManager.open(OsFiles(), [tmp_path], CONFIG, broker_id=0, now_ms=0, cluster_id="c")
    for number in range(3):
        log = manager.create("orders", number, uuid.UUID(int=1), 0)
        log.append(batch(0), 0, -1)
    manager.close()
    return str(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def test_command_on_a_good_directory(tmp_path: Path) -> None:
    result = run(data_dir(tmp_path))
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].startswith("orders-0: ok, offsets 0 to 2, 2 records in 1 batches, 1 segments")
    assert lines[-1].startswith("3 logs, 0 damaged, 6 records")
    one = run(os.path.join(tmp_path, "orders-1"))
    assert one.output.splitlines()[-1].startswith("1 log, 0 damaged, 2 records")


@pytest.mark.slow
def test_command_on_damage(tmp_path: Path) -> None:
    folder = data_dir(tmp_path)
    path = tmp_path / "orders-1" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    result = run(folder)
    assert result.exit_code == 1
    assert "orders-1: DAMAGED" in result.output
    assert "the CRC does not hold" in result.output
    found = json.loads(run(folder, "--json").output)
    assert [each["ok"] for each in found["logs"]] == [True, False, True]
    assert found["ok"] is False
    assert path.read_bytes() == data


def test_command_on_what_is_no_log(tmp_path: Path) -> None:
    for path in (str(tmp_path), str(tmp_path / "none")):
        result = run(path)
        assert isinstance(result.exception, UserError)


def test_deep_unpacks_no_more_than_readers_do() -> None:
    """A record of 250 MB in 8 kB: the checker took 1 GB, and said that all was well, though no
    collector reads it."""
    files = written(bytearray(bomb(250)), batch(1))
    tracemalloc.start()
    report = check(files, deep=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000
    (told,) = report.damage
    assert "offset 0: its records cannot be read: compressed records exceed the size" in told
    assert report.records == 3


def test_a_search_by_time_unpacks_no_more_than_readers_do() -> None:
    """ListOffsets by a time, of a log with a bomb in it: the broker took 1 GB."""
    files = MemoryFiles()
    files.make_dirs(FOLDER)
    log = Log.open(files, FOLDER, LogConfig(), clean=False, now_ms=0)
    for first in range(0, 4, 2):
        log.append(batch(first), 0, 3)
    log.append(bytearray(bomb(250, timestamp=50)), 0, 3)
    log.append(batch(90), 0, 3)
    tracemalloc.start()
    found = [log.offset_for_time(at) for at in (40, 60)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [one.offset for one in found if one is not None] == [4, 5]
    assert peak < 5_000_000
