"""The asyncio stream against the server shell: both are real, between them is loopback."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tallymark.errors import ConnectError, KafkaError, UserError
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.net.client.connect import connect
from tallymark.net.server.connection import ServerConnection
from tallymark.net.server.handler import Answer, Connection, Handler
from tallymark.net.server.limits import ServerLimits
from tallymark.net.server.outbox import Outbox
from tallymark.net.server.responses import Payload
from tallymark.net.server.server import Server
from tallymark.processes.free_ports import free_ports
from tallymark.protocol import frames
from tallymark.protocol.codec import decode
from tallymark.protocol.frames import RequestHeader
from tallymark.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseKey,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

Scenario = Callable[[], Coroutine[Any, Any, None]]


def run(scenario: Scenario) -> None:
    """Run one scenario; nothing may be left running after it."""

    async def checked() -> None:
        async with asyncio.timeout(20):
            await scenario()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        assert not rest, rest

    asyncio.run(checked())


def versions(header: RequestHeader, *, highest: int = 4) -> bytes:
    keys = tuple(
        ApiVersionsResponseKey(api_key=key, min_version=low, max_version=high)
        for key, low, high in ((18, 0, highest), (3, 0, 12))
    )
    if header.api_version > highest:
        refusal = ApiVersionsResponse(error_code=35, api_keys=keys)
        return frames.encode_response(refusal, 0, header.correlation_id)
    answer = ApiVersionsResponse(api_keys=keys)
    return frames.encode_response(answer, header.api_version, header.correlation_id)


def metadata(header: RequestHeader, cluster: str) -> bytes:
    answer = MetadataResponse(cluster_id=cluster)
    return frames.encode_response(answer, header.api_version, header.correlation_id)


def asked(header: RequestHeader, body: memoryview) -> str:
    """The first topic a Metadata request names: how a test tells the handler what to do."""
    return (decode(MetadataRequest, header.api_version, body).topics or ())[0].name or ""


def ask(word: str) -> MetadataRequest:
    return MetadataRequest(topics=(MetadataRequestTopic(name=word),))


async def answer(header: RequestHeader, body: memoryview, connection: Connection) -> Any:
    """ "wait 0.1" answers after that time, "fail" raises, "never" waits for ever, others echo."""
    if header.api_key == 18:
        return versions(header)
    word, _, number = asked(header, body).partition(" ")
    if word == "wait":
        await asyncio.sleep(float(number))
    elif word == "never":
        await asyncio.Event().wait()
    elif word == "fail":
        raise ValueError("a bug in a handler")
    elif word == "silent":
        return None
    return metadata(header, f"{word} {number}".strip())


@contextlib.asynccontextmanager
async def serving(handler: Handler = answer, **limits: Any) -> AsyncIterator[Server]:
    server = Server(handler, limits=ServerLimits(**limits), abandon=frozenset({3}))
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.stop(grace=0.2)
        assert not server.connections


@contextlib.asynccontextmanager
async def connected(server: Server) -> AsyncIterator[BrokerConnection]:
    stream = await connect(*server.address)
    try:
        yield stream
    finally:
        await stream.close()


def test_pipelined_requests_are_answered_in_order_though_handled_out_of_order() -> None:
    async def scenario() -> None:
        async with serving() as server, connected(server) as stream:
            words = ["wait 0.05", "a", "wait 0.02", "b"]
            answers = await asyncio.gather(*[stream.submit(ask(word)) for word in words])
            assert [a.cluster_id for a in answers] == words
            assert stream.due == 0

    run(scenario)


@pytest.mark.parametrize("highest", [0, 2, 3, 4])
def test_versions_are_negotiated_with_old_and_new_brokers(highest: int) -> None:
    seen: list[int] = []

    def handler(header: RequestHeader, body: memoryview, connection: Connection) -> bytes:
        if header.api_key == ApiVersionsRequest.api_key:
            seen.append(header.api_version)
            return versions(header, highest=highest)
        return metadata(header, "x")

    async def scenario() -> None:
        async with serving(handler) as server, connected(server) as stream:
            assert stream.version_of(MetadataRequest) == 12
            assert (await stream.request(ask("x"))).cluster_id == "x"

    run(scenario)
    assert seen == ([3] if highest >= 3 else [3, highest])


def test_a_late_request_fails_with_all_behind_it_and_the_connection() -> None:
    async def scenario() -> None:
        async with serving() as server:
            stream = await connect(*server.address)
            first = stream.submit(ask("never"), timeout=0.05)
            second = stream.submit(ask("b"))
            for future in (first, second):
                with pytest.raises(KafkaError) as caught:
                    await future
                assert caught.value.retriable
                assert "no response to Metadata within 0.05 s" in str(caught.value)
            assert stream.closed
            with pytest.raises(KafkaError):
                await stream.request(ask("c"))
            await stream.close()

    run(scenario)


def test_a_broker_that_goes_away_fails_what_is_pending_with_a_retriable_error() -> None:
    async def scenario() -> None:
        async with serving() as server:
            stream = await connect(*server.address)
            pending = [stream.submit(ask("never")) for _ in range(3)]
            await asyncio.sleep(0.02)
            await server.stop(grace=0.0)
            for future in pending:
                with pytest.raises(KafkaError) as caught:
                    await future
                assert caught.value.name == "NETWORK_EXCEPTION"
                assert caught.value.retriable
            await stream.close()

    run(scenario)


def test_a_cancelled_request_leaves_the_connection_usable() -> None:
    async def scenario() -> None:
        async with serving() as server, connected(server) as stream:
            slow = asyncio.create_task(stream.request(ask("wait 0.05")))
            await asyncio.sleep(0.01)
            slow.cancel()
            assert (await stream.request(ask("b"))).cluster_id == "b"
            await asyncio.gather(slow, return_exceptions=True)

    run(scenario)


def test_a_failing_handler_takes_its_own_connection_down_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with serving() as server, connected(server) as other:
            stream = await connect(*server.address)
            with pytest.raises(KafkaError):
                await stream.request(ask("fail"))
            assert (await other.request(ask("b"))).cluster_id == "b"
            await stream.close()

    with caplog.at_level(logging.ERROR):
        run(scenario)
    assert "a bug in a handler" in caplog.text


def test_a_request_without_response_gets_none() -> None:
    async def scenario() -> None:
        async with serving() as server, connected(server) as stream:
            stream.post(ask("silent"))
            assert (await stream.request(ask("b"))).cluster_id == "b"

    run(scenario)


def test_connecting_says_where_it_failed() -> None:
    async def nobody() -> None:
        (port,) = free_ports(1)
        with pytest.raises(ConnectError) as caught:
            await connect("127.0.0.1", port)
        assert caught.value.stage == "connect"
        assert caught.value.address == f"127.0.0.1:{port}"
        assert "is the broker running" in str(caught.value)

    async def not_kafka() -> None:
        def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        web = await asyncio.start_server(http, "127.0.0.1", 0)
        with pytest.raises(ConnectError, match="is it a Kafka broker") as caught:
            await connect("127.0.0.1", web.sockets[0].getsockname()[1])
        assert caught.value.stage == "api"
        web.close()
        await web.wait_closed()

    async def mute() -> None:
        async def handler(*_: Any) -> bytes:
            await asyncio.sleep(9)
            return b""

        async with serving(handler) as server:
            with pytest.raises(ConnectError, match="no answer to ApiVersions"):
                await connect(*server.address, timeout=0.05)

    run(nobody)
    run(not_kafka)
    run(mute)


class Slice(NamedTuple):
    file: Any
    position: int
    size: int


class InMemory:
    """A file without a descriptor, as the memory twin of the disk has them."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def fileno(self) -> int:
        raise OSError("in memory")

    def pread(self, size: int, position: int) -> bytes:
        return self._data[position : position + size]


