"""Where two logs part: the rounds of KIP-101 and KIP-279 over logs of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.replication.truncation import (
    Cut,
    EpochEnd,
    cut_for,
    diverging,
    end_of_epoch,
    epochs_up_to,
    last_epoch_of,
)

Log = list[tuple[int, int]]
"""(epoch, value) of each record."""


def epochs_of(log: Log) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for offset, (epoch, _) in enumerate(log):
        if not found or found[-1][0] != epoch:
            found.append((epoch, offset))
    return found


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[Log, Log]:
    """Logs as brokers can have them: a leader of an epoch begins with what it has and appends;
    the other copies a part of it now and then. An epoch has one leader."""
    logs: tuple[Log, Log] = ([], [])
    value = 0
    for epoch in range(draw(st.integers(1, 6))):
        leads = draw(st.integers(0, 1))
        leader, follower = logs[leads], logs[1 - leads]
        for _ in range(draw(st.integers(0, 4))):
            leader.append((epoch, value := value + 1))
        if draw(st.booleans()):
            same = len(common_part(leader, follower))
            copied = draw(st.integers(same, len(leader)))
            follower[:] = leader[:copied]
    return logs


def common_part(one: Log, other: Log) -> Log:
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return one[:same]


def follow(leader: Log, follower: Log, *, high_watermark: int = 0) -> int:
    """Fetch, cut, fetch ...; returns the number of cuts."""
    epochs = epochs_of(leader)
    for cuts in range(20):
        own = epochs_of(follower)
        last = last_epoch_of(own, len(follower))
        parted = diverging(epochs, len(leader), last, len(follower))
        if parted is None:
            return cuts
        assert parted.epoch >= 0 or not epochs or last > epochs[-1][0]
        cut = cut_for(parted, own, len(follower), high_watermark)
        assert cut.to < len(follower)
        del follower[cut.to :]
    raise AssertionError("it asks for ever")


@given(two_logs())
def test_what_is_left_is_the_leaders_and_not_one_record_less(logs: tuple[Log, Log]) -> None:
    for leader, follower in (logs, logs[::-1]):
        if follower and leader and follower[-1][0] <= leader[-1][0]:
            copy = list(follower)
            common = common_part(leader, follower)
            follow(leader, copy)
            assert copy == common


def test_two_quick_changes_of_the_leader() -> None:
    """KIP-279: the follower wrote in epoch 2, the leader wrote in 1 and 3 and never had 2. Told
    that epoch 1 ends at 6, a follower that cuts to 6 keeps a record of epoch 2 at offset 5."""
    leader = [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (1, 6), (3, 9), (3, 10)]
    follower = [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (2, 7), (2, 8)]
    assert diverging(epochs_of(leader), 8, 2, 7) == EpochEnd(1, 6)
    assert cut_for(EpochEnd(1, 6), epochs_of(follower), 7, 0) == Cut(5, done=True)
    follow(leader, follower)
    assert follower == leader[:5]


def test_a_follower_that_does_not_know_the_epoch_asks_again() -> None:
    leader = [(0, 1), (1, 2), (1, 3), (3, 4)]
    follower = [(0, 1), (0, 5), (2, 6)]
    told = diverging(epochs_of(leader), 4, 2, 3)
    assert told is not None
    assert told == EpochEnd(1, 3)
    assert cut_for(told, epochs_of(follower), 3, 0) == Cut(2, done=False)
    assert follow(leader, follower) == 2
    assert follower == [(0, 1)]


def test_a_follower_does_not_cut_to_its_own_high_watermark() -> None:
    """KIP-101: it learns the high watermark one fetch later than the records. A follower that cut
    to its own when it came back, and then was elected, had lost a committed record."""
    leader = follower = [(0, 1), (0, 2)]
    assert diverging(epochs_of(leader), 2, last_epoch_of(epochs_of(follower), 2), 2) is None


def test_without_epochs_there_is_only_the_high_watermark() -> None:
    assert cut_for(EpochEnd(-1, -1), [], 10, 7) == Cut(7, done=True)
    assert cut_for(EpochEnd(-1, -1), [], 10, 12) == Cut(10, done=True)


def test_an_epoch_that_the_leader_does_not_know_is_undefined_not_its_end() -> None:
    """KAFKA-6857: a leader without epochs answered with the end of its log, and followers kept
    records that it did not have."""
    assert end_of_epoch([], 10, 3) == EpochEnd(-1, -1)
    assert end_of_epoch([(0, 0)], 10, 3) == EpochEnd(-1, -1)
    assert end_of_epoch([(0, 0)], 10, -1) == EpochEnd(-1, -1)


@pytest.mark.parametrize(
    ("epoch", "answer"), [(1, (1, 5)), (2, (2, 8)), (3, (2, 8)), (4, (4, 8)), (5, (5, 12))]
)
def test_the_end_of_an_epoch(epoch: int, answer: tuple[int, int]) -> None:
    assert end_of_epoch([(2, 5), (4, 8), (5, 8)], 12, epoch) == answer


def test_a_log_whose_records_are_all_newer_than_the_leaders_epoch_is_emptied() -> None:
    """Its start was raised by DeleteRecords, so it has nothing of the epochs before."""
    assert cut_for(EpochEnd(3, 100), [(5, 80)], 120, 90) == Cut(80, done=False)


def test_an_epoch_at_the_very_end_goes_though_no_byte_is_cut() -> None:
    """KAFKA-15608: an epoch without records stayed in the cache of one side only."""
    assert epochs_up_to(10, [(0, 0), (4, 10)]) == ((0, 0),)
    assert last_epoch_of([(0, 0), (4, 10)], 10) == 0
    assert last_epoch_of([(4, 10)], 10) == -1
