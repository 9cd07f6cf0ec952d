"""Cancellation at every await of everything that clients await: nothing leaks, nothing that was
accepted is lost, and the client goes on working."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from cancel_everywhere import cancel_everywhere, reaches

from tallymark.client.aio.producer import AsyncProducer
from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.core.cluster import Cluster
from tallymark.client.reading.fetch_request import FetchLimits
from tallymark.client.reading.fetched import FetchSpec
from tallymark.client.reading.fetching import Fetcher
from tallymark.client.reading.list_offsets import list_offset
from tallymark.errors import TallymarkError
from tallymark.net.addresses import parse_address
from tallymark.protocol.api import ApiKey
from tallymark.testing.scripted_broker import HangUp, Refuse, ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 2}) as broker:
        yield broker
    gc.collect()  # a socket that was left open is a warning, and so an error


LATE = pytest.mark.parametrize("late", [False, True], ids=["waiting", "just over"])
Work = Callable[[Cluster], Awaitable[object]]


async def fetch(cluster: Cluster) -> object:
    specs = [FetchSpec("t", 0, 0), FetchSpec("t", 1, 0)]
    return await Fetcher(cluster, True).fetch(specs, FetchLimits(1000, 0, 1))


WORK: dict[str, Work] = {
    "a topic": lambda cluster: cluster.topic("t", 5),
    "all topics": lambda cluster: cluster.refresh(None),
    "a connection": lambda cluster: cluster.leader_stream("t", 0),
    "a refresh in the background": lambda cluster: asyncio.shield(cluster.refresh_soon()),
    "the controller": lambda cluster: cluster.refresh([]),
    "an offset": lambda cluster: list_offset(cluster, "t", 0, -1),
    "a fetch": fetch,
}


@pytest.mark.parametrize(
    ("harm", "late"),
    [(False, False), (False, True), (True, False)],
    ids=["waiting", "just over", "while things go wrong"],
)
@pytest.mark.parametrize("what", WORK)
def test_in_the_client_core(what: str, harm: bool, late: bool, broker: ScriptedBroker) -> None:
    """Also while things go wrong and are tried again (``harm``)."""

    async def once(at: int) -> bool:
        cluster = Cluster(Bootstrap.of(broker.address), "test", request_timeout=5)
        if harm:
            broker.script(ApiKey.METADATA, HangUp(), Refuse(5))
            broker.script(ApiKey.FETCH, Refuse(6), HangUp())
            broker.script(ApiKey.LIST_OFFSETS, Refuse(6), HangUp())

        async def work() -> None:
            try:
                await WORK[what](cluster)
            except TallymarkError:
                if not harm:
                    raise

        came = await reaches(work(), at, late)
        for _ in range(5):  # what is still scripted goes wrong, then it works
            try:
                await WORK[what](cluster)
                break
            except TallymarkError:
                await asyncio.sleep(0.06)
        else:
            raise AssertionError("it does not work any more")
        await cluster.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return came

    async def everywhere() -> None:
        assert await cancel_everywhere(once) > 0

    asyncio.run(everywhere())


@LATE
def test_closing(late: bool, broker: ScriptedBroker) -> None:
    async def once(at: int) -> bool:
        cluster = Cluster(Bootstrap.of(broker.address), "test", request_timeout=5)
        await cluster.topic("t", 5)
        cluster.refresh_soon()
        opening = asyncio.create_task(cluster.connections.get(parse_address("127.0.0.1:1")))
        came = await reaches(cluster.close(), at, late)
        await cluster.close()
        await asyncio.gather(opening, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return came

    async def everywhere() -> None:
        assert await cancel_everywhere(once) > 0

    asyncio.run(everywhere())


@LATE
@pytest.mark.parametrize("what", ["send", "send_and_wait", "flush", "delivery", "full buffer"])
def test_the_asyncio_producer(what: str, late: bool, broker: ScriptedBroker) -> None:
    """Every record that send() took in is in the log once; one whose send() was cancelled is not,
    or once (send_and_wait)."""
    settings: dict[str, Any] = {"audit": False, "linger_ms": 1}
    if what == "full buffer":
        settings |= {"buffer_memory": 2000, "batch_size": 500}

    async def once(at: int) -> bool:
        before = broker.values("t", 0)
        taken: list[bytes] = []
        maybe = b"maybe %d" % at
        async with AsyncProducer(bootstrap_servers=broker.address, **settings) as producer:

            async def send(value: bytes) -> object:
                delivery = await producer.send("t", value, partition=0)
                taken.append(value)
                return delivery

            async def work() -> None:
                match what:
                    case "send":
                        await send(b"%d" % at)
                    case "send_and_wait":
                        await producer.send_and_wait("t", maybe, partition=0)
                    case "flush":
                        await send(b"%d" % at)
                        await producer.flush(5)
                    case "delivery":
                        delivery = await producer.send("t", b"d", partition=0)
                        taken.append(b"d")
                        await delivery
                    case _:
                        for number in range(12):
                            await send(b"%d" % number + bytes(300))

            came = await reaches(work(), at, late)
            await send(b"after")
            await asyncio.wait_for(producer.flush(), 10)
        found = broker.values("t", 0)[len(before) :]
        assert [value for value in found if value != maybe] == taken
        assert found.count(maybe) <= 1
        return came

    async def everywhere() -> None:
        assert await cancel_everywhere(once) > 0

    asyncio.run(everywhere())
