"""Where partitions begin is asked in a few threads, and only of those that are owned still."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

import pytest
from eventually import eventually

from tallymark.client.consuming.async_lookups import AsyncLookups
from tallymark.client.consuming.reset import Answered, Reset
from tallymark.client.consuming.subscription_state import PartitionProgress
from tallymark.errors import ClosedError, ConnectError

THREADS = 4


class Lookups:
    """Lookups of which each waits for ``answering``."""

    def __init__(self) -> None:
        self.made = AsyncLookups(threading.Event())
        self.answering = threading.Event()
        self.asked: list[PartitionProgress] = []
        self.answered: dict[PartitionProgress, Future[Reset | None]] = {}

    def ask(self, count: int) -> list[PartitionProgress]:
        items = [PartitionProgress("t", number) for number in range(count)]
        for item in items:
            self.made.ask(item, lambda one=item: self._answer(one))  # type: ignore[misc]
        return items

    def all_answered(self) -> bool:
        self.answered.update(self.made.answers())
        return not self.made

    def _answer(self, item: PartitionProgress) -> Reset:
        self.asked.append(item)
        assert self.answering.wait(60)
        return Reset(item.partition, None)


@pytest.fixture
def its() -> Iterator[Lookups]:
    lookups = Lookups()
    yield lookups
    lookups.answering.set()
    lookups.made.close()


def test_partitions_that_were_given_up_are_not_asked_about(its: Lookups) -> None:
    """While 3,000 topics were created a mirror's group rebalanced for each few of them. Where each
    partition begins was asked for every assignment there had been, one after the other: when the
    last topic was there, the mirror asked on about assignments of before, and copied nothing."""
    before = its.ask(100)
    eventually(lambda: len(its.asked) == THREADS)
    for item in before:
        item.active = False
    now = its.ask(3)
    its.answering.set()
    eventually(its.all_answered)
    assert set(its.asked[THREADS:]) == set(now)
    assert [its.answered[item].result() for item in now] == [Reset(n, None) for n in range(3)]
    assert {its.answered[item].result() for item in before[THREADS:]} == {None}


def test_one_question_about_many_is_answered_one_by_one(its: Lookups) -> None:
    items = [PartitionProgress("t", number) for number in range(5)]
    items[1].active = False
    unreachable, closed = ConnectError("b:1", "connect", "refused"), ClosedError("closed")
    asked: list[Sequence[PartitionProgress]] = []

    def question(wanted: Sequence[PartitionProgress], answered: Answered) -> None:
        asked.append(wanted)
        answered(wanted[0], Reset(7, None))
        assert its.answering.wait(60)
        answered(wanted[1], unreachable)
        raise closed

    its.made.ask_together(items, question)
    assert all(item in its.made for item in items)
    eventually(lambda: its.answered.update(its.made.answers()) or items[0] in its.answered)
    assert its.answered[items[0]].result() == Reset(7, None)
    assert items[2] in its.made
    its.answering.set()
    eventually(its.all_answered)
    assert asked == [[items[0], *items[2:]]]
    assert its.answered[items[1]].result() is None
    assert its.answered[items[2]].exception() is unreachable
    assert {its.answered[item].exception() for item in items[3:]} == {closed}


def test_a_partition_that_was_answered_may_be_asked_again(its: Lookups) -> None:
    its.answering.set()
    (item,) = its.ask(1)
    assert item in its.made
    eventually(its.all_answered)
    assert item not in its.made
    assert its.answered[item].result() == Reset(0, None)
