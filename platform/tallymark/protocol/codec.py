"""Messages to bytes and back. Readers and writers are built at first use of a version."""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from tallymark.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from tallymark.protocol.readers import MOST_IN_REQUEST, UNBOUNDED, Reader, struct_reader
from tallymark.protocol.schema import Buffer, Message, Request
from tallymark.protocol.writers import Writer, struct_writer

M = TypeVar("M", bound=Message)

_readers: dict[tuple[type[Message], int], Reader] = {}
_writers: dict[tuple[type[Message], int], Writer] = {}


def encode(message: Message, version: int) -> bytes:
    """The body of ``message`` as ``version`` has it, without header and size.

    Raises LocalProtocolError when the version does not exist or a value does not fit its field.
    """
    return b"".join(encode_parts(message, version))


def encode_parts(message: Message, version: int) -> list[Any]:
    """Like :func:`encode`, as a list of buffers that follow one another; nothing is copied.

    A records field may hold any object with a ``size`` (a slice of a file): it is put into the list
    as it is; the code that writes the list to a socket handles it.
    """
    parts: list[Any] = []
    append_parts(message, version, parts)
    return parts


def append_parts(message: Message, version: int, parts: list[Any]) -> None:
    """Append the parts of :func:`encode_parts` to ``parts``."""
    cls = type(message)
    try:
        _writer(cls, version)(message, parts)
    except ProtocolError as error:
        raise LocalProtocolError(f"{cls.__name__} v{version}: {error}") from error
    except (struct.error, AttributeError, TypeError, ValueError) as error:
        raise LocalProtocolError(f"{cls.__name__} v{version} does not encode: {error}") from error


def decode(cls: type[M], version: int, buffer: Buffer, offset: int = 0) -> M:
    """Read a ``cls`` of ``version`` that fills ``buffer`` from ``offset`` to its end.

    Bytes and records fields are views of ``buffer``. Raises RemoteProtocolError for anything that
    is not exactly such a message: unknown version, short or spare bytes, bad UTF-8, null where
    none may be.
    """
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    try:
        message, end = reader_of(cls, version)(view, offset)
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{cls.__name__} v{version}: {error}") from error
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"{cls.__name__} v{version} is cut or bad: {error}") from error
    if end != len(view):
        spare = len(view) - end
        raise RemoteProtocolError(f"{cls.__name__} v{version} has {spare} spare bytes")
    result: M = message
    return result


def is_flexible(cls: type[Message], version: int) -> bool:
    """Whether ``version`` has compact lengths and tagged fields."""
    return version >= cls.flexible_from


def reader_of(cls: type[Message], version: int) -> Reader:
    reader = _readers.get((cls, version))
    if reader is None:
        _check_version(cls, version, RemoteProtocolError)
        most = MOST_IN_REQUEST if issubclass(cls, Request) else UNBOUNDED
        reader = struct_reader(cls, version, is_flexible(cls, version), most)
        _readers[cls, version] = reader
    return reader


def _writer(cls: type[Message], version: int) -> Writer:
    writer = _writers.get((cls, version))
    if writer is None:
        _check_version(cls, version, LocalProtocolError)
        writer = struct_writer(cls, version, is_flexible(cls, version))
        _writers[cls, version] = writer
    return writer


def _check_version(cls: type[Message], version: int, error: type[ProtocolError]) -> None:
    low, high = cls.valid_versions
    if not low <= version <= high:
        raise error(f"no such version, there are {low} to {high}")
