"""Fetching from many leaders for one reader; no leader holds up the others.

::

    leader A   ──request────────────answer──►│ picked up at once
    leader B   ──request (long poll) ─ ─ ─ ─ ┼ ─ ─ answer ─► by the next call
    leader C   ──connect ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┼ ─ ─ ─ ─ ─ ─ ─ ─ ─ error ─► by a later one

A call returns when one of the leaders has answered; what the others are asked for goes on. So there
is one request at most under way at each leader, and one answer at most that was not picked up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tallymark.client.core.cluster import Cluster
from tallymark.client.reading.fetch_request import FetchLimits
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.client.reading.fetching import Fetcher, Outcome, may_pass
from tallymark.net.addresses import Address
from tallymark.protocol.topic_partition import TopicPartition

_SLACK: Final = 0.05
"""Seconds that a call may take longer than the wait that the brokers are asked for."""


@dataclass(slots=True)
class _Leader:
    task: asyncio.Task[list[Outcome]] | None = None
    asked: Sequence[FetchSpec] = ()
    found: dict[FetchSpec, Outcome] = field(default_factory=dict)
    served: dict[TopicPartition, int] = field(default_factory=dict)
    """The number of the call that returned something of a partition last."""

    def in_turn(self, spec: FetchSpec) -> int:
        """What was read longest ago comes first: a broker answers in the order of the request, and
        with so many bytes at most."""
        return self.served.get((spec.topic, spec.partition), 0)


class ReadyFetcher:
    """See the module. For one caller; lives in its client's event loop."""

    def __init__(self, cluster: Cluster, fetcher: Fetcher) -> None:
        self._cluster = cluster
        self._fetcher = fetcher
        self._leaders: dict[Address, _Leader] = {}
        self._learning: asyncio.Task[None] | None = None
        self._calls = 0

    async def fetch(self, specs: Sequence[FetchSpec], limits: FetchLimits) -> list[Outcome | None]:
        """An outcome for each spec, in their order; None where there is none yet. Returns with
        the first outcome, or after ``limits.max_wait_ms``.

        Raises ConnectError while no leader at all is known and no broker can be asked.
        """
        self._calls += 1
        await self._learn(specs)
        outcomes, by_leader = self._fetcher.divide(specs)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limits.max_wait_ms / 1000 + _SLACK
        while True:
            for address, indices in by_leader.items():
                self._ask(address, {i: specs[i] for i in indices}, outcomes, limits)
            left = deadline - loop.time()
            tasks = [self._leaders[address].task for address in by_leader]
            pending = [task for task in tasks if task is not None]
            if outcomes or left <= 0 or not pending:
                break
            await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        self._forget_others(by_leader)
        if any(map(may_pass, outcomes.values())):
            self._cluster.refresh_soon()
        return [outcomes.get(index) for index in range(len(specs))]

    async def close(self) -> None:
        """End what is under way."""
        tasks: list[asyncio.Task[object]] = [one.task for one in self._leaders.values() if one.task]
        if self._learning is not None:
            tasks.append(self._learning)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _learn(self, specs: Sequence[FetchSpec]) -> None:
        """Request the leaders that are not known; wait for that only if there is nothing else."""
        unknown = self._fetcher.unknown(specs)
        self._cluster.refresh_if_old()
        if not unknown:
            return
        if self._learning is None or self._learning.done():
            self._learning = asyncio.create_task(self._cluster.refresh(unknown))
            self._learning.add_done_callback(_look_at)
        if all(spec.topic in unknown for spec in specs):
            await asyncio.shield(self._learning)

    def _ask(
        self,
        address: Address,
        wanted: dict[int, FetchSpec],
        outcomes: dict[int, Outcome],
        limits: FetchLimits,
    ) -> None:
        """Pick up what the leader has answered, and ask it for the rest."""
        leader = self._leaders.setdefault(address, _Leader())
        if leader.task is not None and leader.task.done():
            task, leader.task = leader.task, None
            leader.found = dict(zip(leader.asked, task.result(), strict=True))
        missing: list[FetchSpec] = []
        has_answered = False
        for index, spec in wanted.items():
            outcome = leader.found.pop(spec, None)
            if outcome is not None and _is_news(outcome):
                outcomes[index] = outcome
                has_answered = True
                leader.served[spec.topic, spec.partition] = self._calls
            elif index not in outcomes:
                missing.append(spec)
        # A request without what was just found would wait for the others' next records, and those
        # of the partition that was just read would wait behind it.
        if missing and leader.task is None and not has_answered:
            leader.asked = missing = sorted(missing, key=leader.in_turn)
            leader.task = asyncio.create_task(self._fetcher.from_leader(address, missing, limits))
            leader.task.add_done_callback(_look_at)

    def _forget_others(self, asked: dict[Address, list[int]]) -> None:
        for address, leader in list(self._leaders.items()):
            if address not in asked and (leader.task is None or leader.task.done()):
                del self._leaders[address]


def _is_news(outcome: Outcome) -> bool:
    return not isinstance(outcome, Fetched) or outcome.next_offset > outcome.offset


def _look_at(task: asyncio.Task[object] | asyncio.Task[list[Outcome]] | asyncio.Task[None]) -> None:
    """A caller that waits sees the error; without one asyncio need not complain."""
    if not task.cancelled():
        task.exception()
