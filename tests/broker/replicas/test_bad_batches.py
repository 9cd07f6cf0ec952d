"""A follower names a batch that came corrupt: the leader looks at its own disk, and believes that
alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

import pytest
from copying import Copying, eventually
from led_partitions import EPOCHS, LAG_MS, Led
from rotten_bytes import rot

from tallymark.broker.replicas.bad_batches import fault_at
from tallymark.broker.replicas.fetching import Followers
from tallymark.log import LogConfig
from tallymark.protocol.messages import FetchResponsePartition
from tallymark.replication.model import NO_LEADER, Tail
from tallymark.replication.progress import FollowerFetch
from tallymark.testing.memory_files import MemoryFiles

RECORDS = 4


def led(**kinds: object) -> Led:
    return Led(records=RECORDS, known=1, **kinds)  # type: ignore[arg-type]


def files_of(one: Led) -> MemoryFiles:
    files = one.partition.log.files
    assert isinstance(files, MemoryFiles)
    return files


def name(one: Led, broker: int, offset: int) -> None:
    """The follower's fetch that says that the batch at ``offset`` came corrupt."""
    last_epoch = 0 if offset else -1
    fetch = FollowerFetch(broker, EPOCHS[broker], offset, last_epoch, corrupt=True)
    one.lead.fetched(fetch)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.001)


def test_a_leader_whose_bytes_are_wrong_resigns() -> None:
    async def story() -> None:
        one = led()
        one.leads.start()
        rot(files_of(one), one.partition.log, 2)
        one.fetch(2)
        name(one, 3, 2)
        await until(lambda: one.state.leader == NO_LEADER)
        assert one.state.isr == (2, 3)
        assert one.state.incomplete == {1: Tail(0, 2)}
        assert one.lead.is_over
        assert one.partition.log.corrupt_from == 2
        await one.leads.stop()

    asyncio.run(story())


def test_a_wrong_accusation_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A bad cable, or a broker that lies, must not cost a good leader its lead."""

    async def story() -> None:
        one = led()
        one.leads.start()
        rot(files_of(one), one.partition.log, 3)
        one.fetch(2)
        for offset in (2, 0, RECORDS):
            name(one, 3, offset)
            await until(lambda: not one.leads.bad_batches.is_busy)
        assert not one.lead.leader.resigns
        assert one.partition.log.corrupt_from == -1
        assert one.states.calls == []
        await one.leads.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    (line,) = [each for each in caplog.messages if "it is good on this disk" in each]
    assert line.startswith("broker 3 got a corrupt batch partition=t-0 offset=2")


def test_it_leads_on_until_there_is_a_successor_and_then_resigns_once() -> None:
    async def story() -> None:
        one = led(isr=(1, 2))
        one.leads.start()
        rot(files_of(one), one.partition.log, 2)
        name(one, 3, 2)
        await until(lambda: one.lead.leader.resigns)
        await one.after(LAG_MS + 1)
        assert one.state.leader == 1, "broker 2 has not been heard of"
        one.append()
        one.fetch(2)
        await until(lambda: one.state.leader == NO_LEADER)
        assert one.state.leader_epoch == 1
        assert one.state.isr == (2,)
        await one.leads.stop()

    asyncio.run(story())


def test_a_corrupt_batch_that_retention_deletes_is_no_reason_any_more() -> None:
    async def story() -> None:
        one = led(isr=(1,), min_insync=1)
        rot(files_of(one), one.partition.log, 2)
        name(one, 3, 2)
        await until(lambda: one.lead.leader.resigns)
        one.partition.log.delete_records(3)
        await one.after(1_000)
        assert not one.lead.leader.resigns
        await one.leads.stop()

    asyncio.run(story())


def test_a_leader_whose_disk_has_failed_resigns() -> None:
    """It kept the lead until it was restarted: no producer could write, though two had all."""

    async def story() -> None:
        one = led()
        one.leads.start()
        for broker in (2, 3):
            one.fetch(broker)
        one.partition.log.flush()
        one.append()
        files_of(one).break_disk("/")
        with pytest.raises(Exception, match="KAFKA_STORAGE_ERROR"):
            one.partition.log.flush()
        await one.after(1_000)
        await until(lambda: one.state.leader == NO_LEADER)
        assert one.state.incomplete == {1: Tail(0, RECORDS)}
        await one.leads.stop()

    asyncio.run(story())


@pytest.mark.parametrize("at", [-1, 8, 16, 20, 30, 60])
def test_any_byte_that_a_follower_would_not_take_is_found(at: int) -> None:
    """Size, magic, CRC, header, records."""
    one = led()
    target = one.partition.log
    assert fault_at(target, 2) is None
    rot(files_of(one), target, 2, at)
    assert fault_at(target, 2) is not None


def test_offsets_that_are_not_there_or_inside_of_a_batch_are_no_fault() -> None:
    copying = Copying(config=LogConfig(retention_ms=-1))
    copying.lead(0, 0, 0)  # two records a batch
    target = copying.leaders.log
    target.delete_records(3)
    for offset in (-5, 0, 3, 4, 5, 6, 7, 1 << 60):
        assert fault_at(target, offset) is None


def test_a_follower_names_a_corrupt_batch_until_it_is_good() -> None:
    """And what is good before it is kept: its log ends where the corrupt batch begins."""
    copying = Copying(config=LogConfig(retention_ms=-1))
    copying.lead(0, 0, 0)

    def corrupt(answer: FetchResponsePartition) -> FetchResponsePartition:
        data = bytearray(answer.records or b"")
        if data:
            data[-1] ^= 1
        return replace(answer, records=bytes(data))

    copying.leaders.change = corrupt

    def named() -> list[int]:
        asked = [
            part
            for fetch in copying.leader.fetches
            for topic in fetch.topics
            for part in topic.partitions
        ]
        return [part.fetch_offset for part in asked if part.corrupt]

    async def work(_: Followers) -> None:
        await eventually(lambda: len(copying.leader.fetches) > 5)
        copying.leaders.change = lambda answer: answer
        await eventually(copying.is_equal)

    copying.run(work)
    assert named() == [4], "a session repeats what was asked once"


@pytest.mark.parametrize("at", [-1, 8])
def test_a_leader_that_resigned_copies_its_log_again_from_the_corrupt_batch(at: int) -> None:
    """With a size that is wrong the log cannot even be cut there: all of it is copied anew."""
    copying = Copying(config=LogConfig(retention_ms=-1))
    copying.lead(0, 0, 0)
    copying.until_equal()
    log = copying.follower.log
    rot(copying.follower.files, log, 2, at)
    log.corrupt_from = 2
    copying.lead(1)
    copying.until_equal()
    assert log.corrupt_from == -1
    assert not log.is_corrupt
    assert fault_at(log, 2) is None


def test_what_is_copied_again_is_not_said_to_be_lost(caplog: pytest.LogCaptureFixture) -> None:
    """The other members of the ISR have it: an incident of lost records would be a false alarm."""
    copying = Copying(config=LogConfig(retention_ms=-1))
    copying.lead(0, 0, 0)
    copying.until_equal()
    assert copying.partition.high_watermark == 6
    rot(copying.follower.files, copying.follower.log, 2)
    copying.follower.log.corrupt_from = 2
    copying.lead(1)
    with caplog.at_level(logging.ERROR):
        copying.until_equal()
    assert not [line for line in caplog.messages if "committed records are cut" in line]
