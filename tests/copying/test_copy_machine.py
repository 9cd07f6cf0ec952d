"""The order of a copier's calls, and what becomes of a step that is cut off at any of them: between
a producer and a consumer in memory, of which each call may have been done or not when its task is
cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest

from tallymark.client import GroupMetadata, OutgoingRecord
from tallymark.client.reading.message import Message
from tallymark.copying.aio import carry_out
from tallymark.copying.machine import CopyMachine, Taken
from tallymark.errors import (
    CommitInDoubt,
    LocalProtocolError,
    TallymarkError,
    TimedOutError,
    TransactionFatalError,
    UserError,
)
from tallymark.protocol.topic_partition import TopicPartition

COUNT = 6
ME = GroupMetadata("g", 1, "member")
Fault = Callable[[], None]


class Cluster:
    """A log, a group's position, and one transaction. The fault ``at`` the n-th call happens before
    the call has its effect, or after."""

    def __init__(self, at: int = -1, fault: Fault = lambda: None, *, after: bool = False) -> None:
        self.calls: list[str] = []
        self.copied: list[bytes] = []
        self.committed = 0
        self.position = 0
        self.member: GroupMetadata | None = ME
        self._at, self._fault, self._after = at, fault, after
        self._open: list[bytes] | None = None
        self._offset: int | None = None

    async def _call(self, name: str, effect: Callable[[], Any]) -> Any:
        number = len(self.calls)
        self.calls.append(name)
        await asyncio.sleep(0)
        if number == self._at and not self._after:
            self._fault()
        result = effect()
        if number == self._at and self._after:
            self._fault()
        return result

    # -- the consumer

    async def start(self, topics: Sequence[str]) -> None:
        await self._call("start", lambda: None)

    async def take(self, timeout: float, most: int) -> Taken:
        first = self.position

        def taken() -> Taken:
            self.position = min(COUNT, first + most)
            return self.member, [_message(offset) for offset in range(first, self.position)]

        found: Taken = await self._call("take", taken)
        return found

    async def processed(self, positions: Mapping[TopicPartition, int]) -> None:
        await self._call("processed", lambda: None)

    async def rewind_to_committed(self, first: Mapping[TopicPartition, int]) -> None:
        def rewind() -> None:
            self.position = self.committed

        await self._call("rewind", rewind)

    # -- the producer

    async def init_transactions(self) -> None:
        await self._call("init", lambda: None)

    async def begin_transaction(self) -> None:
        def begin() -> None:
            assert self._open is None, "the one before is open"
            self._open = []

        await self._call("begin", begin)

    async def send(self, topic: str, value: Any = None, **_: Any) -> None:
        await self._call("send", lambda: self._opened().append(value))

    async def send_offsets_to_transaction(
        self, positions: Mapping[TopicPartition, int], group: GroupMetadata
    ) -> None:
        def store() -> None:
            self._opened()
            (self._offset,) = positions.values()

        await self._call("offsets", store)

    async def flush(self, timeout: float) -> None:
        await self._call("flush", lambda: None)

    async def commit_transaction(self) -> None:
        def commit() -> None:
            self.copied += self._opened()
            assert self._offset is not None
            self.committed, self._open = self._offset, None

        await self._call("commit", commit)

    async def abort_transaction(self) -> None:
        def abort() -> None:
            self._opened()
            self._open = None

        await self._call("abort", abort)

    def _opened(self) -> list[bytes]:
        if self._open is None:
            raise LocalProtocolError("nothing is open")
        return self._open


def _message(offset: int) -> Message:
    return Message("t", 0, offset, 0, None, b"%d" % offset, (), 0)


def _copy(message: Message) -> list[OutgoingRecord]:
    return [OutgoingRecord("copies", message.value)]


def machine(cluster: Cluster) -> CopyMachine:
    return CopyMachine(cluster, cluster, "t", _copy, 2)


async def steps(copier: CopyMachine, *passes: type[BaseException]) -> None:
    """Until all is copied; an error of these types is followed by the next step."""
    copied = 0
    while copied < COUNT + 1:
        with suppress(*passes):
            copied += await carry_out(copier.step(0)) or COUNT + 1


def cancel() -> None:
    raise asyncio.CancelledError


def time_out() -> None:
    raise TimedOutError("no answer")


def doubt() -> None:
    raise CommitInDoubt("copier", "no answer")


ORDER: Final = (
    *("init", "start", "take", "begin", "send", "send"),
    *("offsets", "flush", "processed", "commit"),
)
EXPECTED = [b"%d" % number for number in range(COUNT)]


def test_the_order_of_calls() -> None:
    cluster = Cluster()
    asyncio.run(steps(machine(cluster)))
    assert cluster.calls == [*ORDER, *ORDER[2:], *ORDER[2:], "take"]
    assert (cluster.copied, cluster.committed) == (EXPECTED, COUNT)


FIRST_TWO: Final = [*ORDER, *ORDER[2:]]
CUTS: Final = [
    (at, after)
    for at, call in enumerate(FIRST_TWO)
    for after in (False, True)
    # A consumer that is cancelled keeps its messages for the next call.
    if not (call == "take" and after)
]


@pytest.mark.parametrize(("at", "after"), CUTS)
def test_a_step_that_is_cancelled_at_any_call_copies_all_once(at: int, after: bool) -> None:
    """A copier that took a cancelled commit for none aborted, and could read all of it again."""
    cluster = Cluster(at, cancel, after=after)
    asyncio.run(steps(machine(cluster), asyncio.CancelledError))
    assert (cluster.copied, cluster.committed) == (EXPECTED, COUNT)


@pytest.mark.parametrize("at", range(len(FIRST_TWO)))
def test_a_call_that_fails_is_followed_by_an_abort_and_the_same_messages(at: int) -> None:
    cluster = Cluster(at, time_out)
    asyncio.run(steps(machine(cluster), TimedOutError))
    assert (cluster.copied, cluster.committed) == (EXPECTED, COUNT)


def test_a_commit_in_doubt_is_asked_for_again() -> None:
    cluster = Cluster(ORDER.index("commit"), doubt)
    asyncio.run(steps(machine(cluster), CommitInDoubt))
    assert cluster.calls[len(ORDER)] == "commit"
    assert (cluster.copied, cluster.committed) == (EXPECTED, COUNT)


def test_messages_of_a_member_of_nothing_are_not_copied() -> None:
    async def story() -> list[bytes]:
        cluster = Cluster()
        cluster.member = None
        copier = machine(cluster)
        assert await carry_out(copier.step(0)) == 0
        assert cluster.calls[-2:] == ["take", "rewind"]
        cluster.member = ME
        await steps(copier)
        return cluster.copied

    assert asyncio.run(story()) == EXPECTED


class Clock:
    """Time passes with each pause alone."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.mark.parametrize(
    "error", [TransactionFatalError("copier", "fenced"), UserError("what", "do")]
)
def test_run_raises_what_does_not_pass(error: TallymarkError) -> None:
    def fail() -> None:
        raise error

    cluster, clock = Cluster(0, fail), Clock()
    with pytest.raises(type(error)):
        asyncio.run(
            carry_out(machine(cluster).run(lambda: False, clock.pause, lambda: clock.now, 300.0))
        )
    assert clock.pauses == []


def test_run_pauses_longer_each_time_and_raises_when_its_patience_is_over() -> None:
    class Down(Cluster):
        async def init_transactions(self) -> None:
            raise TimedOutError("no coordinator")

    clock = Clock()
    with pytest.raises(TimedOutError):
        asyncio.run(
            carry_out(machine(Down()).run(lambda: False, clock.pause, lambda: clock.now, 3.0))
        )
    assert clock.pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
