"""What is stored when: messages in hand, at most once, seeks; whether the application keeps up."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

import pytest

from tallymark.client.consuming import commit as connector_commit
from tallymark.client.consuming.commit import OffsetCommitter
from tallymark.client.consuming.poll_watchdog import PollState, PollWatchdog
from tallymark.client.consuming.stream import Chunk, Gate, Stream
from tallymark.client.consuming.subscription_state import PartitionProgress, SubscriptionState
from tallymark.client.group.stream_control import place_in_streams
from tallymark.coordination.consumers.offsets import Position
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.errors import CODES, CommitFailedError, KafkaError
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches
from tallymark.protocol.topic_partition import TopicPartition

T0 = ("t", 0)


class Store:
    """Offsets in memory; ``trouble`` is raised once each."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, Position] = {}
        self.commits: list[dict[TopicPartition, int]] = []
        self.trouble: list[Exception] = []

    def read(
        self, partitions: Sequence[TopicPartition], session: int
    ) -> dict[TopicPartition, Position]:
        return {place: self.offsets[place] for place in partitions if place in self.offsets}

    def commit(self, positions: Mapping[TopicPartition, Position], metadata: str) -> None:
        if self.trouble:
            raise self.trouble.pop(0)
        self.offsets.update(positions)
        self.commits.append({place: position.offset for place, position in positions.items()})


def batch(first: int, count: int) -> Batch:
    data = encode_batch(
        [(None, b"%d" % (first + index), (), 17) for index in range(count)], base_offset=first
    )
    return split_batches(data)[0]


class Setting:
    """One partition with six messages in two batches, one stream, a store."""

    def __init__(self, *, at_most_once: bool = False) -> None:
        gate = Gate()
        gate.open(0)
        self.store = Store()
        self.positions = SubscriptionState()
        self.committer = OffsetCommitter(self.store, self.positions, at_most_once=at_most_once)
        clear = self.committer.clear if at_most_once else None
        self.stream = Stream(gate, threading.Event(), clear=clear)
        self.committer.watch([self.stream])
        (self.item,) = self.positions.start({T0: 0}, {T0: Position(0)})
        self.offer(0)

    def offer(self, first: int) -> None:
        item = self.positions.item(T0)
        self.stream.offer(Chunk(item, [batch(first, 3), batch(first + 3, 3)], first, first + 6, 0))

    @property
    def stored(self) -> int | None:
        found = self.store.offsets.get(T0)
        return found.offset if found else None

    def revoke(self) -> None:
        self.stream.revoke(self.positions.items())


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector_commit, "IN_HAND_SECONDS", 0.0)


def test_what_is_in_hand_is_not_stored_until_the_next_is_asked_for() -> None:
    its = Setting()
    for offset in range(6):
        assert next(its.stream).offset == offset
        its.committer.commit()
        assert its.stored == (offset or None)
    assert its.stream.poll() == []
    its.committer.commit()
    assert its.stored == 6


class Hurrying(Stream):
    """Its application asks for the next message just when it was looked what is in hand."""

    hurries = False

    def held(self) -> dict[PartitionProgress, int]:
        found = super().held()
        if self.hurries:
            next(self)
        return found


@pytest.mark.parametrize("at_work", [False, True])
def test_what_is_handed_out_while_a_commit_looks_is_in_hand(at_work: bool) -> None:
    """A member that was killed had stored the offset behind a message which it had in hand: its
    commit looked first at what was in hand (nothing, or the message before), then at how far the
    application had come. The next owner never saw that message."""
    its = Setting()
    stream = Hurrying(its.stream._gate, threading.Event())
    its.committer.watch([stream])
    its.stream = stream
    its.offer(0)
    if at_work:
        next(stream)
    stream.hurries = True
    its.committer.commit()
    assert its.stored is None
    stream.hurries = False
    its.committer.commit()
    assert its.stored == (1 if at_work else None), "the one before is dealt with"


def test_a_poll_of_many_is_in_hand_as_a_whole() -> None:
    its = Setting()
    its.stream.poll(max_messages=2)
    assert len(its.stream.poll(max_messages=3)) == 3
    its.committer.commit()
    assert its.stored == 2
    next(its.stream)
    its.committer.commit()
    assert its.stored == 5


def test_a_batch_is_in_hand_as_a_whole() -> None:
    its = Setting()
    assert its.stream.poll_batch() is not None
    its.committer.commit()
    assert its.stored is None
    assert its.stream.poll_batch() is None
    its.committer.commit()
    assert its.stored == 6


def test_what_is_in_hand_when_partitions_go_comes_again() -> None:
    its = Setting()
    for _ in range(2):
        next(its.stream)
    its.revoke()
    its.committer.commit(last=True)
    assert its.stored == 1


def test_a_release_waits_a_moment_for_what_is_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector_commit, "IN_HAND_SECONDS", 10.0)
    its = Setting()
    for _ in range(2):
        next(its.stream)
    its.revoke()

    def work() -> None:
        time.sleep(0.05)
        its.stream.poll()

    worker = threading.Thread(target=work)
    worker.start()
    its.committer.commit(last=True)
    worker.join()
    assert its.stored == 2


def test_who_commits_says_that_all_is_dealt_with() -> None:
    its = Setting()
    for _ in range(2):
        next(its.stream)
    its.committer.commit_taken()
    assert its.stored == 2
    its.committer.commit()
    assert its.stored == 2


def test_a_commit_after_the_partitions_went_says_what_was_not_stored() -> None:
    """A consumer that was too slow lost its partitions; its commit then stored nothing and returned
    as if it had, and the same messages came again without a word."""
    its = Setting()
    for _ in range(2):
        next(its.stream)
    its.revoke()
    its.committer.forget()
    with pytest.raises(CommitFailedError, match=r"t-0 up to 2.*handed out again"):
        its.committer.commit_taken()
    its.committer.commit_taken()  # said once
    assert its.stored is None


def test_a_commit_before_the_partitions_go_leaves_nothing_to_say() -> None:
    its = Setting()
    for _ in range(2):
        next(its.stream)
    its.committer.commit_taken()
    its.revoke()
    its.committer.forget()
    its.committer.commit_taken()
    assert its.stored == 2


def test_an_offset_the_application_stored_itself_is_not_taken_back() -> None:
    its = Setting()
    its.stream.poll(max_messages=4)
    its.committer.commit_taken({T0: 3})
    its.committer.commit()
    its.committer.commit(last=True)
    assert its.stored == 3


def test_at_most_once_stores_before_it_hands_out() -> None:
    its = Setting(at_most_once=True)
    assert its.stored is None
    assert next(its.stream).offset == 0
    assert its.stored == 6
    its.committer.commit()
    assert its.stored == 6
    its.revoke()
    its.committer.commit(last=True)
    assert its.stored == 1  # what was not handed out is not lost by leaving in order


def test_at_most_once_hands_out_nothing_that_could_not_be_stored() -> None:
    its = Setting(at_most_once=True)
    its.store.trouble = [
        CommitFailedError(CODES["ILLEGAL_GENERATION"], "t-0"),
        KafkaError(CODES["NOT_COORDINATOR"], "t-0"),
        KafkaError(CODES["TOPIC_AUTHORIZATION_FAILED"], "t-0"),
    ]
    assert its.stream.poll() == []
    assert its.stream.poll() == []
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        its.stream.poll()
    assert its.stored is None
    assert len(its.stream.poll()) == 6


def test_at_most_once_each_chunk_is_stored_by_itself() -> None:
    its = Setting(at_most_once=True)
    its.offer(6)
    assert len(its.stream.poll()) == 6
    assert its.stored == 6
    assert len(its.stream.poll()) == 6
    assert its.store.commits == [{T0: 6}, {T0: 12}]


def test_a_seek_is_stored_though_nothing_was_handed_out_since() -> None:
    its = Setting()
    its.stream.poll()
    its.committer.commit_taken()
    its.positions.replace(its.item.moved_to(2))
    its.stream.revoke([its.item])
    its.committer.commit()
    assert its.stored == 2


def test_a_slow_application_is_noticed_and_named() -> None:
    its = Setting()
    watch = PollWatchdog([its.stream], 1000)
    next(its.stream)
    next(its.stream)
    assert [watch.look(at) for at in (0, 600, 701, 900, 1000, 1500)] == [
        *(
            PollState.FINE,
            PollState.FINE,
            PollState.WARN,
            PollState.FINE,
            PollState.SLOW,
            PollState.SLOW,
        ),
    ]
    assert watch.numbers().startswith("it has not asked for the next message for 1.5 s")
    assert watch.culprit().startswith("t-0 offset 1, in ")
    assert "test_a_slow_application_is_noticed_and_named (test_connector" in watch.culprit()
    its.revoke()
    assert watch.look(1600) is PollState.SLOW  # giving up is not asking
    its.stream.poll()
    assert watch.look(1700) is PollState.BACK
    assert watch.look(9700) is PollState.FINE
    assert watch.numbers() == ""


def test_messages_that_nobody_asks_for_are_slow_too_but_not_an_empty_stream() -> None:
    its = Setting()
    watch = PollWatchdog([its.stream], 1000)
    watch.look(0)
    assert watch.look(1000) is PollState.SLOW
    assert "which is not read" in watch.culprit()
    empty = PollWatchdog([Stream(Gate(), threading.Event())], 1000)
    empty.look(0)
    assert empty.look(5000) is PollState.FINE


def test_partitions_are_placed_in_streams() -> None:
    two = Subscription({"t": 2, "u": 1})
    first = {"t": 0, "u": 2}
    places = [("t", n) for n in range(5)] + [("u", 0)]
    placed = place_in_streams(places, {}, two, first)
    assert placed == {
        ("t", 0): 0,
        ("t", 1): 0,
        ("t", 2): 0,
        ("t", 3): 1,
        ("t", 4): 1,
        ("u", 0): 2,
    }
    kept = {("t", 0): 0, ("t", 1): 0, ("t", 3): 1}
    more = place_in_streams([("t", 5), ("t", 6), ("t", 7)], kept, two, first)
    assert more == {("t", 5): 1, ("t", 6): 0, ("t", 7): 1}
    several = place_in_streams(
        [("a", 0), ("b", 0)], {}, Subscription({".*": 2}, is_filter=True), {}
    )
    assert several == {("a", 0): 0, ("b", 0): 0}
