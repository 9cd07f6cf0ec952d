"""Frames: a request or a response as it is sent on a connection.

::

    request   size i32 | key i16 | version i16 | correlation i32 | client id string | [tags] | body
    response  size i32 | correlation i32 | [tags] | body

``size`` counts what follows it. [tags] is there in flexible versions only, and never in the header
of an ApiVersions response, whose reader does not know the broker's versions yet (KIP-511). The
client id stays a classic string even in flexible headers (KIP-482).
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple, TypeVar, cast

from tallymark.errors import LocalProtocolError, RemoteProtocolError
from tallymark.protocol.api import ApiKey
from tallymark.protocol.codec import append_parts, decode, is_flexible
from tallymark.protocol.messages import request_class as class_of_requests
from tallymark.protocol.messages import response_class as class_of_answers
from tallymark.protocol.schema import Buffer, Message, Request
from tallymark.protocol.varint import decode_uvarint

R = TypeVar("R", bound=Message)

DEFAULT_MAX_FRAME: Final = 100 * 1024 * 1024
_UNSUPPORTED_VERSION: Final = (35).to_bytes(2, "big")
_SIZE: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">ihhih")
_REQUEST_IN: Final = struct.Struct(">hhih")
_RESPONSE: Final = struct.Struct(">ii")
_RESPONSE_TAGGED: Final = struct.Struct(">iib")
_NEVER: Final = 1 << 15


class _FlexibleFrom(dict[int, int]):
    """API key -> first version of its requests with a flexible header, filled as keys come."""

    def __missing__(self, key: int) -> int:
        cls = class_of_requests(ApiKey(key)) if key in _KEYS else None
        if cls is None:  # not stored: any client can choose the number
            return _NEVER
        self[key] = cls.flexible_from
        return cls.flexible_from


_KEYS: Final = frozenset(map(int, ApiKey))
_FLEXIBLE_FROM: Final = _FlexibleFrom()


class RequestHeader(NamedTuple):
    """The header before a request's body. ``client_id`` may be null."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def encode_request(
    request: Request[Any], version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """A request's whole frame, size included."""
    return b"".join(encode_request_parts(request, version, correlation_id, client_id))


def encode_request_parts(
    request: Request[Any], version: int, correlation_id: int, client_id: str | None
) -> list[Any]:
    """The frame as buffers that follow one another; records are not copied."""
    name = (client_id or "").encode()
    if len(name) > 0x7FFF:
        raise LocalProtocolError(f"client id has {len(name)} bytes, 32767 are allowed")
    parts: list[Any] = [b""]
    if is_flexible(type(request), version):
        parts.append(b"\0")
    append_parts(request, version, parts)
    size = 10 + len(name) + sum(map(_size_of, parts))
    length = -1 if client_id is None else len(name)
    parts[0] = _REQUEST.pack(size, request.api_key, version, correlation_id, length) + name
    return parts


def encode_response(response: Message, version: int, correlation_id: int) -> bytes:
    """A response's whole frame, size included."""
    return b"".join(encode_response_parts(response, version, correlation_id))


