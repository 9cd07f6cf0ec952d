"""Which logs are compacted when, which segments together, and how fast."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tallymark.log import LogConfig
from tallymark.log.compaction.checkpoint import FILE_NAME, read_clean_points, write_clean_points
from tallymark.log.compaction.plan import ClosedSegment, assess, group_segments
from tallymark.log.compaction.task import CompactionTask
from tallymark.log.compaction.throttle import Throttle
from tallymark.log.compaction.worker import Steps
from tallymark.log.disk.partition_folder import LogKey
from tallymark.testing.memory_files import MemoryFiles

CONFIG = LogConfig(compact=True)
SEGMENTS = [
    ClosedSegment(0, 10, 100, 1000, 1900),
    ClosedSegment(10, 20, 100, 2000, 2900),
    ClosedSegment(20, 30, 200, 3000, 3900),
]


@pytest.mark.parametrize(
    ("cleaned_until", "clean", "dirty", "ratio"),
    [(-1, 0, 400, 1.0), (0, 0, 400, 1.0), (10, 100, 300, 0.75), (20, 200, 200, 0.5),
     (15, 100, 300, 0.75), (30, 400, 0, 0.0), (31, 0, 400, 1.0)],
)  # fmt: skip
def test_the_dirty_ratio(cleaned_until: int, clean: int, dirty: int, ratio: float) -> None:
    """A clean point behind the end is of a log that was cut since: nothing counts as clean."""
    dirt = assess(SEGMENTS, cleaned_until, 30, CONFIG, 9999)
    assert (dirt.clean_bytes, dirt.dirty_bytes, dirt.ratio) == (clean, dirty, ratio)
    assert dirt.worth_it(CONFIG) == (ratio >= 0.5)


def test_what_is_not_on_the_disk_is_left_alone() -> None:
    assert assess(SEGMENTS, -1, 29, CONFIG, 9999).end == 20
    assert assess(SEGMENTS, -1, 9, CONFIG, 9999).dirty_bytes == 0
    assert assess([], -1, 0, CONFIG, 9999).worth_it(CONFIG) is False


def test_young_records_are_left_alone() -> None:
    """The compaction stops at the first dirty segment that has one; clean ones may be cleaned."""
    config = LogConfig(min_compaction_lag_ms=500)
    assert assess(SEGMENTS, -1, 30, config, 3399).end == 10
    assert assess(SEGMENTS, -1, 30, config, 3400).end == 20
    assert assess(SEGMENTS, 20, 30, config, 3300).end == 20


def test_a_record_that_waits_too_long_is_compacted_whatever_the_ratio() -> None:
    config = LogConfig(max_compaction_lag_ms=5000, min_cleanable_dirty_ratio=1.0)
    dirt = assess(SEGMENTS, 20, 30, config, 8000)
    assert (dirt.overdue_ms, dirt.worth_it(config)) == (0, False)
    dirt = assess(SEGMENTS, 20, 30, config, 8001)
    assert (dirt.overdue_ms, dirt.worth_it(config)) == (1, True)
    assert assess(SEGMENTS, 30, 30, config, 99_999).worth_it(config) is False


def test_neighbours_are_grouped_up_to_a_segments_size() -> None:
    def bases(segment_bytes: int) -> list[list[int]]:
        groups = group_segments(SEGMENTS, segment_bytes)
        return [[each.base_offset for each in group] for group in groups]

    assert bases(400) == [[0, 10, 20]]
    assert bases(399) == [[0, 10], [20]]
    assert bases(100) == [[0], [10], [20]]
    assert bases(1) == [[0], [10], [20]], "one that is too large is cleaned alone"


def test_a_group_never_spans_more_offsets_than_an_index_holds() -> None:
    far = [ClosedSegment(0, 5, 1), ClosedSegment(5, 2**31, 1), ClosedSegment(2**31, 2**31 + 1, 1)]
    assert [len(group) for group in group_segments(far, 1000)] == [2, 1]


def test_clean_points_are_kafkas_text() -> None:
    files = MemoryFiles()
    files.make_dirs("/d")
    points = {LogKey("orders", 1): 12, LogKey("orders", 0): 4711}
    write_clean_points(files, "/d", points)
    assert files.content(f"/d/{FILE_NAME}") == b"0\n2\norders 0 4711\norders 1 12\n"
    assert FILE_NAME == "cleaner-offset-checkpoint"
    assert read_clean_points(files, "/d") == points
    files.overwrite(f"/d/{FILE_NAME}", b"0\n3\norders 0 1\n")
    assert read_clean_points(files, "/d") == {}


def test_a_task_goes_through_a_pipe() -> None:
    task = CompactionTask("/d/t-0", tuple(SEGMENTS), 10, 1, 2, 3, 4, 5, 6, {7: 8})
    assert CompactionTask.from_json(json.loads(json.dumps(task.to_json()))) == task


def test_a_worker_answers_whatever_happens(tmp_path: Path) -> None:
    steps = Steps(MemoryFiles())
    task = CompactionTask("/nowhere", tuple(SEGMENTS), 0, 1, 2, 3, 4, 5).to_json()
    assert "FileNotFoundError" in steps.answer({"do": "begin", "task": task})["error"]
    assert (
        "AssertionError"
        in Steps(MemoryFiles()).answer({"do": "next", "directory": "/d/t-0"})["error"]
    )
    assert "KeyError" in steps.answer({"do": "begin", "task": {}})["error"]


def test_the_throttle_spends_a_rate() -> None:
    now = 0.0
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    throttle = Throttle(1000, lambda: now, sleep)
    for _ in range(500):
        throttle.spend(10)
    assert 4.9 < now <= 5.0
    assert len(slept) < 120, "not one sleep for every batch"
    Throttle(-1, lambda: now, sleep).spend(10**9)
    assert now <= 5.0
