"""The types of an answer, and how an answer is written to the socket.

An answer is bytes, or a :class:`Payload`: a sequence of bytes and slices of files (a fetch
response: header, slice, header, slice ...). Large slices go from the page cache to the socket with
``loop.sendfile`` where the loop has it (the standard asyncio loop, not uvloop, and never with TLS);
small ones are read and written, which costs less than the extra awaits.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import IO, Any, Final, NamedTuple, Protocol, TypeAlias, cast


class FileSliceLike(Protocol):
    """``size`` bytes of ``file`` from ``position``.

    ``file`` is a descriptor, or has ``fileno()`` (OSError when there is none) and may have
    ``pread(size, position)``. It must stay open, and those bytes unchanged, until the response
    is sent.
    """

    @property
    def file(self) -> Any: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...


Part: TypeAlias = bytes | FileSliceLike


class Payload:
    """A whole response with its size prefix, in ``parts``; ``size`` is the sum of their bytes."""

    __slots__ = ("parts", "size")

    def __init__(self, parts: Sequence[Part], size: int) -> None:
        self.parts = parts
        self.size = size

    @classmethod
    def of(cls, *parts: Part) -> Payload:
        """The payload of these parts."""
        return cls(parts, sum(len(p) if isinstance(p, bytes) else p.size for p in parts))

    def __len__(self) -> int:
        return self.size


SENDFILE_FROM: Final = 32 * 1024
"""Slices of fewer bytes are read and written (measured: sendfile pays off above 16 to 64 KiB)."""
_CHUNK: Final = 256 * 1024


class _Slice(NamedTuple):
    """The rest of a slice."""

    file: Any
    position: int
    size: int


class CutFileError(Exception):
    """A file ended before its slice; the response cannot be finished."""


class PayloadWriter:
    """Writes payloads with slices to one transport; one :meth:`write` at a time.

    ``drained()`` returns when the transport's buffer has room. ``busy`` is true while the kernel
    sends a file: the transport must not be used then.
    """

    def __init__(
        self, transport: asyncio.Transport, drained: Callable[[], Any], sendfile: bool = True
    ) -> None:
        self.busy = False
        self._transport = transport
        self._drained = drained
        self._loop = asyncio.get_running_loop()
        # Other loops (uvloop) write after write() has returned, and do not report how much is left:
        # bytes sent directly to the socket could overtake those.
        own = isinstance(cast(object, transport), asyncio.Transport)
        self._sendfile = sendfile and own and transport.get_extra_info("sslcontext") is None
        sock = transport.get_extra_info("socket")
        self._socket = sock.fileno() if sock is not None and self._sendfile else -1

    def write_now(self, payload: bytes | Payload) -> Payload | None:
        """Write what the socket takes without waiting; returns the rest, for :meth:`write`.

        Most answers are sent whole here, without a task and ``loop.sendfile`` (measured: half the
        CPU of a fetch of 200 KB)."""
        parts = (payload,) if isinstance(payload, bytes) else payload.parts
        run: list[bytes] = []
        for at, part in enumerate(parts):
            if isinstance(part, bytes):
                run.append(part)
                continue
            self._write_run(run)
            run = []
            sent = self._send_now(part)
            if sent < part.size:
                rest = _Slice(part.file, part.position + sent, part.size - sent)
                return Payload.of(rest, *parts[at + 1 :])
        self._write_run(run)
        return None

    def _write_run(self, run: list[bytes]) -> None:
        # Joined, not ``writelines``: until CPython 3.13.6 that never calls pause_writing() when
        # the peer has stopped reading.
        if run and not self._transport.is_closing():
            self._transport.write(run[0] if len(run) == 1 else b"".join(run))

    def _send_now(self, piece: FileSliceLike) -> int:
        """Bytes of the slice that the kernel took at once."""
        if (
            self._socket < 0
            or not self._sendfile
            or self._transport.is_closing()
            or self._transport.get_write_buffer_size()
        ):
            return 0
        source = _descriptor_of(piece.file)
        if source < 0:
            return 0
        try:
            return os.sendfile(self._socket, source, piece.position, piece.size)
        except OSError:
            return 0  # no room, or the peer is gone: write() waits, or raises

    async def write(self, payload: bytes | Payload) -> None:
        """Write the whole payload. Raises OSError when the peer is gone, CutFileError when a file
        is too short."""
        for part in (payload,) if isinstance(payload, bytes) else payload.parts:
            if isinstance(part, bytes):
                self._transport.write(part)
            elif self._sendfile and part.size >= SENDFILE_FROM and _descriptor_of(part.file) >= 0:
                await self._send(part)
            else:
                await self._copy(part)
        await self._drained()

    async def _send(self, piece: FileSliceLike) -> None:
        source = cast(IO[bytes], _Descriptor(_descriptor_of(piece.file)))
        await self._drained()
        self.busy = True
        try:
            sent = await self._loop.sendfile(
                self._transport, source, piece.position, piece.size, fallback=False
            )
        except (NotImplementedError, asyncio.SendfileNotAvailableError):
            self._sendfile = False
            sent = piece.size
            await self._copy(piece)
        except RuntimeError as error:  # how asyncio reports a transport that is closing
            raise ConnectionResetError(str(error)) from error
        finally:
            self.busy = False
        if sent != piece.size:
            raise CutFileError(f"{sent} of {piece.size} bytes from {piece.position} were there")

    async def _copy(self, piece: FileSliceLike) -> None:
        read = getattr(piece.file, "pread", None) or partial(os.pread, _descriptor_of(piece.file))
        position, end = piece.position, piece.position + piece.size
        while position < end:
            data = read(min(_CHUNK, end - position), position)
            if not data:
                raise CutFileError(f"the file ends at {position}, the slice at {end}")
            await self._drained()
            self._transport.write(data)
            position += len(data)


def _descriptor_of(file: Any) -> int:
    """The descriptor behind a slice's ``file``; -1 where there is none (a file in memory)."""
    if isinstance(file, int):
        return file
    try:
        return int(file.fileno())
    except OSError:
        return -1


class _Descriptor:
    """A bare descriptor as the object that ``loop.sendfile`` needs."""

    mode = "rb"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor
