"""The loop, jobs and what is sealed off."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tallymark.testing.simulation.engine.chances import Chances
from tallymark.testing.simulation.engine.jobs import Jobs
from tallymark.testing.simulation.engine.loop import SimulatedLoop, StuckError
from tallymark.testing.simulation.engine.process import Process
from tallymark.testing.simulation.engine.sealed import LeftSimulationError, sealed
from tallymark.testing.simulation.engine.threads import SimulatedThreads


class Bench:
    """A simulation with nothing in it."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = SimulatedLoop(Chances(seed), most_steps=100_000)
        self.jobs = Jobs(self.loop)
        self.process = Process("p", "10.0.0.1")

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """``main`` in the process."""

        async def inside() -> Any:
            return await self.loop.create_task(main, context=self.process.context)

        with sealed(self.jobs):
            try:
                return self.loop.run_simulation(inside())
            finally:
                self.process.kill()
                self.loop.close()


def test_time_passes_only_when_nothing_else_is_left() -> None:
    bench = Bench()

    async def main() -> float:
        await asyncio.sleep(3600)
        return bench.loop.time()

    began = time.monotonic()
    assert bench.run(main()) == pytest.approx(3600)
    assert time.monotonic() - began < 60


def test_the_order_of_processes_is_the_seeds() -> None:
    def order(seed: int) -> str:
        bench, said = Bench(seed), list[str]()

        async def main() -> str:
            for name in "abcdefgh":
                process = Process(name, name)
                bench.loop.call_soon(said.append, name, context=process.context)
            await asyncio.sleep(1)
            return "".join(said)

        return str(bench.run(main()))

    assert order(1) == order(1)
    assert len({order(seed) for seed in range(20)}) > 10


def test_callbacks_of_one_process_keep_their_order() -> None:
    bench, said = Bench(), list[int]()

    async def main() -> None:
        for number in range(50):
            bench.loop.call_soon(said.append, number)
        await asyncio.sleep(1)

    bench.run(main())
    assert said == list(range(50))


@pytest.mark.parametrize(
    "leave",
    [
        lambda: threading.Thread(target=print).start(),
        lambda: time.sleep(1),
    ],
)
def test_threads_and_real_waiting_are_refused(leave: Callable[[], Any]) -> None:
    async def main() -> None:
        with pytest.raises(LeftSimulationError):
            leave()

    Bench().run(main())


def test_garbage_of_before_is_not_collected_in_the_simulation() -> None:
    """In a worker where Spark had run, the collector of garbage finalized one of its sockets in the
    middle of a simulation. That finalizer sleeps, so the simulation was refused."""

    async def main() -> bool:
        return gc.isenabled()

    assert not Bench().run(main())
    assert gc.isenabled()


def test_threads_from_before_go_on() -> None:
    """Spark's client has a thread that sleeps for a second again and again. It was refused like the
    simulation, and the test that ran then failed."""
    began, done = threading.Event(), list[bytes]()

    def outside() -> None:
        began.wait()
        time.sleep(0.001)
        inner = threading.Thread(target=lambda: done.append(os.urandom(16)))
        inner.start()
        inner.join()

    before = threading.Thread(target=outside)
    before.start()

    async def main() -> bytes:
        began.set()
        before.join()
        return os.urandom(16)

    assert Bench(1).run(main()) == Bench(1).run(_sixteen_bytes())
    assert len(done) == 1


async def _sixteen_bytes() -> bytes:
    return os.urandom(16)


def test_random_bytes_are_the_seeds() -> None:
    assert Bench(1).run(_sixteen_bytes()) == Bench(1).run(_sixteen_bytes())
    assert Bench(1).run(_sixteen_bytes()) != Bench(2).run(_sixteen_bytes())


def test_jobs_take_turns_with_the_loop_and_wait_for_locks() -> None:
    bench, said = Bench(), list[str]()
    lock = bench.jobs.lock()

    def work(name: str) -> None:
        with lock:
            said.append(f"{name} begins")
            bench.jobs.sleep(1.0)
            said.append(f"{name} ends")

    async def main() -> None:
        both = [asyncio.to_thread(work, name) for name in "ab"]
        await asyncio.gather(*both, asyncio.sleep(0.5))

    bench.run(main())
    first, second = said[0][0], said[2][0]
    assert said == [f"{n} {what}" for n in (first, second) for what in ("begins", "ends")]


def test_a_job_that_sleeps_waits_for_simulated_time() -> None:
    """A coordinator's load pauses so, which ended runs in which a log of one was long."""
    bench = Bench(1)

    async def story() -> float:
        await asyncio.to_thread(lambda: time.sleep(3600))
        return bench.loop.time()

    began = bench.loop.time()
    assert bench.run(story()) >= began + 3600


