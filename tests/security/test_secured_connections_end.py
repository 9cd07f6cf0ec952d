"""How secured connections end: without their peer's help, and in the middle of being made."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

from security_world import Certificates

from tallymark.net import Server
from tallymark.net.tls import client_context, server_context
from tallymark.net.tls_accept import TlsHandshake


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
