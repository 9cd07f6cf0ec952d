"""One run: a cluster and its clients under the faults of a plan, then everything is healed, and
what was promised is checked."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tallymark.coordination import paths
from tallymark.protocol.messages import CreateTopicsRequest
from tallymark.protocol.messages.k19_create_topics import (
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from tallymark.testing.simulation.caller import Caller
from tallymark.testing.simulation.consumer import SimulatedConsumer
from tallymark.testing.simulation.engine.chances import Chances
from tallymark.testing.simulation.engine.jobs import Jobs
from tallymark.testing.simulation.engine.loop import SimulatedLoop, StuckError
from tallymark.testing.simulation.engine.process import RUNNING, Process
from tallymark.testing.simulation.engine.sealed import sealed
from tallymark.testing.simulation.faults import heal, inject
from tallymark.testing.simulation.history import History
from tallymark.testing.simulation.host import CHROOT, PORT, BrokerHost
from tallymark.testing.simulation.invariants import BrokenInvariantError, Invariants, logs_of
from tallymark.testing.simulation.network import Network
from tallymark.testing.simulation.plan import Plan, plan_of, replicated_plan_of
from tallymark.testing.simulation.producer import SimulatedProducer
from tallymark.testing.simulation.whole import nothing_is_parked, until_equal
from tallymark.testing.simulation.zookeeper import SimulatedZooKeeper

T = TypeVar("T")

TOPIC: Final = "simulated"
_LOOK_SECONDS: Final = 0.25
_WHOLE_SECONDS: Final = 90.0
"""So long after all faults the cluster must be whole."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``broken``: the invariant that did not hold, and why; ``log``: what the brokers logged."""

    plan: Plan
    history: History
    broken: BrokenInvariantError | None
    log: tuple[str, ...]
    steps: int
    seconds: float
    """Simulated."""

    @property
    def told(self) -> str:
        """For a person: the plan, what happened, what is wrong."""
        lines = [str(self.plan), *map(str, self.history.events)]
        return "\n".join((*lines, str(self.broken or "all invariants hold")))


def run_seed(seed: int) -> Outcome:
    """The run of a seed."""
    return run_plan(plan_of(seed))


def run_replicated_seed(seed: int) -> Outcome:
    """The run of a seed with three brokers and three replicas."""
    return run_plan(replicated_plan_of(seed))


def run_plan(plan: Plan, make: type[World] | None = None) -> Outcome:
    """The same plan always has the same outcome. ``make``: another kind of world."""
    loop = SimulatedLoop(Chances(plan.seed))
    jobs = Jobs(loop)
    world = (make or World)(plan, loop, jobs)
    log = _KeptLog(loop)
    collecting = gc.isenabled()
    gc.disable()  # what the collector ends, it ends at moments that no seed decides
    logger = logging.getLogger("tallymark")
    logger.addHandler(log)
    broken: BrokenInvariantError | None = None
    try:
        with sealed(jobs):
            loop.run_simulation(world.run())
    except BrokenInvariantError as error:
        broken = error
    except StuckError as error:
        broken = BrokenInvariantError("eventually_whole", str(error))
    finally:
        logger.removeHandler(log)
        with sealed(jobs):
            world.bury()
        loop.close()
        if collecting:
            gc.enable()
    return Outcome(plan, world.history, broken, tuple(log.lines), loop.steps, loop.time())


