"""Rows of a table that are counted again: what differs, and what the audit gets in place of what
the commits said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.client.producing.stamps import STAMP_HEADER, Stamp, encode_stamp
from tallymark_audit.events.claim_book import fold
from tallymark_audit.judge.loaded import Loaded
from tallymark_audit.model.cells import Block, CellKey
from tallymark_audit.reporters.lake import LakeCommit, LakeTally
from tallymark_audit.reporters.lake.commit_events import (
    TableIdentity,
    events_of,
    recounted_events,
)
from tallymark_spark_jobs.counting.intervals import levels
from tallymark_spark_jobs.lake.storage import Storage
from tallymark_spark_jobs.lake.table import DataFile, Place
from tallymark_spark_jobs.load.checking.differences import Brought, CellDifference, differences
from tallymark_spark_jobs.load.checking.table_rows import Counting, count_rows
from tallymark_spark_jobs.load.writing.rows import RAW_ROWS

HOUR = 1_769_846_400_000
W = 60_000
PLACE = Place("views", "2026-01-31", "08")
KEY = CellKey("views", 0, HOUR, "web-1", "ab" * 8)
BARE = CellKey("views", 0, HOUR, "", "")
WHO = TableIdentity("dc1/views", "first-job", 5, "here", W)


def tally(sequences: Sequence[int], key: CellKey = KEY) -> LakeTally:
    """Of rows with these sequences, each as often as it is named."""
    told = levels([(one, one) for one in sequences])
    ranges, again = (told[0], told[1:]) if told and key.stamped else ((), ())
    return LakeTally(key, len(sequences), ranges, again=again)


def difference(
    loads: Sequence[int], there: Sequence[int], repaired: Sequence[int] = (), key: CellKey = KEY
) -> CellDifference | None:
    parts = [Brought(1, tally(loads, key)), Brought(4, tally(repaired, key), repair=True)]
    found = differences({key: parts}, {key: tally(there, key)} if there else {}, 4).cells
    return found[0] if found else None


@pytest.mark.parametrize("key", [KEY, BARE])
def test_rows_that_are_missing_and_too_many(key: CellKey) -> None:
    assert difference([1, 2, 3], [1, 2, 3], key=key) is None
    assert difference([1, 2, 3], [1, 3], key=key) == CellDifference(key, missing=1)
    assert difference([1, 2, 3], [1, 2, 3, 3], key=key) == CellDifference(key, extra=1)
    assert difference([1, 2, 3], [], key=key) == CellDifference(key, missing=3)


def test_a_loss_and_a_copy_do_not_cancel() -> None:
    assert difference([1, 2, 3], [1, 3, 3]) == CellDifference(KEY, missing=1, extra=1)
    assert difference([1, 2, 2], [1, 2]) == CellDifference(KEY, missing=1)


def test_a_row_that_was_lost_and_loaded_again_is_as_it_should_be() -> None:
    """The commits name it twice: the load, and the repair after the loss."""
    assert difference([1, 2, 3], [1, 2, 3], repaired=[2]) is None
    assert difference([1, 3], [1, 2, 3], repaired=[2]) is None  # the load had lost it
    assert difference([1, 2, 2], [1, 2, 2], repaired=[2]) is None  # one of two copies
    assert difference([1, 2, 3], [1, 3], repaired=[2]) == CellDifference(KEY, missing=1)
    assert difference([1, 2], [1, 2, 3, 3], repaired=[3]) == CellDifference(KEY, extra=1)


def test_other_contents_of_as_many_rows() -> None:
    def of(content: int) -> LakeTally:
        return LakeTally(KEY, 2, ((0, 1),), blocks=(Block(0, 2, content),))

    same, other = (
        differences({KEY: [Brought(1, of(7))]}, {KEY: of(content)}, 1) for content in (7, 8)
    )
    assert same.cells == []
    assert same.parts == {}
    assert other.cells == [CellDifference(KEY, changed=1)]


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=3),
    st.lists(st.integers(0, 9), max_size=20),
)
def test_after_a_recount_the_audit_has_what_is_there(
    commits: list[list[int]], there: list[int]
) -> None:
    """Whatever the commits said, and in whatever order of the reports of the recount."""
    brought = [Brought(version, tally(one)) for version, one in enumerate(commits) if one]
    found = differences({KEY: brought}, {KEY: tally(there)} if there else {}, len(commits) - 1)
    events = [
        event
        for (before, _), one in zip(
            pairwise((-1, *range(len(commits)))), brought_commits(commits), strict=True
        )
        for event in events_of(WHO, one, before)
    ]
    parts = [LakeCommit(version, 10, tuple(some)) for version, some in found.parts.items()]
    news = recounted_events(WHO, parts, len(commits) - 1, 99)
    book = fold([*events, *news, *news])
    rows = Loaded.of(book.loaded({WHO.reporter})).cells.get(KEY.window, {}).get(KEY)
    expected = Counter(there)
    assert (rows.count if rows else 0) == expected.total()
    held = rows.ranges if rows else ()
    assert {one for first, last in held for one in range(first, last + 1)} == set(expected)
    told = Counter(one for commit in commits for one in commit)
    assert bool(found.parts) == (told != expected)
    assert fold([*events, *news]).reporters == fold(events).reporters


def brought_commits(commits: Sequence[Sequence[int]]) -> list[LakeCommit]:
    return [
        LakeCommit(version, 10, (tally(one),) if one else ()) for version, one in enumerate(commits)
    ]


def test_what_was_told_once_is_told_when_it_is_right_again() -> None:
    """A file came back from a copy: the audit would have called its rows lost for ever."""
    right = {KEY: [Brought(1, tally([1, 2]))]}, {KEY: tally([1, 2])}, 1
    assert differences(*right).parts == {}
    again = differences(*right, told=[KEY])
    assert again.parts == {1: [tally([1, 2])]}
    assert again.told == set()


# -- the files ------------------------------------------------------------------------------------


def write(folder: Path, name: str, rows: Sequence[tuple[int, int | None, int]]) -> DataFile:
    """A file of (partition, sequence or None, ms) at offsets from 0 on."""
    columns = {
        "key": [None for _ in rows],
        "value": [b"x" * 5 for _ in rows],
        "partition": [partition for partition, _, _ in rows],
        "offset": list(range(len(rows))),
        "timestamp": [at * 1000 for _, _, at in rows],
        "timestampType": [0 for _ in rows],
        "headers": [
            None
            if sequence is None
            else [
                {"key": STAMP_HEADER, "value": b"of an earlier stamp"},
                {"key": "other", "value": None},
                {
                    "key": STAMP_HEADER,
                    "value": encode_stamp(Stamp(bytes.fromhex("ab" * 8), 0, sequence, "web-1")),
                },
            ]
            for _, sequence, _ in rows
        ],
        "late": [False for _ in rows],
        "topic_id": ["t" for _ in rows],
    }
    path = folder / PLACE.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = [
        pa.array(columns[one.name], pa.int64()).cast(one.type)
        if one.name == "timestamp"
        else pa.array(columns[one.name], one.type)
        for one in RAW_ROWS
    ]
    pq.write_table(pa.Table.from_arrays(arrays, schema=RAW_ROWS), path, row_group_size=3)
    return DataFile(f"{PLACE.folder}/{name}", PLACE, len(rows), path.stat().st_size)


def test_rows_are_counted_by_their_stamps(tmp_path: Path) -> None:
    """Partitions joined in one file, rows without headers, and windows of another period."""
    rows = [(0, 4, HOUR), (1, 5, HOUR + 1), (0, 7, HOUR + 2), (0, None, HOUR), (1, None, HOUR)]
    files = [
        write(tmp_path, "a.parquet", [*rows, (0, 8, HOUR + W)]),
        write(tmp_path, "b.parquet", [(0, 4, HOUR)]),
    ]
    how = Counting("views", W, HOUR, HOUR + W, contents=True)
    found = count_rows(files, Storage(str(tmp_path), {}), how)
    assert found.rows == 7
    by_key = {one.key: one for one in found.tallies}
    stamped = by_key.pop(KEY)
    assert (stamped.ranges, stamped.again) == (((4, 5), (7, 7)), (((4, 4),),))
    assert (stamped.messages, stamped.bytes) == (4, 20)
    assert [block.records for block in stamped.blocks] == [4]
    assert {key.partition: one.messages for key, one in by_key.items()} == {0: 1, 1: 1}
    other = Counting("views", W, HOUR - 7_200_000, HOUR - 3_600_000, contents=True)
    assert count_rows(files, Storage(str(tmp_path), {}), other).rows == 0


def test_files_that_are_gone_or_no_parquet_hold_nothing(tmp_path: Path) -> None:
    files = [write(tmp_path, name, [(0, 1, HOUR)]) for name in ("a", "b", "c")]
    (tmp_path / files[0].path).unlink()
    (tmp_path / files[1].path).write_bytes(b"PAR1 no more")
    how = Counting("views", W, None, HOUR + W, contents=False)
    found = count_rows(files, Storage(str(tmp_path), {}), how)
    assert found.rows == 1
    assert [line.partition(": ")[0].rpartition("/")[2] for line in found.lost] == ["a", "b"]
    assert found.lost[0].endswith("it is gone")
