"""The epoch checkpoint against a naive list of records with their epochs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import KafkaError
from tallymark.log.checkpoint import read_checkpoint
from tallymark.log.leader_epochs import LeaderEpochs
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