class World:
    """Everything in one run."""

    def __init__(self, plan: Plan, loop: SimulatedLoop, jobs: Jobs) -> None:
        self.plan = plan
        self.loop = loop
        self.history = History(loop.time)
        self.network = Network(loop)
        self.zookeeper = SimulatedZooKeeper(jobs, self.network)
        self.hosts = [
            BrokerHost(number, plan, jobs, self.network, self.zookeeper, self.history)
            for number in range(1, plan.brokers + 1)
        ]
        self.invariants = Invariants(plan.flush, TOPIC, plan.replicas)
        self.clients: list[str] = []
        """Their hosts."""
        self._processes: list[Process] = []
        self._main: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """To the end; BrokenInvariantError."""
        watching = self.loop.create_task(self._watch())
        main = self._main = self.loop.create_task(self._go())
        await asyncio.wait([main, watching], return_when=asyncio.FIRST_COMPLETED)
        for task in (watching, main):
            if task.done():
                task.result()
            else:
                task.cancel()
        self._look()

    def bury(self) -> None:
        """End all processes."""
        for host in self.hosts:
            if host.process is not None:
                host.process.kill()
        for process in self._processes:
            process.kill()

    async def _go(self) -> None:
        plan, chances = self.plan, self.loop.chances
        self._start_all({"replication.version": 1} if plan.replicas > 1 else {})
        await self._create_topic(TOPIC, plan.partitions)
        producers = [
            SimulatedProducer(
                f"p{n}", self._caller(f"p{n}"), plan.partitions, chances.of(f"p{n}"), self.history
            )
            for n in range(plan.producers)
        ]
        consumers = [
            SimulatedConsumer(
                f"c{n}", self._caller(f"c{n}"), plan.partitions, chances.of(f"c{n}"), self.history
            )
            for n in range(plan.consumers)
        ]
        everyone: list[SimulatedProducer | SimulatedConsumer] = [*producers, *consumers]
        tasks = [self._begin(each.caller, each.run()) for each in everyone]
        faults = [self.loop.create_task(inject(each, self)) for each in plan.faults]
        await asyncio.sleep(plan.seconds)
        await heal(faults, self)
        self.history.add("all", "healed")
        for producer in producers:
            producer.ending = True
        await self._within("the producers end", asyncio.wait(tasks[: len(producers)]))
        await self._within("the consumers reach the end", self._read_all(consumers))
        for consumer in consumers:
            consumer.ending = True
        await self._within("the consumers end", asyncio.wait(tasks))
        for task in tasks:
            task.result()
        read = await self._within("everything is read", self._audit())
        caller = self._caller("replicas")
        equal = self._begin(caller, until_equal(caller, self.hosts, plan.replicas))
        await self._within("all replicas are in sync and equal", equal)
        self._look()
        self.invariants.acknowledged_is_kept(read)
        await nothing_is_parked(self.hosts)
        for host in self.hosts:
            await host.stop()

    def _start_all(self, levels: Mapping[str, int]) -> None:
        """``levels`` of features, where any is above 0."""
        if levels:
            value = json.dumps({"features": levels, "version": 1}, separators=(",", ":"))
            self.zookeeper.make(f"{CHROOT}{paths.FEATURES}", value.encode())
        for host in self.hosts:
            host.on_power_failure = self._power_failed
            host.start()

    async def _create_topic(self, name: str, partitions: int) -> None:
        caller = self._caller("admin", name)

        async def create() -> None:
            least = CreateTopicsRequestConfig(
                name="min.insync.replicas", value=str(self.plan.min_insync)
            )
            topic = CreateTopicsRequestTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=self.plan.replicas,
                configs=(least,),
            )
            request = CreateTopicsRequest(topics=(topic,), timeout_ms=5000)
            while True:
                await caller.ask_any(request)
                if len((await caller.look()).topics[0].partitions) == partitions:
                    caller.close()
                    return
                await asyncio.sleep(0.2)

        await self._within("the topic is made", self._begin(caller, create()))

    async def _read_all(self, consumers: list[SimulatedConsumer]) -> None:
        """Every consumer stands at the end of every partition, and finds what it has committed."""
        for consumer in consumers:
            for partition in consumer.positions:
                while consumer.positions[partition] != await self._begin(
                    consumer.caller, consumer.end_of(partition)
                ):
                    await asyncio.sleep(0.2)
                while not await self._begin(consumer.caller, consumer.ask_committed(partition)):
                    await asyncio.sleep(0.2)

    async def _audit(self) -> dict[str, tuple[int, int]]:
        """All values from the beginning, with their places, by a consumer that is new."""
        auditor = SimulatedConsumer(
            "auditor",
            self._caller("auditor"),
            self.plan.partitions,
            self.loop.chances.of("auditor"),
            self.history,
        )

        async def read() -> None:
            for partition in auditor.positions:
                while auditor.positions[partition] != await auditor.end_of(partition):
                    await auditor.poll(partition)

        await self._begin(auditor.caller, read())
        found: dict[str, tuple[int, int]] = {}
        for event in self.history.of("polled"):
            if event.who == "auditor":
                partition, offset, _, value = event.facts
                assert isinstance(partition, int)
                assert isinstance(offset, int)
                if str(value) in found:
                    raise BrokenInvariantError("once", f"{value}: {found[str(value)]} and {offset}")
                found[str(value)] = partition, offset
        return found

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._look()

    def _look(self) -> None:
        self.invariants.look(self.history.events, self.hosts)
        for context in self.loop.errors:
            error = context.get("exception")
            why = f"{context.get('message')}: {error!r}"
            raise BrokenInvariantError("no_error_is_left", why) from error

    def _power_failed(self, host: BrokerHost) -> None:
        self.invariants.look(self.history.events, ())
        commits = [
            (event.who, partition)
            for event in self.history.of("commits")
            if isinstance(partition := event.facts[0], int) and event.facts[2] == host.node_id
        ]
        self.invariants.power_failed(host, _kept_on(host), commits)

    def _process(self, name: str) -> Process:
        process = Process(name, f"10.0.0.{len(self._processes) + 1}")
        self._processes.append(process)
        self.clients.append(process.host)
        return process

    def _caller(self, name: str, topic: str = TOPIC, process: Process | None = None) -> Caller:
        addresses = {host.node_id: (host.host, PORT) for host in self.hosts}
        return Caller(process or self._process(name), addresses, topic)

    def _begin(self, caller: Caller, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run ``work`` in the process of a client."""
        task = self.loop.create_task(work, context=caller.process.context)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.loop.errors.append({"message": "a client broke off", "exception": error})

    async def _within(self, what: str, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(_WHOLE_SECONDS):
                return await work
        except TimeoutError:
            raise BrokenInvariantError(
                "eventually_whole", f"{what}: not within {_WHOLE_SECONDS:g} s"
            ) from None


def _kept_on(host: BrokerHost) -> set[int]:
    """The partitions whose only replica is there."""
    return set(logs_of(host, TOPIC))


class _KeptLog(logging.Handler):
    """What the brokers log, with the simulated time."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        process = RUNNING.get()
        text = f"{self._loop.time():10.4f}  {process}: {record.levelname} {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            text += f" {record.exc_info[1]!r}"
        self.lines.append(text)
