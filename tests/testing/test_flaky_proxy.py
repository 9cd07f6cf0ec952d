"""The misbehaving proxy does what it is told, and nothing else."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from eventually import eventually

from tallymark.testing.flaky_proxy import FlakyProxy


class Echo:
    """A server that sends back what it gets."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.got = bytearray()
        self._thread = threading.Thread(target=self._run)
        self._peers: list[threading.Thread] = []
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._peers.append(threading.Thread(target=self._serve, args=(peer,)))
            self._peers[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        with peer:
            try:
                while data := peer.recv(65536):
                    self.got += data
                    peer.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for peer in self._peers:
            peer.join()


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[FlakyProxy]:
    with FlakyProxy(echo.address) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: FlakyProxy) -> Iterator[socket.socket]:
    host, _, port = proxy.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as client:
        yield client


def test_it_passes_everything_both_ways(client: socket.socket, proxy: FlakyProxy) -> None:
    data = bytes(range(256)) * 1000
    client.sendall(data)
    back = bytearray()
    while len(back) < len(data):
        back += client.recv(65536)
    assert back == data
    assert proxy.passed == (len(data), len(data))
    assert (proxy.accepted, proxy.open) == (1, 1)


def test_delay(client: socket.socket, proxy: FlakyProxy) -> None:
    proxy.delay(0.05)
    began = time.monotonic()
    client.sendall(b"x")
    assert client.recv(10) == b"x"
    assert time.monotonic() - began >= 0.1


def test_black_hole_in_one_direction(client: socket.socket, proxy: FlakyProxy, echo: Echo) -> None:
    proxy.black_hole("to_client")
    client.sendall(b"lost")
    client.settimeout(0.1)
    with pytest.raises(TimeoutError):
        client.recv(10)
    eventually(lambda: echo.got == b"lost")
    proxy.heal()
    client.settimeout(5)
    client.sendall(b"there")
    assert client.recv(10) == b"there"


def test_a_stalled_peer_takes_what_the_buffers_hold(
    client: socket.socket, proxy: FlakyProxy, echo: Echo
) -> None:
    client.sendall(b"x")
    assert client.recv(10) == b"x"
    proxy.stall()
    client.sendall(b"y" * 100)  # one read may be under way
    client.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.sendall(bytes(50_000_000))
    assert len(echo.got) < 1_000_000


def test_corruption_of_one_piece(client: socket.socket, proxy: FlakyProxy) -> None:
    proxy.corrupt(1)
    client.sendall(b"abc")
    assert client.recv(10) == b"abb"
    client.sendall(b"abc")
    assert client.recv(10) == b"abc"


def test_cut_resets(client: socket.socket, proxy: FlakyProxy) -> None:
    client.sendall(b"x")
    assert client.recv(10) == b"x"
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        client.recv(10)
    assert proxy.open == 0


def test_cut_in_the_middle_of_an_answer(client: socket.socket, proxy: FlakyProxy) -> None:
    proxy.cut_after(3)
    client.sendall(b"abcdef")
    assert [client.recv(1) for _ in range(3)] == [b"a", b"b", b"c"]
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_half_close_is_an_end_of_file_and_nothing_else(
    client: socket.socket, proxy: FlakyProxy, echo: Echo
) -> None:
    client.sendall(b"x")
    assert client.recv(10) == b"x"
    proxy.half_close()
    assert client.recv(10) == b""
    client.sendall(b"y")
    eventually(lambda: echo.got == b"xy", every=0.005)


def test_refuse_and_listen_again(proxy: FlakyProxy) -> None:
    host, _, port = proxy.address.rpartition(":")
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)
    proxy.listen()
    socket.create_connection((host, int(port)), timeout=5).close()


def test_a_target_that_is_not_there_is_a_reset(proxy: FlakyProxy) -> None:
    proxy.target = "127.0.0.1:1"
    host, _, port = proxy.address.rpartition(":")

    def connect_and_read() -> None:  # the reset may come as early as in connect()
        with socket.create_connection((host, int(port)), timeout=5) as client:
            client.recv(10)

    with pytest.raises(ConnectionResetError):
        connect_and_read()
