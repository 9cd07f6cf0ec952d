"""What is copied, left out, waited for and refused, between a source and a target of the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tallymark.client.message import Message
from tallymark.errors import CODES, KafkaError, TimedOutError, UserError
from tallymark.mirror.copier import Copier
from tallymark.mirror.holes import HoleNotes
from tallymark.mirror.observer import MirrorContext, ObserverChain, load_observers
from tallymark.mirror.source import Source
from tallymark.mirror.target import Target
from tallymark.mirror.topics import TopicCopier

P = ("clicks", 0)


@dataclass
class Ends:
    """Source, target and topics in one."""

    there: bool = True
    offset: int = -1
    compacted: bool = False
    trouble: list[Exception] = field(default_factory=list)
    holes: HoleNotes = field(default_factory=HoleNotes)
    sent: list[int] = field(default_factory=list)
    settled: list[Callable[[Exception | None], None]] = field(default_factory=list)

    def stored(self, partition: object) -> int:
        return self.offset

    def exists(self, topic: str) -> bool:
        return self.there

    def ensure(self, topic: str) -> None:
        if not self.there:
            raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], topic)
        if self.trouble:
            raise self.trouble.pop()

    def is_compacted(self, topic: str) -> bool:
        return self.compacted

    def send(self, message: Message, settled: Callable[[Exception | None], None]) -> None:
        self.sent.append(message.offset)
        self.settled.append(settled)


class Listener:
    """An observer that remembers gaps, and fails at everything else."""

    def __init__(self) -> None:
        self.gaps: list[tuple[Any, ...]] = []

    def attach(self, context: MirrorContext) -> None:
        raise ZeroDivisionError

    def on_copied(self, topic: str, partition: int, first_offset: int, last_offset: int) -> None:
        raise ZeroDivisionError

    def on_gap(
        self, topic: str, partition: int, from_offset: int, to_offset: int, reason: str
    ) -> None:
        self.gaps.append((topic, partition, from_offset, to_offset, reason))

    def on_tick(self, now_ms: int, oldest_pending_ms: int | None) -> None:
        raise ZeroDivisionError

    def on_close(self, now_ms: int) -> None:
        raise ZeroDivisionError


def copier_of(ends: Ends, listener: Listener | None = None) -> Copier:
    copier = Copier(
        cast(Source, ends),
        cast(Target, ends),
        cast(TopicCopier, ends),
        ObserverChain([listener] if listener else []),
    )
    copier.progress.begin(P, 0)
    return copier


def message(offset: int, epoch: int = 0) -> Message:
    return Message("clicks", 0, offset, 1000 + offset, None, b"x", (), epoch)


def test_holes_are_told_with_their_reason() -> None:
    for compacted, reason in ((True, "compaction"), (False, "unknown")):
        ends, listener = Ends(compacted=compacted), Listener()
        copier = copier_of(ends, listener)
        for offset in (2, 3, 5):
            copier.copy(message(offset))
        assert ends.sent == [2, 3, 5]
        assert listener.gaps == [("clicks", 0, 0, 2, reason), ("clicks", 0, 4, 5, reason)]


def test_what_could_not_be_sent_is_tried_again_and_its_hole_told_once() -> None:
    ends, listener = Ends(trouble=[TimedOutError("away"), TimedOutError("away")]), Listener()
    copier = copier_of(ends, listener)
    for _ in range(2):
        with pytest.raises(TimedOutError):
            copier.copy(message(3))
    copier.copy(message(3))
    assert ends.sent == [3]
    assert listener.gaps == [("clicks", 0, 0, 3, "unknown")]


def test_what_was_sent_is_not_sent_again() -> None:
    ends = Ends(offset=0)
    copier = copier_of(ends)
    for offset in (0, 1, 2, 0, 1, 2, 3):
        copier.copy(message(offset))
    assert ends.sent == [0, 1, 2, 3]


def test_a_topic_that_is_gone_everywhere_is_left_out() -> None:
    ends, listener = Ends(there=False), Listener()
    copier = copier_of(ends, listener)
    copier.copy(message(0))
    assert ends.sent == []
    assert listener.gaps == [("clicks", 0, 0, 1, "deleted")]


def test_a_topic_that_the_target_refuses_is_named() -> None:
    copier = copier_of(Ends(trouble=[KafkaError(CODES["INVALID_CONFIG"])]))
    with pytest.raises(UserError, match="the target cannot have the topic clicks"):
        copier.copy(message(0))


def test_a_message_that_is_refused_ends_the_mirror_and_holds_the_offset() -> None:
    ends = Ends()
    copier = copier_of(ends)
    copier.copy(message(0))
    copier.copy(message(1))
    ends.settled[1](None)
    ends.settled[0](KafkaError(CODES["MESSAGE_TOO_LARGE"]))
    assert not copier.drain(5), "a refused message is not waited for"
    assert copier.copied == 1
    assert "clicks-0 offset 0 cannot be copied" in str(copier.failure)
    assert copier.progress.to_store({P}) == {}


def test_a_drain_waits_for_what_is_in_flight_but_not_for_ever() -> None:
    ends = Ends()
    copier = copier_of(ends)
    copier.copy(message(0))
    assert not copier.drain(0.01)
    ends.settled[0](None)
    assert copier.drain(0.0)
    assert copier.progress.release() == {P: 1}


def test_an_observer_that_fails_hurts_nothing(caplog: pytest.LogCaptureFixture) -> None:
    chain = ObserverChain([Listener()])
    for _ in range(3):
        chain.on_copied("clicks", 0, 1, 2)
        chain.on_tick(1, None)
        chain.on_close(1)
        chain.on_gap("clicks", 0, 1, 2, "control")
    assert chain.errors == 9
    assert len(caplog.records) == 3, "each kind of failure once"


def test_observers_come_by_entry_points(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Entry:
        name, value = "broken", "nowhere:none"

        def load(self) -> object:
            raise ImportError("no such module")

    class Good(Entry):
        def load(self) -> object:
            return Listener

    monkeypatch.setattr("tallymark.mirror.observer.entry_points", lambda group: [Entry(), Good()])
    (loaded,) = load_observers()
    assert isinstance(loaded, Listener)
    assert "observer broken (nowhere:none) is left out" in caplog.text
