"""What callers rely on holds over sockets and in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from peers import in_memory, over_sockets

from tallymark.broker.connections.port import BrokerConnections
from tallymark.errors import CODES, ConnectError, KafkaError
from tallymark.protocol.messages import (
    FetchRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tallymark.protocol.schema import Message

Start = Callable[..., AbstractAsyncContextManager[BrokerConnections]]

pytestmark = pytest.mark.parametrize("start", [over_sockets, in_memory])


def ask(word: str) -> MetadataRequest:
    return MetadataRequest(topics=(MetadataRequestTopic(name=word),))


async def echo(request: Any) -> Message:
    """The word comes back as the cluster's id, "late" after a while, "never" not at all."""
    word = request.topics[0].name
    if word == "late":
        await asyncio.sleep(0.05)
    elif word == "never":
        await asyncio.Event().wait()
    return MetadataResponse(cluster_id=word)


def test_a_response_has_its_type(start: Start) -> None:
    async def main() -> None:
        async with start({2: echo}) as connections:
            connection = await connections.open(2)
            answer = await connection.send(ask("a"), 5_000)
            assert isinstance(answer, MetadataResponse)
            assert answer.cluster_id == "a"
            await connection.close()

    asyncio.run(main())


def test_several_requests_under_way_are_answered_in_their_order(start: Start) -> None:
    async def main() -> None:
        async with start({2: echo}) as connections:
            connection = await connections.open(2)
            came: list[str | None] = []

            async def send(word: str) -> None:
                came.append((await connection.send(ask(word), 5_000)).cluster_id)

            await asyncio.gather(send("late"), send("b"), send("c"))
            assert came == ["late", "b", "c"]
            await connection.close()

    asyncio.run(main())


def test_each_connection_is_one_of_its_own(start: Start) -> None:
    async def main() -> None:
        async with start({2: echo}) as connections:
            first, second = await connections.open(2), await connections.open(2)
            await first.close()
            assert first.closed
            assert not second.closed
            assert (await second.send(ask("b"), 5_000)).cluster_id == "b"
            await second.close()

    asyncio.run(main())


def test_a_close_fails_what_is_under_way_and_what_comes_after(start: Start) -> None:
    async def main() -> None:
        async with start({2: echo}) as connections:
            connection = await connections.open(2)
            under_way = asyncio.gather(
                *(connection.send(ask("never"), 60_000) for _ in range(3)), return_exceptions=True
            )
            await asyncio.sleep(0.02)
            await connection.close()
            assert [type(error) for error in await under_way] == [ConnectError] * 3
            with pytest.raises(ConnectError, match="broker 2"):
                await connection.send(ask("b"), 5_000)
            await connection.close()

    asyncio.run(main())


def test_a_request_without_an_answer_ends_the_connection_and_all_on_it(start: Start) -> None:
    async def main() -> None:
        async with start({2: echo}) as connections:
            connection = await connections.open(2)
            behind = asyncio.ensure_future(connection.send(ask("never"), 60_000))
            await asyncio.sleep(0)
            with pytest.raises(ConnectError):
                await connection.send(ask("b"), 50)
            assert connection.closed
            with pytest.raises(ConnectError):
                await behind

    asyncio.run(main())


def test_a_cancelled_request_leaves_the_connection_open(start: Start) -> None:
    async def main() -> None:
        async with start({2: echo}) as connections:
            connection = await connections.open(2)
            waiting = asyncio.ensure_future(connection.send(ask("late"), 60_000))
            await asyncio.sleep(0.01)
            waiting.cancel()
            assert (await connection.send(ask("b"), 5_000)).cluster_id == "b"
            await connection.close()

    asyncio.run(main())


def test_an_unknown_broker_is_an_error_that_names_it(start: Start) -> None:
    async def main() -> None:
        async with start({2: echo}) as connections:
            with pytest.raises(ConnectError, match=r"broker 3.*not among the live") as caught:
                await connections.open(3)
            assert not caught.value.is_refused
            assert not await connections.is_refused(3)

    asyncio.run(main())


def test_a_request_that_the_other_side_does_not_serve_is_not_sent(start: Start) -> None:
    async def main() -> None:
        async with start({2: echo}, served={3: (0, 9), 18: (0, 4)}) as connections:
            connection = await connections.open(2)
            assert connection.version_of(MetadataRequest) == 9
            with pytest.raises(KafkaError) as caught:
                await connection.send(FetchRequest(), 5_000)
            assert caught.value.code == CODES["UNSUPPORTED_VERSION"]
            assert (await connection.send(ask("b"), 5_000)).cluster_id == "b"
            await connection.close()

    asyncio.run(main())