def test_a_wait_on_the_loop_is_an_error() -> None:
    bench = Bench()

    async def main() -> None:
        with pytest.raises(RuntimeError, match="all clients would wait"):
            bench.jobs.sleep(1.0)
        with pytest.raises(RuntimeError, match="all clients would wait"):
            bench.jobs.signal().wait(1.0)

    bench.run(main())


def test_other_executors_are_refused() -> None:
    bench = Bench()

    async def main() -> None:
        threads = SimulatedThreads(bench.jobs, bench.process, 1, "one")
        assert await bench.loop.run_in_executor(threads, lambda: 7) == 7
        with pytest.raises(RuntimeError, match="leave the simulation"):
            await bench.loop.run_in_executor("threads", lambda: 7)

    bench.run(main())


def test_nothing_of_a_killed_process_runs_again() -> None:
    bench, said = Bench(), list[str]()
    other = Process("other", "10.0.0.2")

    async def live() -> None:
        try:
            await asyncio.to_thread(lambda: bench.jobs.sleep(5.0))
            said.append("woke")
        finally:
            said.append("unwound")
            await asyncio.sleep(0)
            said.append("went on")

    async def main() -> None:
        bench.loop.create_task(live(), context=other.context)
        bench.loop.call_later(2.0, said.append, "timer", context=other.context)
        await asyncio.sleep(1.0)
        other.kill()
        await asyncio.sleep(10.0)

    bench.run(main())
    assert said == ["unwound"]


def test_a_generator_of_a_killed_process_ends_with_it(recwarn: pytest.WarningsRecorder) -> None:
    """A broker was killed while it wrote the markers of many transactions, in turns. Its generator
    was to be closed by a task that never ran, and Python complained in another test."""
    bench = Bench()
    other, begun = Process("other", "10.0.0.2"), asyncio.Event()

    async def turns() -> AsyncIterator[int]:
        yield 1

    async def live() -> None:
        async for _ in turns():
            begun.set()
            await asyncio.sleep(3600)

    async def main() -> None:
        bench.loop.create_task(live(), context=other.context)
        await begun.wait()
        other.kill()
        await asyncio.sleep(1)

    bench.run(main())
    gc.collect()
    assert [str(each.message) for each in recwarn] == []


def test_what_a_killed_process_begins_at_its_end_is_ended_too() -> None:
    """A broker that was killed in its start cleaned up, which began a task. That one was never
    ended: Python complained of a coroutine that was never awaited, in another test."""
    bench, begun = Bench(), list[Coroutine[Any, Any, None]]()
    other = Process("other", "10.0.0.2")

    async def clean_up() -> None:
        raise AssertionError("nothing of it runs")

    async def starting() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            begun.append(clean_up())
            await asyncio.wait([asyncio.ensure_future(begun[0])])

    async def main() -> None:
        bench.loop.create_task(starting(), context=other.context)
        await asyncio.sleep(1)
        other.kill()

    bench.run(main())
    assert inspect.getcoroutinestate(begun[0]) == inspect.CORO_CLOSED


def test_a_process_that_is_killed_while_it_stops_ends_at_once(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """A broker was killed in the middle of a clean stop (transactions, seed 128). Each part that it
    stops awaits; Python complained of a coroutine that ignored its end."""
    bench, said = Bench(), list[str]()
    other = Process("other", "10.0.0.2")

    async def part(name: str) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            said.append(name)
            await asyncio.sleep(1)

    async def stopping() -> None:
        async with AsyncExitStack() as parts:
            for name in ("log", "network"):
                parts.push_async_callback(part, name)

    async def main() -> None:
        bench.loop.create_task(stopping(), context=other.context)
        await asyncio.sleep(1.0)
        other.kill()

    bench.run(main())
    gc.collect()
    assert said == ["network", "log"]
    assert [str(each.message) for each in recwarn] == []


def test_a_job_may_kill_its_own_process() -> None:
    """A job that killed its process ended the other jobs first, and the first one that ended let
    the event loop go on in place of the job that killed: its process was half dead for ever."""
    bench, said = Bench(), list[str]()
    other = Process("other", "10.0.0.2")

    def kill() -> None:
        other.kill()
        said.append("killed")

    async def live() -> None:
        await asyncio.gather(
            asyncio.to_thread(lambda: bench.jobs.sleep(50.0)), asyncio.to_thread(kill)
        )

    async def main() -> None:
        bench.loop.create_task(live(), context=other.context)
        await asyncio.sleep(10.0)

    bench.run(main())
    assert said == ["killed"]
    assert not other.alive


def test_a_simulation_that_hangs_says_so() -> None:
    async def main() -> None:
        never: Awaitable[None] = asyncio.get_running_loop().create_future()
        await never

    with pytest.raises(StuckError, match="nothing will ever happen"):
        Bench().run(main())