@pytest.mark.parametrize("sendfile", [True, False])
@pytest.mark.parametrize("size", [10, 3_000_000])
def test_slices_of_files_leave_between_buffers(tmp_path: Path, size: int, sendfile: bool) -> None:
    data = os.urandom(size + 100)
    path = tmp_path / "segment"
    path.write_bytes(data)

    run(lambda: _raw_slices(path, data, size, sendfile))


async def _raw_slices(path: Path, data: bytes, size: int, sendfile: bool) -> None:
    with path.open("rb") as file:

        def handler(header: RequestHeader, body: memoryview, connection: Connection) -> Payload:
            assert isinstance(connection, ServerConnection)
            connection._outbox._writer._sendfile &= sendfile
            source = (file, file.fileno(), InMemory(data))[header.correlation_id % 3]
            return Payload.of(b"<", Slice(source, 50, size), b">")

        async with serving(handler) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            for correlation_id in range(4):
                writer.write(frames.encode_request(ask("x"), 9, correlation_id, None))
            for _ in range(4):
                assert await reader.readexactly(size + 2) == b"<" + data[50 : 50 + size] + b">"
            writer.close()
            await writer.wait_closed()


def test_a_file_that_is_shorter_than_its_slice_closes_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(100_000))

    async def scenario() -> None:
        with path.open("rb") as file:

            def handler(*_: Any) -> Payload:
                return Payload.of(Slice(file, 0, 200_000))

            async with serving(handler) as server:
                reader, writer = await asyncio.open_connection(*server.address)
                writer.write(frames.encode_request(ask("x"), 9, 0, None))
                with contextlib.suppress(ConnectionError):
                    assert len(await reader.read(-1)) <= 100_000
                writer.close()

    run(scenario)
    assert "cut short" in caplog.text


