"""Going back to what is stored, while partitions come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import pytest

from tallymark.client.consuming.brokers import BrokerLink
from tallymark.client.consuming.fetcher import FetcherThread
from tallymark.client.consuming.rewind import Rewinder
from tallymark.client.consuming.stream import Gate, Stream
from tallymark.client.consuming.subscription_state import PartitionProgress, SubscriptionState
from tallymark.coordination.consumers.offsets import Position
from tallymark.errors import CommitFailedError
from tallymark.protocol.topic_partition import TopicPartition

PLACES = [("t", 0), ("t", 1)]


class Fetching:
    """Keeps what the fetcher would work on."""

    def __init__(self) -> None:
        self.work: Sequence[PartitionProgress] = ()

    def assign(self, work: Sequence[PartitionProgress]) -> None:
        self.work = work


class Rewinding:
    """A consumer that owns two partitions; 7 is stored of the first, nothing of the second."""

    def __init__(self) -> None:
        self.positions = SubscriptionState()
        self.stream = Stream(Gate(), threading.Event())
        self.fetching = Fetching()
        link = cast(BrokerLink, None)  # only rewind() to a time asks it
        fetcher = cast(FetcherThread, self.fetching)
        self.rewinder = Rewinder(link, self.positions, [self.stream], fetcher)
        self.own(9)
        self.meanwhile: Callable[[], None] = lambda: None

    def own(self, offset: int) -> None:
        stored = {place: Position(offset) for place in PLACES}
        self.positions.start(dict.fromkeys(PLACES, 0), stored)

    def read(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Position]:
        self.meanwhile()
        return {place: Position(7) for place in places if place == PLACES[0]}

    def back(self) -> dict[TopicPartition, int]:
        return self.rewinder.to_stored(dict.fromkeys(PLACES, 5), self.read)

    def fetched_from(self) -> dict[int, int | None]:
        return {i.partition: i.fetch.offset if i.fetch else None for i in self.positions.items()}


@pytest.fixture
def consumer() -> Rewinding:
    return Rewinding()


def test_it_goes_to_what_is_stored_else_to_what_was_taken_first(consumer: Rewinding) -> None:
    assert consumer.back() == {("t", 0): 7, ("t", 1): 5}
    assert consumer.fetched_from() == {0: 7, 1: 5}
    assert [item.active for item in consumer.fetching.work] == [True, True]


def test_a_partition_that_went_away_and_came_back_is_left_alone(consumer: Rewinding) -> None:
    """Its owner in between has stored 20, which was read as it came back; what we had asked for
    before was older, and messages 7 to 19 would be copied a second time."""
    consumer.meanwhile = lambda: consumer.own(20)
    assert consumer.back() == {}
    assert consumer.fetched_from() == {0: 20, 1: 20}


def test_a_partition_that_is_given_up_is_not_read_on(consumer: Rewinding) -> None:
    """A partition that the group has taken away is owned until the worker has released it. A seek
    in that moment revived it: it was fetched and handed out until the next rebalance, beside its
    new owner."""
    consumer.stream.revoke(consumer.positions.items())
    assert consumer.back() == {}
    with pytest.raises(CommitFailedError, match="not owned"):
        consumer.rewinder.seek(PLACES[0], 3)
    assert not consumer.fetching.work


def test_partitions_of_others_are_not_asked_for(consumer: Rewinding) -> None:
    consumer.positions.forget()
    consumer.meanwhile = lambda: pytest.fail("nothing is to be read")
    assert consumer.back() == {}
