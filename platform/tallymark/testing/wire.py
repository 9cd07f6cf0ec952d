"""A blocking client of one connection for tests of what is on the wire: every request in the
version you say, every byte you like, no negotiation and no retry."""

from __future__ import annotations

import socket
from typing import Any, TypeVar

from tallymark.closing import ClosedByWith
from tallymark.net.addresses import parse_address
from tallymark.protocol import frames
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)


class WireClient(ClosedByWith):
    """One connection to ``address`` (``host:port``), as a context manager. ``timeout`` in seconds
    bounds every read."""

    def __init__(self, address: str, timeout: float = 10.0) -> None:
        host, port = parse_address(address)
        self._socket = socket.create_connection((host, port), timeout)
        self._next_id = 0

    def ask(self, request: Request[R], version: int) -> R:
        """Send a request and read its response, which must be the next frame."""
        correlation_id = self.send(request, version)
        answered, response = frames.decode_response(self.frame(), type(request), version)
        assert answered == correlation_id, f"response {answered} to request {correlation_id}"
        return response

    def send(self, request: Request[Any], version: int) -> int:
        """Send a request; returns its correlation id."""
        self._next_id += 1
        self.send_bytes(frames.encode_request(request, version, self._next_id, "wire"))
        return self._next_id

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are, size prefix included if there is to be one."""
        self._socket.sendall(data)

    def frame(self) -> bytes:
        """The next frame without its size. ConnectionError when the peer closes instead."""
        return self._exactly(int.from_bytes(self._exactly(4), "big", signed=True))

    def closed_by_peer(self) -> bool:
        """Whether the peer closes the connection, without a byte, within the timeout."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError(f"closed after {len(data)} of {size} bytes")
            data += part
        return bytes(data)
