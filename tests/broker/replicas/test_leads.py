"""Partitions with several replicas that are led here: who is answered when, what is written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from exposure import exposed
from led_partitions import CONFIG, EPOCHS, LAG_MS, ME, Led, views
from memory_states import Fault

from tallymark.broker.replicas.leading import Leads
from tallymark.errors import KafkaError
from tallymark.replication.model import Assignment, PartitionState, PartitionView


def on_a_loop(story: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test that is a coroutine."""

    def run() -> None:
        asyncio.run(story())  # type: ignore[arg-type]

    run.__doc__ = story.__doc__
    return run


class Counted:
    """A fetch that is parked."""

    def __init__(self) -> None:
        self.woken = 0

    def set(self) -> None:
        self.woken += 1


# --- acks=all


@on_a_loop
async def test_a_producer_is_answered_when_the_isr_has_its_record() -> None:
    led = Led()
    first, second = led.produce(), led.produce()
    led.fetch(2)
    assert led.answers.found == {first: [], second: []}
    led.fetch(3, first + 1)
    assert led.answers.found == {first: ["NONE"], second: []}
    assert led.partition.high_watermark == first + 1
    led.fetch(3)
    assert led.answers.found == {first: ["NONE"], second: ["NONE"]}


@on_a_loop
async def test_too_few_in_sync_is_said_before_the_append_and_after_it() -> None:
    led = Led(min_insync=3)
    waiting = led.produce()
    await led.after(LAG_MS)
    assert led.answers.found[waiting] == []  # in the ISR, and given the whole lag time
    await led.after(1)
    assert led.answers.found[waiting] == ["NOT_ENOUGH_REPLICAS_AFTER_APPEND"]
    end = led.partition.log.end_offset
    with pytest.raises(KafkaError, match=r"1 in sync; broker 2 has not.*NOT_ENOUGH_REPLICAS:"):
        led.produce()
    assert led.partition.log.end_offset == end
    led.append(acks=1)  # acks=0 and acks=1 never look at it
    for broker in (2, 3):
        led.fetch(broker)
    assert led.partition.high_watermark == end + 1
    led.produce()


@on_a_loop
async def test_what_is_appended_without_the_check_fails_with_the_next_look() -> None:
    """A coordinator's append that nothing has checked would wait for ever."""
    led = Led(min_insync=3)
    await led.after(LAG_MS + 1)
    offset = led.append(acks=1)
    waiting = exposed(led.partition, offset)
    assert waiting is not None
    await led.after(1000)
    with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS_AFTER_APPEND"):
        await waiting


@on_a_loop
async def test_a_producer_is_told_when_its_time_is_up() -> None:
    led = Led()
    offset = led.produce(timeout_ms=1)
    slow = led.produce(timeout_ms=1_000_000)
    while not led.answers.found[offset]:
        await asyncio.sleep(0.001)
    led.fetch(2)
    led.fetch(3)
    assert led.answers.found == {offset: ["REQUEST_TIMED_OUT"], slow: ["NONE"]}


@on_a_loop
async def test_nothing_is_answered_after_the_lead_is_lost() -> None:
    """KAFKA-20634: what a newer leader commits may be other records at the same offsets."""
    led = Led()
    offset = led.produce()
    led.leads.state_seen(("t", 0), replace(led.state, leader=2, leader_epoch=1, version=5))
    assert led.answers.found[offset] == ["NOT_LEADER_OR_FOLLOWER"]
    for refused in (led.produce, lambda: led.fetch(2)):
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            refused()
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        led.partition.append_in_turn(led.batch(), 0)
    assert led.partition.high_watermark == 0


@pytest.mark.parametrize(
    ("deleted", "answer"), [(False, "NOT_LEADER_OR_FOLLOWER"), (True, "UNKNOWN_TOPIC_OR_PARTITION")]
)
def test_an_ended_lead_answers_what_waits(deleted: bool, answer: str) -> None:
    async def story() -> None:
        led = Led()
        offset, watching = led.produce(), Counted()
        led.lead.watch(watching)
        lead = led.lead
        led.leads.end(("t", 0), deleted=deleted)
        led.leads.end(("t", 0))
        assert led.answers.found[offset] == [answer]
        assert (watching.woken, lead.is_over, len(led.leads)) == (1, True, 0)

    asyncio.run(story())