def test_a_peer_that_does_not_read_stops_being_served_and_nobody_else_is() -> None:
    handled = 0
    big = bytes(200_000)

    def handler(header: RequestHeader, body: memoryview, connection: Connection) -> Answer:
        nonlocal handled
        if header.api_key == 18:
            return versions(header)
        if asked(header, body) != "big":
            return metadata(header, "small")
        handled += 1
        return Payload.of(big, big)

    async def scenario() -> None:
        async with serving(handler, write_buffer_bytes=100_000) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            request = frames.encode_request(ask("big"), 9, 0, None)
            writer.write(request * 2000)
            await asyncio.sleep(0.1)
            assert handled < 200  # the kernel's buffers hold some
            async with connected(server) as other:
                assert (await other.request(ask("small"))).cluster_id == "small"
            before = handled
            await reader.readexactly(100 * 400_000)  # it reads again, and is served again
            assert handled > before
            writer.close()

    run(scenario)


def test_unanswered_requests_are_bounded() -> None:
    running = highest = 0

    async def handler(header: RequestHeader, body: memoryview, connection: Connection) -> bytes:
        nonlocal running, highest
        if header.api_key == 18:
            return versions(header)
        running += 1
        highest = max(highest, running)
        await asyncio.sleep(0.001)
        running -= 1
        return metadata(header, "x")

    async def scenario() -> None:
        async with serving(handler, max_unanswered=4) as server, connected(server) as stream:
            await asyncio.gather(*[stream.submit(ask("x")) for _ in range(100)])

    run(scenario)
    assert highest == 4


def test_too_many_connections_are_refused_and_places_come_back() -> None:
    async def scenario() -> None:
        async with serving(max_connections=2) as server, connected(server):
            async with connected(server):
                with pytest.raises(ConnectError):
                    await connect(*server.address)
            await asyncio.sleep(0.02)
            async with connected(server) as third:
                assert (await third.request(ask("x"))).cluster_id == "x"

    run(scenario)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        (-5).to_bytes(4, "big", signed=True),
        (2**31 - 1).to_bytes(4, "big"),
        b"\0\0\0\x02\0\0",
        b"\0\0\0\x0a\0\x03\0\x09\0\0\0\x01\0\xff",
    ],
)
def test_garbage_closes_only_the_connection_it_came_on(garbage: bytes) -> None:
    async def scenario() -> None:
        async with serving() as server, connected(server) as good:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(garbage)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
            assert (await good.request(ask("x"))).cluster_id == "x"

    run(scenario)


def test_idle_and_half_sent_requests_are_harmless_and_closed_in_the_end() -> None:
    async def scenario() -> None:
        async with serving(idle_timeout=0.1) as server:
            idle, idle_writer = await asyncio.open_connection(*server.address)
            half, half_writer = await asyncio.open_connection(*server.address)
            half_writer.write(b"\0\0\1\0half")
            async with connected(server) as busy:
                waited = await busy.request(ask("wait 0.3"))  # at work, so not idle
                assert waited.cluster_id == "wait 0.3"
                for reader, writer in ((idle, idle_writer), (half, half_writer)):
                    with contextlib.suppress(ConnectionError):
                        assert await reader.read() == b""
                    writer.close()

    run(scenario)


def test_a_request_that_never_ends_takes_its_connection_down() -> None:
    """A client that sends a byte now and then is never idle, and would stay for ever."""

    async def scenario() -> None:
        async with serving(request_timeout=0.3) as server, connected(server) as other:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write((1000).to_bytes(4, "big"))
            with contextlib.suppress(ConnectionError):
                for _ in range(50):
                    writer.write(b"\0")
                    await asyncio.sleep(0.05)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()
            assert len(server.connections) == 1
            assert (await other.request(ask("still here"))).cluster_id == "still here"

    run(scenario)


def test_half_requests_share_a_bounded_memory_and_small_ones_need_none() -> None:
    async def scenario() -> None:
        limits: dict[str, Any] = {"max_arriving_bytes": 2_000_000}
        async with serving(**limits) as server, connected(server) as other:
            half = (10_000_000).to_bytes(4, "big") + bytes(5_000_000)
            streams = [await asyncio.open_connection(*server.address) for _ in range(6)]
            for _, writer in streams:
                writer.write(half)
            while server.request_memory.waiting < 4:
                await asyncio.sleep(0.01)
            assert server.request_memory.held <= 2_000_000 + 10_000_000
            assert (await other.request(ask("small"))).cluster_id == "small"
            for _, writer in streams:
                writer.transport.abort()
            while server.request_memory.held:
                await asyncio.sleep(0.01)
            assert server.request_memory.waiting == 0

    run(scenario)


