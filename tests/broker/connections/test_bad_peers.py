"""What listens at a broker's address may be anything. Every request ends, with the broker named."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from peers import EVERYTHING, HOST, image, versions

from tallymark.broker.connections.outgoing import Outgoing
from tallymark.broker.connections.port import BrokerConnection
from tallymark.broker.connections.sockets import SocketConnections
from tallymark.errors import ConnectError, KafkaError
from tallymark.protocol import frames
from tallymark.protocol.frames import RequestHeader, decode_request_header
from tallymark.protocol.messages import (
    ApiVersionsResponse,
    ApiVersionsResponseKey,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Misbehave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LIMIT = 5.0


async def read_request(reader: asyncio.StreamReader) -> RequestHeader:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return decode_request_header(await reader.readexactly(size))[0]


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer ApiVersions as a broker does."""
    writer.write(versions(EVERYTHING, await read_request(reader)))


def response(header: RequestHeader, correlation_id: int | None = None) -> bytes:
    shown = header.correlation_id if correlation_id is None else correlation_id
    return frames.encode_response(MetadataResponse(cluster_id="c"), header.api_version, shown)


@asynccontextmanager
async def listening(misbehave: Misbehave) -> AsyncIterator[SocketConnections]:
    """The connections of broker 1; broker 2 is ``misbehave``."""
    ended: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        ended.append(task)
        try:
            await misbehave(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, HOST, 0)
    connections = SocketConnections(1, Outgoing(), connect_timeout=0.5)
    connections.brokers_changed({2: image(2, server.sockets[0].getsockname()[1])})
    async with asyncio.timeout(LIMIT):
        yield connections
        await connections.close()
    for task in ended:
        task.cancel()
    server.close()


@pytest.mark.parametrize(
    ("greeting", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "web server"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "speaks TLS"),
        (b"\x7f\xff\xff\xff" + bytes(64), "frame of 2147483647 bytes"),
        (b"\xff\xff\xff\xff", "frame of -1 bytes"),
        (b"\x00\x00\x00\x02ab", "broker 2"),
        (bytes(4), "broker 2"),
    ],
)
def test_something_else_than_a_broker_is_an_error_that_says_what(greeting: bytes, why: str) -> None:
    async def misbehave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(greeting)
        await reader.read()

    async def main() -> None:
        async with listening(misbehave) as connections:
            with pytest.raises(ConnectError, match=why) as caught:
                await connections.open(2)
            assert "broker 2" in str(caught.value)
            assert not caught.value.is_refused

    asyncio.run(main())


def test_a_peer_that_closes_at_once_or_never_answers_is_given_up() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        return

    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> None:
        for misbehave in (hang_up, keep_silent):
            async with listening(misbehave) as connections:
                with pytest.raises(ConnectError, match="broker 2"):
                    await connections.open(2)

    asyncio.run(main())


def test_a_peer_that_closes_in_the_middle_of_an_answer_fails_all_that_are_under_way() -> None:
    async def misbehave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        header = await read_request(reader)
        writer.write(response(header)[:-3])
        await writer.drain()

    async def main() -> None:
        async with listening(misbehave) as connections:
            connection = await connections.open(2)
            errors = await asyncio.gather(
                *(connection.send(MetadataRequest(), 60_000) for _ in range(3)),
                return_exceptions=True,
            )
            assert [type(each) for each in errors] == [ConnectError] * 3
            assert connection.closed

    asyncio.run(main())


def test_answers_out_of_order_belong_to_no_request() -> None:
    async def misbehave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        first, second = await read_request(reader), await read_request(reader)
        writer.write(response(second) + response(first))
        await reader.read()

    async def main() -> None:
        async with listening(misbehave) as connections:
            connection = await connections.open(2)
            errors = await asyncio.gather(
                *(connection.send(MetadataRequest(), 60_000) for _ in range(2)),
                return_exceptions=True,
            )
            assert [type(each) for each in errors] == [ConnectError] * 2
            assert "correlation id" in str(errors[0])

    asyncio.run(main())


async def twice(connection: BrokerConnection) -> None:
    for _ in range(2):
        await connection.send(MetadataRequest(), 60_000)


def test_an_answer_that_was_not_asked_for_ends_the_connection() -> None:
    async def misbehave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        header = await read_request(reader)
        writer.write(response(header) + response(header, header.correlation_id + 1))
        await reader.read()

    async def main() -> None:
        async with listening(misbehave) as connections:
            connection = await connections.open(2)
            with pytest.raises(ConnectError, match="though no request was waiting"):
                await twice(connection)

    asyncio.run(main())


def test_garbage_in_an_answer_ends_the_connection_and_nothing_else() -> None:
    """Seeded noise behind a right header, and right answers with one byte changed: each is an
    answer or a ConnectError, never another exception."""
    chance = random.Random(5)
    whole = FetchResponse(throttle_time_ms=1, session_id=2)

    async def misbehave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        header = await read_request(reader)
        if chance.random() < 0.5:
            body = header.correlation_id.to_bytes(4, "big") + chance.randbytes(chance.randrange(80))
            writer.write(len(body).to_bytes(4, "big") + body)
        else:
            data = bytearray(frames.encode_response(whole, header.api_version, 1))
            data[chance.randrange(4, len(data))] ^= chance.randrange(1, 256)
            writer.write(data)
        await reader.read()

    async def main() -> None:
        async with listening(misbehave) as connections:
            refused: list[str] = []
            for _ in range(150):
                connection = await connections.open(2)
                try:
                    await connection.send(FetchRequest(), 60_000)
                except ConnectError as error:
                    refused.append(f"{error} {connection.closed}")
                await connection.close()
            assert len(refused) > 20
            assert all("broker 2" in each and each.endswith("True") for each in refused)

    asyncio.run(main())


def test_a_peer_that_reads_nothing_does_not_hold_a_request_longer_than_its_time() -> None:
    async def misbehave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    async def main() -> None:
        async with listening(misbehave) as connections:
            connection = await connections.open(2)
            large = MetadataRequest(topics=None)
            many = FetchRequest(rack_id="r" * 30_000)
            errors = await asyncio.gather(
                *(connection.send(many, 300) for _ in range(400)),
                connection.send(large, 300),
                return_exceptions=True,
            )
            assert {type(each) for each in errors} == {ConnectError}

    asyncio.run(main())


def test_an_older_peer_gets_the_versions_that_it_has() -> None:
    """A broker of before KIP-511 answers the question about versions in the form of version 0."""

    async def misbehave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        header = await read_request(reader)
        refusal = frames.encode_response(_only({18: (0, 2)}, 35), 0, header.correlation_id)
        writer.write(refusal)
        header = await read_request(reader)
        assert header.api_version == 2
        served = {18: (0, 2), 3: (0, 5)}
        writer.write(frames.encode_response(_only(served, 0), 2, header.correlation_id))
        header = await read_request(reader)
        assert header.api_version == 5
        writer.write(response(header))
        await reader.read()

    async def main() -> None:
        async with listening(misbehave) as connections:
            connection = await connections.open(2)
            assert connection.version_of(MetadataRequest) == 5
            assert (await connection.send(MetadataRequest(), 5_000)).cluster_id == "c"
            with pytest.raises(KafkaError, match="broker 2: the broker does not serve Fetch"):
                await connection.send(FetchRequest(), 5_000)

    asyncio.run(main())


def _only(served: dict[int, tuple[int, int]], error: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersionsResponseKey(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in served.items()
        ],
    )
