"""A replay pauses by a clock, until the event loop had a turn, so that the loop never waits long
for the thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from tallymark.broker.coordinators.state_log import append_batch, replay_log
from tallymark.broker.partitions.partition import ACKS_ALL, Partition
from tallymark.broker.yielding import SLICE_SECONDS, Slices, turn_of
from tallymark.log.config import LogConfig
from tallymark.log.disk.files import OsFiles
from tallymark.log.log import Log

NOW = 1_700_000_000_000


class Clock:
    """Time passes by ``advance`` and in pauses only."""

    def __init__(self) -> None:
        self.now = 0.0
        self.worked = 0.0
        self.longest = 0.0
        self.pauses = 0

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.worked += seconds
        self.longest = max(self.longest, self.worked)

    def pause(self) -> None:
        self.pauses += 1
        self.now += 1.0
        self.worked = 0.0

    def slices(self) -> Slices:
        return Slices(lambda: self.now, self.pause)


def test_a_slice_ends_by_the_clock() -> None:
    clock = Clock()
    slices = clock.slices()
    clock.advance(SLICE_SECONDS * 0.9)
    slices.look()
    slices.look()
    assert clock.pauses == 0
    clock.advance(SLICE_SECONDS * 0.2)
    slices.look()
    assert clock.pauses == 1
    slices.look()
    clock.advance(SLICE_SECONDS * 0.9)
    slices.look()
    assert clock.pauses == 1
    clock.advance(SLICE_SECONDS * 0.2)
    slices.look()
    assert clock.pauses == 2


def test_a_pause_ends_when_the_loop_had_its_turn() -> None:
    """It was a sleep of 0.2 ms: on a busy machine the thread went on before the loop had run, slice
    after slice."""
    ran: list[int] = []

    def work(loop: asyncio.AbstractEventLoop) -> list[int]:
        pause, seen = turn_of(loop, longest=None), list[int]()
        for part in range(100):
            loop.call_soon_threadsafe(ran.append, part)
            pause()
            seen.append(len(ran))
        return seen

    async def run() -> list[int]:
        return await asyncio.to_thread(work, asyncio.get_running_loop())

    assert asyncio.run(run()) == list(range(1, 101))


def test_a_thread_does_not_wait_for_a_loop_that_has_stopped() -> None:
    loop = asyncio.new_event_loop()
    turn_of(loop, longest=0.001)()
    loop.close()


class State:
    """Remembers keys; each record takes a while."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.keys: list[bytes] = []
        self._work = work

    def replay(self, record: tuple[bytes, bytes | None]) -> None:
        self._work()
        self.keys.append(record[0])


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    log = Log.open(OsFiles(), str(tmp_path), LogConfig(), clean=True, now_ms=NOW)
    yield Partition("__transaction_state", 0, UUID(int=1), log, 0)
    log.close()


@pytest.mark.parametrize(("batches", "records"), [(1, 400), (400, 1), (20, 20)])
def test_no_part_of_a_replay_is_longer_than_a_slice_and_a_record(
    partition: Partition, batches: int, records: int
) -> None:
    """It paused after 64 KiB, however long these took: 11 ms where each record is a batch."""
    keys = [b"%d" % number for number in range(batches * records)]
    written = State(lambda: None)
    for first in range(0, len(keys), records):
        batch = [(key, b"v") for key in keys[first : first + records]]
        append_batch(partition, written, batch, NOW, ACKS_ALL, None)
    clock = Clock()
    a_record = SLICE_SECONDS / 7
    state = State(lambda: clock.advance(a_record))
    replay_log(partition.log, state, look=clock.slices().look)
    assert state.keys == written.keys == keys
    assert clock.longest < SLICE_SECONDS + 2 * a_record
    assert clock.pauses >= 40