def encode_response_parts(response: Message, version: int, correlation_id: int) -> list[Any]:
    """The frame as buffers that follow one another; records are not copied.

    A records field may hold any object with a ``size``, such as a slice of a file: it is put into
    the list as it is, and the size of the frame counts it.
    """
    parts: list[Any] = [b""]
    append_parts(response, version, parts)
    size = sum(map(_size_of, parts))
    if _has_tagged_header(type(response), version):
        parts[0] = _RESPONSE_TAGGED.pack(size + 5, correlation_id, 0)
    else:
        parts[0] = _RESPONSE.pack(size + 4, correlation_id)
    return parts


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Read the header of ``frame`` (without its size): (header, where the body begins).

    The header of a key that is not known is read as a classic one; its version cannot be served
    anyway. Raises RemoteProtocolError when the bytes are no header.
    """
    try:
        key, version, correlation_id, length = _REQUEST_IN.unpack_from(frame)
        pos = _REQUEST_IN.size
        client_id = None
        if length != -1:
            if length < 0 or pos + length > len(frame):
                raise RemoteProtocolError(f"client id of length {length} is cut short")
            client_id = str(frame[pos : pos + length], "utf-8")
            pos += length
        if version >= _FLEXIBLE_FROM[key]:
            pos = pos + 1 if frame[pos] == 0 else _skip_tags(frame, pos)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"bad request header: {error}") from error
    return RequestHeader(key, version, correlation_id, client_id), pos


def decode_correlation_id(frame: Buffer) -> int:
    """The correlation id of a response ``frame``: it identifies the request."""
    if len(frame) < 4:
        raise RemoteProtocolError(f"a response of {len(frame)} bytes has no correlation id")
    correlation_id: int = _SIZE.unpack_from(frame)[0]
    return correlation_id


def decode_response(frame: Buffer, request_class: type[Request[R]], version: int) -> tuple[int, R]:
    """Read the answer to a ``request_class`` of ``version``: (correlation id, response).

    A broker that does not know the version of an ApiVersions request answers in version 0, the only
    one that both sides know for sure (KIP-511).
    """
    correlation_id = decode_correlation_id(frame)
    response_class = cast(type[R], class_of_answers(request_class))
    pos = 4
    if _has_tagged_header(response_class, version):
        pos = _skip_tags(frame, pos)
    elif response_class.api_key is ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
        version = 0
    return correlation_id, decode(response_class, version, frame, pos)


def _has_tagged_header(response_class: type[Message], version: int) -> bool:
    return response_class.api_key is not ApiKey.API_VERSIONS and is_flexible(
        response_class, version
    )


def _skip_tags(frame: Buffer, pos: int) -> int:
    count, pos = decode_uvarint(frame, pos)
    for _ in range(count):
        _, pos = decode_uvarint(frame, pos)
        size, pos = decode_uvarint(frame, pos)
        pos += size
        if pos > len(frame):
            raise RemoteProtocolError("a tagged field of the header is cut short")
    return pos


def _size_of(part: Any) -> int:
    return len(part) if isinstance(part, (bytes, bytearray, memoryview)) else part.size


class FrameBuffer:
    """Cuts a stream of bytes into frames.

    Frames come without their size, as writable views of our own memory: record batches can be
    patched in place. Received bytes are copied once.
    """

    def __init__(self, max_size: int = DEFAULT_MAX_FRAME) -> None:
        self.max_size = max_size
        """A larger frame is refused; may be changed between two frames."""
        self._chunks: list[bytes] = []
        self._held = 0
        self._wanted = _SIZE.size

    @property
    def held(self) -> int:
        """Bytes received that are not yet a whole frame."""
        return self._held

    def receive(self, data: Buffer) -> list[memoryview]:
        """Take ``data``; return the frames that are complete now.

        Raises RemoteProtocolError for a negative size or one above ``max_size``; the stream is
        then beyond use.
        """
        # Only ``bytes`` cannot change meanwhile; a caller may reuse other memory.
        self._chunks.append(data if isinstance(data, bytes) else bytes(data))
        self._held += len(data)
        if self._held < self._wanted:
            return []
        view = memoryview(bytearray().join(self._chunks))
        frames: list[memoryview] = []
        pos = 0
        self._wanted = _SIZE.size
        while len(view) - pos >= _SIZE.size:
            end = pos + _SIZE.size + self._frame_size(view, pos)
            if end > len(view):
                self._wanted = end - pos
                break
            frames.append(view[pos + _SIZE.size : end])
            pos = end
        self._held = len(view) - pos
        self._chunks = [bytes(view[pos:])]
        return frames

    def _frame_size(self, data: memoryview, pos: int) -> int:
        size: int = _SIZE.unpack_from(data, pos)[0]
        if not 0 <= size <= self.max_size:
            raise RemoteProtocolError(f"frame of {size} bytes; {self.max_size} are allowed")
        return size
