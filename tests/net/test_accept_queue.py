"""What waits to be accepted when a server is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import warnings

import pytest

from tallymark.net.server.handler import Answer, Connection
from tallymark.net.server.server import Server
from tallymark.protocol.frames import RequestHeader


def never(_header: RequestHeader, _body: memoryview, _connection: Connection) -> Answer:
    raise AssertionError("nothing was sent")


@pytest.mark.socket
@pytest.mark.parametrize("turns", range(5))
def test_a_server_that_is_stopped_closes_what_it_has_just_accepted(turns: int) -> None:
    """A broker was stopped in the turn of the event loop in which a client had connected. asyncio
    had accepted the socket and not made its transport yet, and lost it: an unclosed socket was
    reported in a test that came much later, and the stop never ended."""

    async def scenario() -> None:
        server = Server(never)
        await server.start("127.0.0.1", 0)
        with socket.create_connection((server.address.host, server.address.port), timeout=5) as client:
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.stop(grace=0.5)
            with contextlib.suppress(ConnectionResetError):  # it was in the kernel's queue
                assert client.recv(1) == b""

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(scenario())
        gc.collect()
    assert [str(one.message) for one in caught] == []
