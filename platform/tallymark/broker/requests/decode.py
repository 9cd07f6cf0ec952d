"""Decodes requests as leniently as Apache Kafka does.

Kafka ignores bytes after a request's last field, and clients rely on it: librdkafka 2.16 requests
all topics (Metadata v13) with four bytes for the null array instead of one. The fields that are
misread by this are flags, and zero does no harm there.
"""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from tallymark.errors import RemoteProtocolError
from tallymark.protocol import codec
from tallymark.protocol.schema import Request

R = TypeVar("R", bound=Request[Any])


def decode_request(cls: type[R], version: int, body: memoryview) -> R:
    """As :func:`tallymark.protocol.codec.decode`, but ignores extra bytes at the end."""
    try:
        request: R = codec.reader_of(cls, version)(body, 0)[0]
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{cls.__name__} v{version}: {error}") from error
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"{cls.__name__} v{version} is cut or bad: {error}") from error
    return request
