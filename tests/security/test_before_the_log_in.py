"""What connections may do that have not logged in."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from security_world import PASSWORD, Certificates, add_users, log_in

from tallymark.broker import listening as listeners_open
from tallymark.broker.security.sasl_gate import MAX_BEFORE
from tallymark.net.limits.accept_queue import FEW_ACCEPTS
from tallymark.net.server.connection import ServerConnection
from tallymark.net.server.handler import Connection
from tallymark.net.server.server import Server
from tallymark.net.tls.contexts import server_context
from tallymark.protocol.frames import RequestHeader, encode_request
from tallymark.protocol.messages import ApiVersionsRequest
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerThread]:
    monkeypatch.setattr(listeners_open, "LOGIN_SECONDS", 3.0)
    add_users(tmp_path / "broker", "alice")
    with BrokerThread(
        tmp_path,
        listeners="SASL_PLAINTEXT://127.0.0.1:0",
        sasl_enabled_mechanisms="PLAIN",
    ) as running:
        yield running


def test_a_stranger_asks_for_a_few_things_only(broker: BrokerThread) -> None:
    """Twenty connections asked for the versions of APIs, a hundred times in one write, again and
    again: a good log-in took 0.5 s in the median."""
    with WireClient(broker.bootstrap_servers, 60) as client:
        for _ in range(MAX_BEFORE):
            assert client.ask(ApiVersionsRequest(), 2).error_code == 0
        client.send(ApiVersionsRequest(), 2)
        assert client.closed_by_peer()
    with WireClient(broker.bootstrap_servers, 60) as client:
        assert log_in(client, "alice", PASSWORD) == 0
        for _ in range(2 * MAX_BEFORE):
            assert client.ask(ApiVersionsRequest(), 2).error_code == 0


def test_who_does_not_log_in_is_closed_and_who_has_is_not(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    """A thousand connections said how they would log in, and no more: they held their places for
    the ten minutes of connections.max.idle.ms."""
    caplog.set_level(logging.WARNING, "tallymark.net.server.server")
    with (
        WireClient(broker.bootstrap_servers, 60) as good,
        WireClient(broker.bootstrap_servers, 60) as silent,
        WireClient(broker.bootstrap_servers, 60) as slow,
    ):
        assert log_in(good, "alice", PASSWORD) == 0
        slow.ask(ApiVersionsRequest(), 2)
        assert silent.closed_by_peer()
        assert slow.closed_by_peer()
        assert good.ask(ApiVersionsRequest(), 2).error_code == 0
    assert "it does not log in" in caplog.text


def test_who_pipelines_lets_others_go_first() -> None:
    """A connection's hundred requests were served in one turn of the event loop, however long
    they took: with twenty such connections everybody else waited 0.3 s for each answer."""
    order: list[str] = []

    def serve(header: RequestHeader, _body: memoryview, connection: Connection) -> bytes:
        order.append(header.client_id or "")
        assert isinstance(connection, ServerConnection)
        deadline = connection.accepted_at + 60
        loop = asyncio.get_running_loop()
        began = loop.time()
        while loop.time() - began < 0.003 and began < deadline:
            pass
        return bytes(4) + bytes(4)

    async def main() -> None:
        server = Server(serve)
        await server.start("127.0.0.1", 0)
        host, port = server.address
        flood = [await asyncio.open_connection(host, port) for _ in range(3)]
        _, good = await asyncio.open_connection(host, port)
        for _, writer in flood:
            writer.write(encode_request(ApiVersionsRequest(), 2, 1, "flood") * 100)
        await asyncio.sleep(0.02)
        good.write(encode_request(ApiVersionsRequest(), 2, 1, "good"))
        while "good" not in order or len(order) < 20:
            await asyncio.sleep(0.01)
        for writer in (good, *(writer for _, writer in flood)):
            writer.close()
        await server.stop(0.1)

    asyncio.run(main())
    assert order.index("good") < 50


def test_few_are_accepted_in_a_turn_and_more_may_wait() -> None:
    """128 connections were accepted in one turn, and 128 TLS handshakes, a millisecond each, began
    in the next."""

    async def main() -> int:
        server = Server(lambda *_: None)
        await server.start("127.0.0.1", 0)
        host, port = server.address
        # The loop does not run meanwhile: they wait in the kernel.
        clients = [socket.create_connection((host, port), 10) for _ in range(10 * FEW_ACCEPTS)]
        turns, most, before = 0, 0, 0
        while len(server.connections) < len(clients):
            turns += 1
            assert turns < 10_000
            most = max(most, len(server.connections) - before)
            before = len(server.connections)
            await asyncio.sleep(0)
        for client in clients:
            client.close()
        await server.stop(0.1)
        return most

    assert asyncio.run(main()) <= 2 * FEW_ACCEPTS


def test_nobody_shakes_hands_again(certificates: Certificates) -> None:
    """A client of TLS 1.2 may ask for a new handshake on a connection, each one a signature of the
    server's: OpenSSL before 3 allows that."""
    assert server_context(certificates.broker).options & ssl.OP_NO_RENEGOTIATION
