"""Hooks of a consumer: they hear of what was handed out, and before offsets are stored up to where
it is processed."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from tallymark.client import ConsumerConnector
from tallymark.client.consuming import commit as connector_commit
from tallymark.client.consuming.commit import OffsetCommitter
from tallymark.client.consuming.hooks import ConsumerHook, Hooks
from tallymark.client.consuming.stream import Chunk, Gate, Stream
from tallymark.client.consuming.subscription_state import SubscriptionState
from tallymark.coordination.consumers.offsets import Position
from tallymark.errors import UserError
from tallymark.protocol.records.batch import Batch, encode_batch, split_batches
from tallymark.protocol.records.columns import RecordColumns

T0 = ("t", 0)


class Listener:
    """Writes down what it hears, in one list with what the store is told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def handed_out(self, topic: str, partition: int, columns: RecordColumns) -> None:
        self.heard.append(("out", list(columns.offsets)))

    def done_before(self, positions: Mapping[tuple[str, int], int]) -> None:
        self.heard.append(("done", dict(positions)))

    def released(self, places: Collection[tuple[str, int]]) -> None:
        self.heard.append(("released", set(places)))

    def truncated(self, topic: str, partition: int, offset: int) -> None:
        self.heard.append(("cut", (topic, partition), offset))

    def closed(self) -> None:
        self.heard.append("closed")


class Store:
    """Tells the listener's list that offsets are stored."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def read(self, partitions: Any, session: int) -> dict[tuple[str, int], Position]:
        return {}

    def commit(self, positions: Mapping[tuple[str, int], Position], metadata: str) -> None:
        self.heard.append(("stored", {at: to.offset for at, to in positions.items()}))


class Rig:
    """One partition with two batches of three messages."""

    def __init__(self, hook: Any, *, at_most_once: bool = False) -> None:
        gate = Gate()
        gate.open(0)
        self.heard: list[Any] = hook.heard
        self.positions = SubscriptionState()
        hooks = Hooks([hook])
        self.committer = OffsetCommitter(
            Store(self.heard), self.positions, at_most_once=at_most_once, hooks=hooks
        )
        clear = self.committer.clear if at_most_once else None
        self.stream = Stream(gate, threading.Event(), clear=clear, hooks=hooks)
        self.committer.watch([self.stream])
        (self.item,) = self.positions.start({T0: 0}, {T0: Position(0)})
        self.stream.offer(Chunk(self.item, [batch(0), batch(3)], 0, 6, 0))


def batch(first: int) -> Batch:
    records = [(None, b"%d" % (first + index), (), 17) for index in range(3)]
    return split_batches(encode_batch(records, base_offset=first))[0]


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector_commit, "IN_HAND_SECONDS", 0.0)


def test_a_hook_hears_of_what_is_processed_before_it_is_stored() -> None:
    rig = Rig(Listener())
    assert [next(rig.stream).offset for _ in range(3)] == [0, 1, 2]
    rig.committer.commit()
    assert rig.heard[-2:] == [("done", {T0: 2}), ("stored", {T0: 2})]
    assert [one[1] for one in rig.heard if one[0] == "out"] == [[0, 1, 2], [3, 4, 5]]


def test_at_most_once_tells_what_is_done_though_more_is_stored() -> None:
    rig = Rig(Listener(), at_most_once=True)
    assert next(rig.stream).offset == 0
    assert rig.heard[0] == ("stored", {T0: 6})
    rig.committer.commit()
    assert ("done", {T0: 0}) in rig.heard
    assert next(rig.stream).offset == 1
    rig.committer.commit()
    assert ("done", {T0: 1}) in rig.heard


def test_chunks_are_told_of_as_well() -> None:
    rig = Rig(Listener())
    rig.stream.poll_chunks()
    assert rig.heard == [("out", [0, 1, 2]), ("out", [3, 4, 5])]


def test_a_hook_hears_what_was_given_up() -> None:
    rig = Rig(Listener())
    next(rig.stream)
    rig.committer.forget()
    assert rig.heard[-1] == ("released", {T0})


@pytest.mark.parametrize("by_chunk", [False, True])
def test_a_hook_hears_of_a_cut_before_what_is_there_now(by_chunk: bool) -> None:
    """A broker lost the end of a log that a group had processed and not yet stored. The mirror
    brought other messages under these offsets, and nobody told the audit that the first ones had
    been processed: it never heard of 208 messages that the application had worked on."""
    rig = Rig(Listener())
    rig.stream.offer(Chunk(rig.item, (), 2, 2, -1, cut=2))
    rig.stream.offer(Chunk(rig.item, [batch(2)], 2, 5, 1))
    if by_chunk:
        assert [[one.start for one in rig.stream.poll_chunks()] for _ in range(2)] == [[0], [2, 2]]
    else:
        assert [next(rig.stream).offset for _ in range(7)] == [0, 1, 2, 3, 4, 5, 2]
    assert rig.heard == [
        ("out", [0, 1, 2]),
        ("out", [3, 4, 5]),
        ("cut", T0, 2),
        ("out", [2, 3, 4]),
    ]


@pytest.mark.parametrize("ask", ["poll", "poll_batch", "poll_chunks"])
def test_no_call_goes_past_a_cut(ask: str) -> None:
    """One poll gave the last messages before a cut and the first ones behind it. Of what was in
    hand the first offset was kept, which was the higher one: a commit stored the new messages as
    processed while the application had not begun with them."""
    rig = Rig(Listener())
    rig.stream.offer(Chunk(rig.item, (), 2, 2, -1, cut=2))
    rig.stream.offer(Chunk(rig.item, [batch(2)], 2, 5, 1))
    assert getattr(rig.stream, ask)()
    assert not [one for one in rig.heard if one[0] == "cut"], "it has all of it in hand"
    rig.committer.commit()
    assert rig.heard[-1] != ("stored", {T0: 6})
    assert getattr(rig.stream, ask)()
    assert rig.heard[-2:] == [("cut", T0, 2), ("out", [2, 3, 4])]
    rig.committer.commit()
    assert rig.heard[-1] == ("stored", {T0: 2})
    assert not getattr(rig.stream, ask)()
    rig.committer.commit()
    assert rig.heard[-1] == ("stored", {T0: 5})


def test_a_hook_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Bad(Listener):
        def done_before(self, positions: Any) -> None:
            raise ZeroDivisionError

    rig = Rig(Bad())
    for _ in range(3):
        next(rig.stream)
        rig.committer.commit()
    assert ("stored", {T0: 2}) in rig.heard
    assert caplog.text.count("said once") == 1


def test_what_is_no_hook_is_refused() -> None:
    assert isinstance(Listener(), ConsumerHook)
    wrong: Any = [Listener]
    with pytest.raises(UserError, match="handed_out"):
        ConsumerConnector(group="g", bootstrap_servers="localhost:1", hooks=wrong)
