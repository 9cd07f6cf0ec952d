"""How secured connections end: without their peer's help, and in the middle of being made."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from typing import Any, Self

import psutil
import pytest
from cancel_everywhere import cancel_everywhere, reaches
from security_world import Certificates

from tallymark.net.client.connect import connect
from tallymark.net.limits.connection_quota import ConnectionQuota
from tallymark.net.server.server import Server
from tallymark.net.tls.contexts import client_context, server_context
from tallymark.net.tls.handshake import TlsHandshake
from tallymark.protocol.frames import encode_response
from tallymark.protocol.messages import ApiVersionsResponse, ApiVersionsResponseKey


async def _no_answer(*_: Any) -> None:
    return None


def test_a_peer_that_never_says_good_bye_does_not_hold_up_the_stop(
    certificates: Certificates,
) -> None:
    """A broker once hung in its stop for thirty seconds: closing a TLS transport that is closing
    already turns asyncio's ``abort()`` into nothing, and the peer had that long to say good-bye."""

    async def scenario() -> None:
        server = Server(_no_answer)
        await server.start("127.0.0.1", 0, server_context(certificates.broker))
        trust = client_context(certificates.authority)
        silent = await asyncio.to_thread(_silent_client, server.address.port, trust)
        try:
            async with asyncio.timeout(10):
                while not server.connections:
                    await asyncio.sleep(0.01)
                for connection in server.connections:
                    connection.finish()
                    connection.finish()
                await server.stop(grace=0.1)
        finally:
            silent.close()
        assert not server.connections

    asyncio.run(scenario())


def _silent_client(port: int, trust: ssl.SSLContext) -> ssl.SSLSocket:
    """Has shaken hands, and reads and writes nothing from then on."""
    plain = socket.create_connection(("127.0.0.1", port), 5.0)
    return trust.wrap_socket(plain, server_hostname="127.0.0.1")


class _Heir:
    """The protocol that takes a connection over, and what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        self.told.append(f"data {len(data)}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")


def test_a_connection_that_breaks_as_it_is_handed_over_is_lost_to_its_heir(
    certificates: Certificates,
) -> None:
    """asyncio binds the call of ``connection_lost`` to the protocol of that moment: one that broke
    in the handshake's last turn was told to the handshake, and its heir stayed counted for ever."""

    class Secured:
        def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
            pass

    heir = _Heir()
    handshake = TlsHandshake(
        server_context(certificates.broker),
        1.0,
        admit=lambda _: True,
        serve=lambda _: heir,
        ended=lambda _, why: heir.told.append(why),
    )
    bound_before = handshake.connection_lost
    handshake._hand_over(Secured())
    bound_before(None)
    assert heir.told == ["made", "lost"]


def test_a_connection_that_broke_before_it_is_handed_over_is_given_back_to_its_host(
    certificates: Certificates,
) -> None:
    """Its transport no longer knew whose it was, and the count of "local" went down instead: with
    max.connections.per.ip a host was shut out in the end that had not one connection open."""

    class Broken:
        def get_extra_info(self, name: str) -> None: ...
        def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...
        def set_write_buffer_limits(self, high: int) -> None: ...

    async def scenario() -> None:
        quota = ConnectionQuota(10, 1)
        server = Server(_no_answer, quota=quota)
        server.tls = server_context(certificates.broker)
        handshake = server._secured()
        handshake.host = "10.0.0.7"
        assert server._count(handshake)
        handshake._hand_over(Broken())
        handshake.connection_lost(None)
        assert quota.take("10.0.0.7") is None
        assert quota.open == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "just over"])
def test_who_is_cancelled_while_it_opens_or_closes_one_leaves_no_socket(
    late: bool, certificates: Certificates
) -> None:
    """A client that was cancelled as its handshake had just ended, or in its close(), said
    good-bye in good form: it held the socket for the thirty seconds that a peer has to answer."""
    trust = client_context(certificates.authority)

    async def scenario(port: int) -> None:
        async def once(at: int) -> bool:
            async def work() -> None:
                stream = await connect("127.0.0.1", port, tls=trust)
                await stream.close(flush_timeout=0.5)

            came = await reaches(work(), at, late)
            async with asyncio.timeout(15):
                while _connections_to(port):
                    await asyncio.sleep(0.01)
            return came

        assert await cancel_everywhere(once) > 2

    with _Silent(server_context(certificates.broker)) as silent:
        asyncio.run(scenario(silent.port))


class _Silent:
    """Shakes hands, says which versions it serves, and reads and says nothing from then on."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._peers: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self._peers.append(plain)
            with contextlib.suppress(OSError):  # a client that was cancelled
                plain.settimeout(5)
                self._peers[-1] = peer = self._context.wrap_socket(plain, server_side=True)
                request = peer.recv(4096)
                answer = encode_response(_VERSIONS, 3, int.from_bytes(request[8:12], "big"))
                peer.sendall(answer)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for peer in self._peers:
            peer.close()


_VERSIONS = ApiVersionsResponse(
    api_keys=(ApiVersionsResponseKey(api_key=18, min_version=0, max_version=3),)
)


def _connections_to(port: int) -> int:
    """Sockets of this process that lead there."""
    mine = psutil.Process().net_connections("tcp")
    return sum(1 for each in mine if each.raddr and each.raddr.port == port and each.fd >= 0)
