"""A proxy before one broker that keeps back a request, lets its connection end, and delivers the
request later, on a connection of its own: as a network may (jepsen.io, Bufstream 0.1.0)."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Final, Self

from tallymark.net.addresses import parse_address
from tallymark.protocol.api import ApiKey

_SIZE: Final = struct.Struct(">i")
_SECONDS: Final = 60


class LateRequests:
    """Carries everything to ``target`` (set before the first connection). After :meth:`keep_back`
    the next request of that kind is not passed on: the client's connection is cut instead."""

    def __init__(self) -> None:
        self.target = ""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._keep: ApiKey | None = None
        self._kept: bytes | None = None
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._was_kept = threading.Event()

    @property
    def port(self) -> int:
        found: int = self._listener.getsockname()[1]
        return found

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def keep_back(self, key: ApiKey) -> None:
        """The next request of this kind is late."""
        self._was_kept.clear()
        self._keep = key

    def deliver(self) -> bytes:
        """Pass it on now; returns its answer, behind the correlation id."""
        assert self._was_kept.wait(_SECONDS), "no such request came"
        assert self._kept is not None
        with socket.create_connection(parse_address(self.target), _SECONDS) as late:
            late.sendall(_SIZE.pack(len(self._kept)) + self._kept)
            answer = _frame(late)
        assert answer is not None, "the broker has cut the connection"
        return answer[4:]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            _end(self._listener)
            for each in self._sockets:
                _end(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    target = socket.create_connection(parse_address(self.target), _SECONDS)
                except OSError:
                    client.close()
                    continue
                target.settimeout(None)
                with self._lock:
                    self._sockets += (client, target)
                for way in ((client, target, True), (target, client, False)):
                    threading.Thread(target=self._carry, args=way, daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket, requests: bool) -> None:
        with contextlib.suppress(OSError):
            while (frame := _frame(source)) is not None:
                if requests and self._is_late(frame):
                    break
                to.sendall(_SIZE.pack(len(frame)) + frame)
        _end(source)
        _end(to)

    def _is_late(self, frame: bytes) -> bool:
        with self._lock:
            if self._keep is None or int.from_bytes(frame[:2], "big") != self._keep:
                return False
            self._keep, self._kept = None, frame
        self._was_kept.set()
        return True


def _frame(source: socket.socket) -> bytes | None:
    head = _exactly(source, _SIZE.size)
    return None if head is None else _exactly(source, _SIZE.unpack(head)[0])


def _exactly(source: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            return None
        data += more
    return data


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
