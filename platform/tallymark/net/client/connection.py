"""The client's half of one connection, without a socket.

Two verbs: :meth:`ClientConnection.send` turns a request into bytes and remembers that its response
is due; :meth:`ClientConnection.receive` turns bytes into responses. A broker answers in the order
of the requests (Kafka protocol guide, "Network"), so the oldest request due is the only one that
may be answered; anything else means the two sides disagree about the stream, and that is final.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tallymark.errors import RemoteProtocolError
from tallymark.protocol import frames
from tallymark.protocol.messages import ApiVersionsRequest

MAX_RESPONSE_BYTES: Final = 128 * 1024 * 1024
Writer: TypeAlias = Callable[[int, str | None], list[Any]]
"""``write(correlation id, client id)``: a request's whole frame, as buffers."""
Reader: TypeAlias = Callable[[memoryview], Any]
"""``read(frame)``: the response in a frame whose correlation id is checked already."""
_LAST_CORRELATION_ID: Final = 2**31 - 1
_UNSUPPORTED_VERSION: Final = 35
_WRITTEN: Final = -1
"""In place of a version: a function reads the response."""


class ClientConnection:
    """Requests out, responses in, matched and decoded.

    ``client_id`` goes into every request header; a frame over ``max_response_bytes`` is refused
    with RemoteProtocolError before anything is allocated for it.
    """

    def __init__(self, client_id: str | None, max_response_bytes: int = MAX_RESPONSE_BYTES) -> None:
        self._client_id = client_id
        self.max_response_bytes = max_response_bytes
        self._frames = frames.FrameBuffer(max_response_bytes)
        self._due: deque[tuple[int, type[Any] | Reader, int]] = deque()
        self._next_id = 0

    @property
    def due(self) -> int:
        """How many requests wait for their response."""
        return len(self._due)

    def send(
        self, request: Any, version: int, *, expects_response: bool = True
    ) -> tuple[int, bytes]:
        """The correlation id and the bytes to write. ``expects_response=False`` is for the one
        request without a response: Produce with acks=0."""
        correlation_id = self._next_id
        data = frames.encode_request(request, version, correlation_id, self._client_id)
        self._next_id = 0 if correlation_id == _LAST_CORRELATION_ID else correlation_id + 1
        if expects_response:
            self._due.append((correlation_id, type(request), version))
        return correlation_id, data

    def send_written(self, write: Writer, read: Reader | None) -> tuple[int, list[Any]]:
        """:meth:`send` for callers that write and read frames without message objects. ``read``
        None: the request has no response."""
        correlation_id = self._next_id
        parts = write(correlation_id, self._client_id)
        self._next_id = 0 if correlation_id == _LAST_CORRELATION_ID else correlation_id + 1
        if read is not None:
            self._due.append((correlation_id, read, _WRITTEN))
        return correlation_id, parts

    def receive(self, data: bytes | bytearray | memoryview) -> list[tuple[int, Any]]:
        """The responses that these bytes complete, in order.

        Raises RemoteProtocolError for bytes that are not the response due; the connection must be
        closed then.
        """
        return [self.response(frame) for frame in self._frames.receive(data)]

    def response(self, frame: memoryview) -> tuple[int, Any]:
        """As :meth:`receive`, for one whole frame without its size: (correlation id, response)."""
        if not self._due:
            raise RemoteProtocolError("a response came though no request was waiting for one")
        expected, request_class, version = self._due.popleft()
        if version == _WRITTEN:
            if frames.decode_correlation_id(frame) != expected:
                raise _strange(frame, request_class, expected)
            return expected, request_class(frame)
        assert isinstance(request_class, type)
        if request_class is ApiVersionsRequest and _refuses_version(frame):
            version = 0
        correlation_id = frames.decode_correlation_id(frame)
        if correlation_id != expected:
            raise _strange(frame, request_class, expected)
        return frames.decode_response(frame, request_class, version)


def _strange(frame: memoryview, due: object, expected: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"a response carries the correlation id {frames.decode_correlation_id(frame)}, due is that "
        f"of {getattr(due, '__name__', 'a request')}, {expected}"
    )


def _refuses_version(frame: memoryview) -> bool:
    """Whether an ApiVersions response has the error UNSUPPORTED_VERSION: its body then has the v0
    shape, whatever version was requested (KIP-511).

    ::

        correlation id i32 | error code i16 | ...
    """
    return (
        len(frame) >= 6 and int.from_bytes(frame[4:6], "big", signed=True) == _UNSUPPORTED_VERSION
    )
