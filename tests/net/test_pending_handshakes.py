"""TLS handshakes that are begun and not ended."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import trustme
from hypothesis import given
from hypothesis import strategies as st

from tallymark.net.limits.connection_quota import ConnectionQuota
from tallymark.net.limits.pending_handshakes import MAX_PENDING, PendingHandshakes
from tallymark.net.server.server import Server
from tallymark.net.tls.contexts import server_context


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.booleans())))
def test_the_oldest_of_who_has_most_makes_room(steps: list[tuple[str, int, bool]]) -> None:
    pending: PendingHandshakes[tuple[str, int]] = PendingHandshakes(5)
    held: list[tuple[str, int]] = []
    for host, number, begins in steps:
        one = (host, number)
        if begins and one not in held:
            held.append(one)
            given_up = pending.begin(host, one)
            assert (given_up is not None) == (len(held) > 5)
            if given_up is not None:
                most = max(sum(each[0] == other for each in held) for other in "abc")
                of_it = [each for each in held if each[0] == given_up[0]]
                assert len(of_it) == most
                assert of_it[0] == given_up
                held.remove(given_up)
        elif not begins:
            pending.end(host, one)
            held = [each for each in held if each != one]
        assert sorted(pending) == sorted(held)
        assert len(pending) == len(held) <= 5


def test_a_thousand_first_messages_are_not_a_thousand_handshakes(tmp_path: Path) -> None:
    """A thousand clients sent the first message of a TLS handshake and no more: for ten seconds
    they took 1 GB of the broker. Others shake hands as ever, and nothing of them stays counted."""
    authority = trustme.CA()
    keystore = tmp_path / "keystore.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(keystore))
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trusting)
    quota = ConnectionQuota(10_000)

    async def main() -> None:
        server = Server(lambda *_: None, quota=quota)
        await server.start("127.0.0.1", 0, server_context(keystore))
        host, port = server.address
        with contextlib.ExitStack() as stack:
            for _ in range(3 * MAX_PENDING):
                sock = stack.enter_context(socket.create_connection((host, port), 10))
                sock.sendall(first_message(trusting))
                await asyncio.sleep(0)
            await until(lambda: quota.open == MAX_PENDING)
            _, good = await asyncio.open_connection(host, port, ssl=trusting)
            await until(lambda: len(server.connections) == 1)
            good.close()
        await until(lambda: quota.open == 0)
        await server.stop(0.1)

    asyncio.run(main())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


def first_message(trusting: ssl.SSLContext) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()
