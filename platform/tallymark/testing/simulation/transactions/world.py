"""A run with transactions: writers, a copier, a reader of committed records, under the faults of a
plan; then everything is healed, and what was promised is checked."""

from __future__ import annotations

import asyncio
from typing import Final

from tallymark.client.producing.transactions.machine import Place
from tallymark.testing.simulation.consumer import SimulatedConsumer
from tallymark.testing.simulation.faults import heal, inject
from tallymark.testing.simulation.invariants import BrokenInvariantError
from tallymark.testing.simulation.plan import Plan, Transactions, transactional_plan_of
from tallymark.testing.simulation.run import TOPIC, Outcome, World, run_plan
from tallymark.testing.simulation.transactions.cluster import SimulatedCluster
from tallymark.testing.simulation.transactions.copier import Copier, position_of
from tallymark.testing.simulation.transactions.judging import Judge, hanging, once
from tallymark.testing.simulation.transactions.producer import Numbers, TransactionalProducer
from tallymark.testing.simulation.whole import nothing_is_parked, until_equal

COPY: Final = "copied"
_LOOK_SECONDS: Final = 0.5


def run_transactional_seed(seed: int) -> Outcome:
    """The run of a seed with transactions."""
    return run_transactional_plan(transactional_plan_of(seed))


def run_transactional_plan(plan: Plan) -> Outcome:
    """The run of a plan with transactions."""
    return run_plan(plan, TransactionalWorld)


class TransactionalWorld(World):
    """Of a plan with transactions."""

    judge: Judge
    _numbers: Numbers

    async def _go(self) -> None:
        plan, self.judge, self._numbers = self.plan, Judge(), Numbers()
        wanted = plan.transactions
        assert wanted is not None
        levels = {"replication.version": 1}
        if wanted.implicit:
            levels["transaction.version"] = 2
        self._start_all(levels)
        await self._create_topic(TOPIC, plan.partitions)
        await self._create_topic(COPY, 1)
        producers = self._producers(wanted)
        reader = self._reader("reader", TOPIC, plan.partitions)
        tasks = [self._begin(each.cluster.caller, each.run()) for each in producers]
        reading = self._begin(reader.caller, _read_on(reader))
        hijacks = [
            self.loop.create_task(self._hijack(at, wanted, producers, tasks))
            for at in wanted.hijacks
        ]
        faults = [self.loop.create_task(inject(each, self)) for each in plan.faults]
        await asyncio.sleep(plan.seconds)
        await heal([*faults, *hijacks], self)
        self.history.add("all", "healed")
        for producer in producers:
            producer.ending = True
            producer.cluster.late = 0.0
        await self._within("the producers end", asyncio.wait(tasks))
        for task in tasks:
            task.result()
        reader.ending = True
        await self._within("the reader ends", asyncio.wait([reading]))
        await self._nothing_hangs()
        await self._judge_all()
        for host in self.hosts:
            await host.stop()

    async def _judge_all(self) -> None:
        """When all is over."""
        values = await self._within("everything is read", self._read_committed(TOPIC))
        copies = await self._within("all copies are read", self._read_committed(COPY))
        cluster = self._cluster("auditor of positions")
        position = await self._begin(cluster.caller, position_of(cluster, (TOPIC, 0)))
        self._look()
        self.judge.all_or_nothing(once((*values, *copies)))
        source = [(at, value) for part, at, value in values if part == 0]
        copied = [value for _, _, value in copies]
        self.judge.exactly_once_through_the_copy(source, copied, position)
        for host in self.hosts:
            state = host.broker.state if host.broker is not None else None
            assert state is not None
            self.judge.logs(state.partitions.led())
            self.judge.live_equals_replayed(state)
        caller = self._caller("replicas")
        equal = self._begin(caller, until_equal(caller, self.hosts, self.plan.replicas))
        await self._within("all replicas are in sync and equal", equal)
        await nothing_is_parked(self.hosts)

    def _look(self) -> None:
        super()._look()
        if self.judge_is_there:
            self.judge.look(self.history.events, self.hosts)

    @property
    def judge_is_there(self) -> bool:
        """Whether the run has begun."""
        return hasattr(self, "judge")

    def _producers(self, wanted: Transactions) -> list[TransactionalProducer]:
        found = [self._producer(f"t{number}", f"t{number}") for number in range(wanted.writers)]
        chance = self.loop.chances.of("copier")
        places = (TOPIC, 0), (COPY, 0)
        cluster = self._cluster("copier")
        return [*found, Copier("copier", cluster, places, chance, self.history, self._numbers)]

    def _producer(self, name: str, process: str) -> TransactionalProducer:
        places: list[Place] = [(TOPIC, at) for at in range(self.plan.partitions)]
        chance = self.loop.chances.of(process)
        return TransactionalProducer(
            name, self._cluster(process), places, chance, self.history, self._numbers
        )

    def _cluster(self, name: str) -> SimulatedCluster:
        process = self._process(name)
        callers = [self._caller(name, topic, process) for topic in (TOPIC, COPY)]
        late = self.plan.transactions.late if self.plan.transactions is not None else 0.0
        return SimulatedCluster(callers, self.loop.chances.of(f"{name} late"), late)

    async def _hijack(
        self,
        at: float,
        wanted: Transactions,
        producers: list[TransactionalProducer],
        tasks: list[asyncio.Task[None]],
    ) -> None:
        """Another producer begins with the id of one that goes on, which then ends."""
        await asyncio.sleep(at)
        number = self.loop.chances.of(f"hijack {at}").randrange(wanted.writers)
        self.history.add("all", "hijacks", f"t{number}")
        producers[number].ending = True
        other = self._producer(f"t{number}", f"hijacker {len(producers)}")
        producers.append(other)
        tasks.append(self._begin(other.cluster.caller, other.run()))

    def _reader(self, name: str, topic: str, partitions: int) -> SimulatedConsumer:
        caller = self._caller(name, topic)
        chance = self.loop.chances.of(name)
        reader = SimulatedConsumer(name, caller, partitions, chance, self.history)
        reader.committed_only = True
        return reader

    async def _read_committed(self, topic: str) -> list[tuple[int, int, str]]:
        """(partition, offset, value) of all committed records, by a reader that is new."""
        partitions = self.plan.partitions if topic == TOPIC else 1
        reader = self._reader(f"auditor of {topic}", topic, partitions)

        async def read() -> None:
            for partition in reader.positions:
                while reader.positions[partition] != await reader.end_of(partition):
                    await reader.poll(partition)

        await self._begin(reader.caller, read())
        found: list[tuple[int, int, str]] = []
        for event in self.history.of("read committed"):
            if event.who == reader.name:
                partition, offset, _, value = event.facts
                assert isinstance(partition, int)
                assert isinstance(offset, int)
                found.append((partition, offset, str(value)))
        return found

    async def _nothing_hangs(self) -> None:
        async def until_none() -> None:
            while hanging(self.hosts):
                await asyncio.sleep(_LOOK_SECONDS)

        try:
            await self._within("", until_none())
        except BrokenInvariantError:
            raise BrokenInvariantError("nothing_hangs", hanging(self.hosts)) from None


async def _read_on(reader: SimulatedConsumer) -> None:
    while not reader.ending:
        for partition in reader.positions:
            await reader.poll(partition)
    reader.caller.close()
