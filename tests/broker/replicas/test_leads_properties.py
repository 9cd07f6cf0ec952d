"""A leader's side in any order of appends, fetches, restarts of followers, writes and their faults:
nobody is told that a record is committed before every member of the ISR has it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from led_partitions import EPOCHS, LAG_MS, ME, Led
from memory_states import Fault

from tallymark.errors import KafkaError

FOLLOWERS: Final = (2, 3)
STEPS: Final = st.one_of(
    st.tuples(st.just("produce")),
    st.tuples(st.just("fetch"), st.sampled_from(FOLLOWERS), st.integers(0, 3)),
    st.tuples(st.just("fetch"), st.sampled_from(FOLLOWERS), st.just(0)),
    st.tuples(st.just("pass"), st.sampled_from([1000, LAG_MS // 2, LAG_MS + 1])),
    st.tuples(st.just("write"), st.sampled_from([None, None, *Fault])),
    st.tuples(st.just("execute late")),
    st.tuples(st.just("restart"), st.sampled_from(FOLLOWERS)),
    st.tuples(st.just("hear of brokers")),
    st.tuples(st.just("go"), st.sampled_from(FOLLOWERS)),
    st.tuples(st.just("others write")),
)


class World:
    """The partition, and what its followers really have."""

    def __init__(self, min_insync: int) -> None:
        self.led = Led(min_insync=min_insync)
        self.least = min_insync
        self.ends = {ME: 0, 2: 0, 3: 0}
        self.epochs = dict(EPOCHS)
        self.answered: dict[int, str] = {}
        self.high_watermark = 0

    async def do(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("produce",):
                self._produce()
            case ("fetch", broker, behind):
                self._fetch(broker, behind)
            case ("pass", ms):
                await self.led.after(ms)
            case ("write", fault):
                self.led.states.faults = [fault] if fault else []
                await self.led.write()
            case ("execute late",):
                self.led.states.execute_late()
            case ("restart", broker):
                self.epochs[broker] = self.led.states.epochs[broker] = self.epochs[broker] + 1
            case ("hear of brokers",):
                await self.led.brokers(self.epochs)
            case ("go", broker):
                self.led.leads.brokers_changed({})
                await self.led.brokers({b: e for b, e in self.epochs.items() if b != broker})
                self.led.states.epochs = dict(self.epochs)
            case ("others write",):
                self.led.states.by_others(("t", 0))
                self.led.leads.state_seen(("t", 0), self.led.state)
        self.check()

    async def heal(self) -> None:
        """All is well again: everything becomes whole."""
        self.led.states.execute_late()
        self.led.states.faults = []
        await self.led.brokers(self.epochs)
        for _ in range(6):
            for broker in FOLLOWERS:
                self._fetch(broker, 0)
            await self.led.after(1000)
            await self.led.write()
            self.check()
        end = self.led.partition.log.end_offset
        assert self.led.state.isr == (1, 2, 3)
        assert self.led.partition.high_watermark == end
        assert self.led.lead.leader.state == self.led.state
        assert not self.led.lead.is_under_replicated
        assert all(outcomes for outcomes in self.led.answers.found.values())
        offset = self.led.produce()
        for broker in FOLLOWERS:
            self._fetch(broker, 0)
        assert self.led.answers.found[offset] == ["NONE"]

    def check(self) -> None:
        led, state = self.led, self.led.state
        high = led.partition.high_watermark
        assert self.high_watermark <= high <= led.partition.log.end_offset
        self.high_watermark = high
        assert ME in state.isr
        assert len(state.isr) >= self.least
        assert all(self.ends[broker] >= high for broker in state.isr), (state.isr, self.ends, high)
        for offset, outcomes in led.answers.found.items():
            assert len(outcomes) <= 1
            if outcomes == ["NONE"]:
                assert offset < high
            elif not outcomes:
                assert offset >= high

    def _produce(self) -> None:
        if self.led.lead.is_enough:
            self.led.produce(timeout_ms=10**9)
        else:
            end = self.led.partition.log.end_offset
            with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
                self.led.produce(timeout_ms=10**9)
            assert self.led.partition.log.end_offset == end
        self.ends[ME] = self.led.partition.log.end_offset

    def _fetch(self, broker: int, behind: int) -> None:
        end = self.led.partition.log.end_offset
        self.ends[broker] = max(self.ends[broker], end - behind)
        self.led.fetch(broker, self.ends[broker], epoch=self.epochs[broker])


@settings(deadline=None)
@given(st.integers(1, 3), st.lists(STEPS, max_size=60))
def test_what_is_told_to_be_committed_is_on_every_member_of_the_isr(
    min_insync: int, steps: list[tuple[Any, ...]]
) -> None:
    async def story() -> None:
        world = World(min_insync)
        for step in steps:
            await world.do(step)
        await world.heal()

    asyncio.run(story())