@on_a_loop
async def test_a_client_that_is_gone_is_not_answered() -> None:
    led = Led()
    offset = led.append()
    waiting = exposed(led.partition, offset)
    assert waiting is not None
    waiting.cancel()
    await asyncio.sleep(0)
    led.fetch(2)
    led.fetch(3)
    assert waiting.cancelled()


# --- who is woken


@on_a_loop
async def test_an_append_wakes_followers_and_a_commit_wakes_consumers() -> None:
    led = Led()
    consumer, follower = Counted(), Counted()
    led.partition.watch(consumer)
    led.lead.watch(follower)
    led.append()
    assert (consumer.woken, follower.woken) == (0, 1)
    led.fetch(2)
    led.fetch(3)
    assert (consumer.woken, follower.woken) == (1, 1)
    led.lead.unwatch(follower)
    led.append()
    assert follower.woken == 1


# --- changes of the ISR


def test_who_falls_behind_leaves_with_who_why_and_how_far(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        led = Led()
        for _ in range(5):
            led.append()
        led.fetch(3, 2)
        for _ in range(4):
            await led.after(10_000)
            led.fetch(2)
        assert await led.write()
        assert (led.state.isr, led.metrics.isr_changes) == ((1, 2), {"shrink": 1})
        assert led.partition.high_watermark == 5  # it went on with the shrink

    with caplog.at_level(logging.INFO):
        asyncio.run(story())
    (line,) = [each for each in caplog.messages if each.startswith("isr changed")]
    assert "partition=t-0 isr=(1, 2) before=(1, 2, 3)" in line
    assert "broker 3 is 3 behind" in line


@on_a_loop
async def test_who_has_caught_up_joins_as_the_broker_that_it_is() -> None:
    led = Led(isr=(1, 2), records=3)
    led.fetch(2)
    led.fetch(3)
    assert await led.write()
    ((change,),) = led.states.calls
    assert (led.state.isr, change.joining) == ((1, 2, 3), {3: 30})
    assert led.metrics.isr_changes == {"expand": 1}


@on_a_loop
async def test_a_broker_that_has_registered_again_does_not_join_by_what_it_had_before() -> None:
    """KIP-903: it may have come back with an emptier disk."""
    led = Led(isr=(1, 2), records=3)
    led.fetch(2)
    led.fetch(3)
    led.states.epochs[3] = 31  # this broker has not heard of it
    assert not await led.write()
    led.fetch(3)
    await led.after(1000)
    assert await led.write()
    assert (led.state.isr, len(led.states.calls)) == ((1, 2), 1)
    await led.brokers(EPOCHS | {3: 31})
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        led.fetch(3)
    led.fetch(3, epoch=31)
    assert await led.write()
    assert led.state.isr == (1, 2, 3)


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.REQUEST_LOST, Fault.LATE])
def test_an_unknown_outcome_is_read_before_the_next_decision(fault: Fault) -> None:
    """KAFKA-2729: a leader that went on from what it believed refused all ISR changes until its
    restart."""

    async def story() -> None:
        led = Led(isr=(1, 2), records=3)
        led.states.faults.append(fault)
        led.fetch(2)
        led.fetch(3)
        assert not await led.write()
        led.states.can_read = False
        led.append()
        led.fetch(2)
        await led.after(1000)
        assert not await led.write()
        assert len(led.states.calls) == 1  # nothing is decided meanwhile
        assert led.partition.high_watermark == 3  # broker 3 may be in the ISR
        led.states.can_read = True
        await led.write()
        led.states.execute_late()
        led.fetch(3)
        for _ in range(3):
            await led.write()
        assert led.state.isr == (1, 2, 3)
        assert led.lead.leader.state == led.state
        assert led.partition.high_watermark == 4

    asyncio.run(story())