def test_many_requests_of_one_piece_are_answered_in_order_and_together() -> None:
    """Each write is a system call: what is ready in one turn leaves with one."""

    async def scenario() -> None:
        def at_once(header: RequestHeader, body: memoryview, connection: Connection) -> bytes:
            return metadata(header, str(header.correlation_id))

        async with serving(at_once) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            count = 1000
            asked = [frames.encode_request(ask("x"), 9, n, None) for n in range(count)]
            writer.write(b"".join(asked))
            buffer = frames.FrameBuffer()
            got: list[int] = []
            while len(got) < count:
                got += [
                    frames.decode_correlation_id(f)
                    for f in buffer.receive(await reader.read(65536))
                ]
            assert got == list(range(count))
            writer.close()

    run(scenario)


def test_requests_that_waited_and_end_in_one_turn_are_answered_with_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One commit of a partition answers all producers' requests that wait for it: each answer was
    a system call of its own."""
    writes: list[int] = []

    async def scenario() -> None:
        waiting: list[asyncio.Future[Answer]] = []

        def wait(
            header: RequestHeader, body: memoryview, connection: Connection
        ) -> asyncio.Future[Answer]:
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            waiting.append(future)
            return future

        def flush(self: Outbox, plain: Callable[[Outbox], None] = Outbox.flush) -> None:
            if self.out_bytes:
                writes.append(self.out_bytes)
            plain(self)

        monkeypatch.setattr(Outbox, "flush", flush)
        async with serving(wait) as server:
            reader, writer = await asyncio.open_connection(*server.address)
            count = 50
            writer.write(
                b"".join(frames.encode_request(ask("x"), 9, n, None) for n in range(count))
            )
            while len(waiting) < count:
                await asyncio.sleep(0)
            answers = [metadata(RequestHeader(3, 9, n, None), str(n)) for n in range(count)]
            for future, each in zip(waiting, answers, strict=True):
                future.set_result(each)
            assert await reader.readexactly(sum(map(len, answers))) == b"".join(answers)
            writer.close()

    run(scenario)
    assert len(writes) == 1


def test_a_stop_lets_answers_under_way_leave() -> None:
    async def scenario() -> None:
        server = Server(answer)
        await server.start("127.0.0.1", 0)
        stream = await connect(*server.address)
        pending = stream.submit(ask("wait 0.1"))
        await asyncio.sleep(0.02)
        await server.stop(grace=5)
        assert (await pending).cluster_id == "wait 0.1"
        await stream.close()

    run(scenario)


def test_long_polls_end_when_their_client_is_gone_and_other_work_does_not() -> None:
    ended: list[str] = []

    async def handler(header: RequestHeader, body: memoryview, connection: Connection) -> bytes:
        try:
            await asyncio.sleep(0.1 if header.api_key == 18 else 60)
            ended.append("done")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return versions(header)

    async def scenario() -> None:
        async with serving(handler) as server:
            for request in (ask("x"), ApiVersionsRequest()):
                _, writer = await asyncio.open_connection(*server.address)
                writer.write(frames.encode_request(request, 2, 0, None))
                await asyncio.sleep(0.02)
                writer.transport.abort()
            await asyncio.sleep(0.2)

    run(scenario)
    assert sorted(ended) == ["cancelled", "done"]


def test_a_taken_port_is_named() -> None:
    async def scenario() -> None:
        async with serving() as server:
            second = Server(answer)
            with pytest.raises(UserError, match="the port is taken"):
                await second.start(*server.address)
            await second.stop()

    run(scenario)


def test_clients_that_come_back_at_once_are_not_put_off() -> None:
    """A broker was restarted, and 2,000 clients connected in the same moment. 128 had room to wait
    for it; what the others sent was dropped, and half of them were answered a second later, when
    their kernel repeated it."""
    count = 600
    if int(Path("/proc/sys/net/core/somaxconn").read_text()) < 1024:
        pytest.skip("this machine's queues are shorter (net.core.somaxconn)")

    async def scenario() -> None:
        async with serving() as server:
            # Nothing is accepted meanwhile: this blocks the loop, as a busy moment does.
            waiting = [socket.create_connection(server.address, 10) for _ in range(count)]
            for sock in waiting:
                sock.close()

    run(scenario)
