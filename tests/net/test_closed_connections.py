"""What closed connections held is freed."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from tallymark.net.limits import closed_connections
from tallymark.net.limits.closed_connections import ENOUGH, PLAIN, TLS, ClosedConnections
from tallymark.net.server.server import Server
from tallymark.net.tls.contexts import server_context


class Clock:
    """Collecting takes ``takes`` seconds."""

    def __init__(self, takes: float = 0.0) -> None:
        self.now = 100.0
        self.takes = takes
        self.collected: list[float] = []

    def collect(self) -> None:
        self.collected.append(self.now)
        self.now += self.takes

    def closed(self) -> ClosedConnections:
        return ClosedConnections(self.collect, lambda: self.now)


@pytest.mark.parametrize("weight", [PLAIN, TLS])
def test_so_many_connections_are_waited_for(weight: int) -> None:
    clock = Clock()
    closed = clock.closed()
    assert not any(closed.add(weight) for _ in range(ENOUGH // weight - 1))
    assert closed.add(weight)
    closed.collect()
    closed.collect()  # of two that ended at once
    assert clock.collected == [100.0]
    assert not closed.add(weight)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, ENOUGH)), max_size=60), st.floats(0, 2))
def test_collecting_takes_a_tenth_of_the_time_at_most(
    steps: list[tuple[float, int]], takes: float
) -> None:
    clock = Clock(takes)
    closed = clock.closed()
    for passed, weight in steps:
        clock.now += passed
        if closed.add(weight):
            closed.collect()
    gaps = [
        later - before for before, later in zip(clock.collected, clock.collected[1:], strict=False)
    ]
    assert all(gap >= 11 * takes - 1e-6 for gap in gaps)


def count(name: str) -> int:
    return sum(type(one).__name__ == name for one in gc.get_objects())


@pytest.mark.soak_cases("tls, given up")
@pytest.mark.parametrize("kind", ["tls", "tls, given up", "plain"])
def test_closed_connections_do_not_pile_up(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full collections had been made rare, for brokers with 10,000 partitions. What a client with
    TLS had held, 0.3 MB, then stayed until two million other objects had been made: a flood of
    handshakes took a broker 1.6 GB, and clients that came and went by and by did the same."""
    monkeypatch.setattr(closed_connections, "ENOUGH", 5 * (PLAIN if kind == "plain" else TLS))
    monkeypatch.setattr(closed_connections, "_PART", 0)  # a large test run collects for seconds
    authority = trustme.CA()
    keystore = tmp_path / "keystore.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(keystore))
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trusting)
    visits: dict[str, Callable[[socket.socket], None]] = {
        "plain": lambda link: None,
        "tls": lambda link: trusting.wrap_socket(link, server_hostname="127.0.0.1").close(),
        "tls, given up": lambda link: link.sendall(b"\x16"),
    }

    def visit(address: tuple[str, int]) -> None:
        with socket.create_connection(address) as link:
            visits[kind](link)

    async def main() -> int:
        server = Server(lambda *_: None)
        tls = None if kind == "plain" else server_context(keystore)
        await server.start("127.0.0.1", 0, tls)
        host, port = server.address
        for _ in range(30):
            await asyncio.to_thread(visit, (host, port))
            await asyncio.sleep(0.02)
        left = count("ServerConnection" if kind == "plain" else "SSLProtocol")
        await server.stop()
        return left

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(main()) <= 10
    finally:
        gc.enable()