@on_a_loop
async def test_wishes_of_all_partitions_are_written_together() -> None:
    led = Led(700, isr=(1, 2))
    led.states.gate.clear()
    writing = asyncio.create_task(led.leads.writer.run())
    for index in range(700):
        led.fetch(3, index=index)
        await asyncio.sleep(0)
    led.states.gate.set()
    while any(state.isr != (1, 2, 3) for state in led.states.states.values()):
        await asyncio.sleep(0)
    writing.cancel()
    sizes = [len(call) for call in led.states.calls]
    assert sum(sizes) == 700  # one write under way a partition: none is written twice
    assert max(sizes) == 500
    assert len(sizes) <= 3


@on_a_loop
async def test_a_write_that_another_one_forestalled_is_decided_anew() -> None:
    led = Led(isr=(1, 2), records=1)
    led.fetch(2)
    led.fetch(3)
    led.states.by_others(("t", 0), isr=(1,))
    assert not await led.write()
    assert led.lead.leader.state.isr == (1,)
    assert await led.write()
    assert set(led.state.isr) == {1, 3}, "the other one was taken out, and has to fetch again"
    led.fetch(2)
    assert await led.write()
    assert led.state.isr == (1, 2, 3)


@on_a_loop
async def test_what_was_not_sent_is_written_later() -> None:
    led = Led(isr=(1, 2), records=1)
    led.states.faults += [Fault.NOT_SENT, Fault.NOT_SENT]
    led.fetch(2)
    led.fetch(3)
    assert not await led.write()  # the writer pauses
    assert not await led.write()
    assert await led.write()
    assert led.state.isr == (1, 2, 3)
    assert led.metrics.isr_changes == {"refused": 2, "expand": 1}


@on_a_loop
async def test_the_outcome_for_a_lead_that_has_ended_changes_nothing() -> None:
    led = Led(isr=(1, 2), records=1)
    led.states.gate.clear()
    led.fetch(2)
    led.fetch(3)
    lead = led.lead
    writing = asyncio.create_task(led.write())
    await asyncio.sleep(0)
    led.leads.end(("t", 0))
    led.states.faults.append(Fault.ANSWER_LOST)
    led.states.gate.set()
    await writing
    await led.write()
    assert lead.leader.state.isr == (1, 2)
    assert len(led.states.calls) == 1


@on_a_loop
async def test_what_a_lead_wished_for_that_has_ended_is_not_written() -> None:
    led = Led(2, isr=(1, 2), records=1)
    for index in range(2):
        led.fetch(2, index=index)
        led.fetch(3, index=index)
    led.leads.end(("t", 0))
    assert await led.write()
    ((change,),) = led.states.calls
    assert change.partition == ("t", 1)


# --- brokers, settings, time


@on_a_loop
async def test_a_broker_that_is_gone_is_not_in_sync_at_once() -> None:
    led = Led(min_insync=3)
    offset = led.produce()
    await led.brokers({1: 10, 2: 20})
    assert led.answers.found[offset] == ["NOT_ENOUGH_REPLICAS_AFTER_APPEND"]
    assert (led.lead.is_enough, led.lead.is_under_replicated) == (False, True)
    await led.brokers(EPOCHS)
    assert led.lead.is_enough


@on_a_loop
async def test_settings_and_assignment_change_while_it_leads() -> None:
    led = Led(min_insync=3)
    await led.brokers({1: 10, 2: 20})
    assert not led.lead.is_enough
    led.leads.configured(("t", 0), Assignment((1, 2, 3)), 2)
    assert led.lead.is_enough
    led.leads.configured(("t", 0), Assignment((1,)), 3)
    assert led.lead.is_enough  # as many as there are replicas
    led.leads.configured(("u", 0), Assignment((1,)), 3)  # not led here: nothing happens


@on_a_loop
async def test_running_tasks_tick_and_write() -> None:
    led = Led(isr=(1, 2), records=1)
    led.leads.start()
    led.fetch(2)
    led.fetch(3)
    led.leads.brokers_changed(views({1: 10, 2: 20, 3: 30}))
    while led.state.isr != (1, 2, 3):
        await asyncio.sleep(0)
    await led.leads.stop()


# --- begin


@on_a_loop
async def test_a_partition_that_gets_replicas_keeps_what_consumers_have_seen() -> None:
    led = Led()
    single = led.opened(("u", 0), CONFIG)
    single.append(led.batch(), 0)
    assert single.high_watermark == 1
    state = PartitionState(ME, 0, (1,), version=1)
    led.leads.begin(single, PartitionView(Assignment((1, 2), adding=(2,)), state, 1))
    single.append(led.batch(), 0)
    assert single.high_watermark == 2  # alone in the ISR


@on_a_loop
async def test_a_new_leader_begins_with_the_high_watermark_that_it_knew() -> None:
    led = Led(records=5, known=2)
    assert led.partition.high_watermark == 2
    assert not led.lead.is_epoch_committed
    led.fetch(2)
    led.fetch(3, 4)
    assert led.partition.high_watermark == 4
    led.fetch(3)
    assert led.lead.is_epoch_committed


@on_a_loop
async def test_a_lead_begins_in_the_epoch_of_its_partition_only() -> None:
    led = Led()
    partition = led.opened(("u", 0), CONFIG)
    assignment = Assignment((1, 2))
    for leader, epoch in ((2, 0), (1, 7)):
        state = PartitionState(leader, epoch, (1, 2))
        with pytest.raises(ValueError, match="is not the one of which"):
            led.leads.begin(partition, PartitionView(assignment, state, 1))
    with pytest.raises(ValueError, match="is led already"):
        led.leads.begin(led.partition, PartitionView(assignment, led.state, 1))


def test_leads_are_made_without_a_loop() -> None:
    assert len(Leads(1, Led().states, lambda: 0)) == 0


# --- flush.before.expose, DeleteRecords


@on_a_loop
async def test_with_flush_before_expose_the_own_end_is_what_is_flushed() -> None:
    led = Led(config=replace(CONFIG, flush_before_expose=True))
    offset = led.produce()
    led.fetch(2)
    led.fetch(3)
    assert led.partition.high_watermark == 0
    assert led.flushes  # requested at once
    led.partition.log.flush()
    led.partition.flushed()
    assert led.answers.found[offset] == ["NONE"]


@on_a_loop
async def test_a_failed_flush_fails_what_waits() -> None:
    led = Led(config=replace(CONFIG, flush_before_expose=True))
    offset = led.produce()
    led.partition.failed(KafkaError(56, "no room"))
    assert led.answers.found[offset] == ["KAFKA_STORAGE_ERROR"]


@on_a_loop
async def test_deleted_records_are_gone_when_every_live_replica_has_deleted_them() -> None:
    led = Led(records=6)
    for broker in (2, 3):
        led.fetch(broker)
    assert await led.partition.delete_records(4) == 4
    waiting = asyncio.create_task(led.lead.started_at(4))
    await asyncio.sleep(0)
    led.fetch(2, log_start=4)
    await asyncio.sleep(0)
    assert not waiting.done()
    led.fetch(3, log_start=4)
    assert await waiting == 4


@pytest.mark.parametrize("lost", [True, False])
def test_a_replica_that_is_gone_is_not_waited_for(lost: bool) -> None:
    async def story() -> None:
        led = Led(records=6)
        for broker in (2, 3):
            led.fetch(broker)
        await led.partition.delete_records(4)
        led.fetch(2, log_start=4)
        waiting = asyncio.create_task(led.lead.started_at(4))
        await asyncio.sleep(0)
        if lost:
            led.leads.end(("t", 0))
            with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
                await waiting
        else:
            await led.brokers({1: 10, 2: 20})
            assert await waiting == 4

    asyncio.run(story())
