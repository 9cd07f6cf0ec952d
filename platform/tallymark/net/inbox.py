"""Splits the bytes that a socket receives into frames, copying as little as possible.

::

    socket ─► scratch (one for all connections) ─► whole frames, copied out together
                 └── a frame that is not whole ─► memory of its own ─► the socket writes straight
                                                                        into it until it is full

Small requests cost one copy of a few hundred bytes, however many come in one read; large ones are
never joined from pieces. A frame's memory grows with the bytes received, not with the announced
size: a client that announces 100 MB and sends nothing holds no memory.
"""

from __future__ import annotations

import struct
import threading
from typing import Final

from tallymark.errors import RemoteProtocolError
from tallymark.net.limits.request_memory import MemoryOwner, RequestMemory

SCRATCH_BYTES: Final = 256 * 1024
_SIZE: Final = struct.Struct(">i")
_SIZE_AND_KEY: Final = struct.Struct(">ih")
_GROWTH: Final = 8
"""A frame has memory for so many times the bytes of it that were received ..."""
_LEAST: Final = 16 * 1024
"""... and for at least so many bytes."""
_of_thread: Final = threading.local()


def scratch_of_thread() -> memoryview:
    """Where bytes arrive first: one for all connections of a thread, hence of an event loop."""
    scratch: memoryview | None = getattr(_of_thread, "scratch", None)
    if scratch is None:
        scratch = _of_thread.scratch = memoryview(bytearray(SCRATCH_BYTES))
    return scratch


class Inbox:
    """The received bytes of one connection. The caller gets :meth:`space`, fills a part of it, and
    calls :meth:`take` with the number of bytes. No other connection may use the memory between
    these two calls.

    ``max_size`` is the largest frame, ``small_size`` the largest of requests whose API key is not
    in ``large_keys``: a request that is decoded into many objects takes several times its size.
    ``memory`` counts the bytes of frames that are not whole.
    """

    __slots__ = (
        "_asked_small_size",
        "_done",
        "_filled",
        "_frame",
        "_head",
        "_held",
        "_large_keys",
        "_max_size",
        "_memory",
        "_owner",
        "_scratch",
        "_size",
        "_small_size",
        "starved",
    )

    def __init__(
        self,
        owner: MemoryOwner,
        scratch: memoryview,
        memory: RequestMemory,
        max_size: int,
        small_size: int,
        large_keys: frozenset[int],
    ) -> None:
        self.starved = False
        """Whether a frame waits for memory: nothing may be received until it is granted."""
        self._max_size = max_size
        self._small_size = min(small_size, max_size)
        self._asked_small_size = small_size
        self._owner = owner
        self._scratch = scratch
        self._memory = memory
        self._large_keys = large_keys
        self._head = b""
        self._frame: bytearray | None = None
        self._filled = 0
        self._size = 0
        self._held = 0  # bytes of self._frame that self._memory has counted ...
        self._done = 0  # ... and those of whole frames that were returned

    def allow(self, max_size: int) -> None:
        """Set the largest size of a frame, from the next frame on."""
        self._max_size = max_size
        self._small_size = min(self._asked_small_size, max_size)

    @property
    def partial(self) -> bool:
        """Whether a frame has begun and is not whole."""
        return self._frame is not None or bool(self._head)

    def space(self) -> memoryview:
        """The memory for the bytes that are received next; never empty."""
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        if self._head:
            self._scratch[: len(self._head)] = self._head
            return self._scratch[len(self._head) :]
        return self._scratch

    def take(self, count: int) -> list[memoryview]:
        """Take ``count`` bytes that were written into :meth:`space`. Returns the frames that are
        whole now: without their size, as views of memory of their own.

        Raises RemoteProtocolError for a size that is negative or too large; the connection must be
        closed then.
        """
        frame = self._frame
        if frame is None:
            end = len(self._head) + count
            self._head = b""
            return self._cut(end)
        self._filled += count
        if self._filled == self._size:
            self._frame = None
            self._done += self._held
            self._held = 0
            return [memoryview(frame)]
        if self._filled == len(frame):
            self._grow()
        return []

    def memory_granted(self) -> None:
        """The missing memory (:attr:`starved`) is granted now: receiving may continue."""
        self.starved = False
        self._enlarge()

    def release(self, *, all_of_it: bool = False) -> None:
        """The returned frames are no longer used: stop counting their memory. ``all_of_it``: also
        that of the frame that is not whole, since the connection has ended."""
        size, self._done = self._done, 0
        if all_of_it:
            size += self._held
            self._held, self._frame, self._head, self.starved = 0, None, b"", False
            self._memory.forget(self._owner)
        if size:
            self._memory.give_back(self._owner, size)

    def _cut(self, end: int) -> list[memoryview]:
        scratch, pos = self._scratch, 0
        bounds: list[tuple[int, int]] = []
        while end - pos >= 4:
            size = _SIZE.unpack_from(scratch, pos)[0]
            if not 0 <= size <= self._small_size and not self._may_be_large(size, pos, end):
                break
            stop = pos + 4 + size
            if stop > end:
                self._begin(size, scratch[pos + 4 : end])
                end = pos
                break
            bounds.append((pos + 4, stop))
            pos = stop
        if pos < end:
            self._head = bytes(scratch[pos:end])
        if not bounds:
            return []
        own = memoryview(bytearray(scratch[:pos]))
        return [own[start:stop] for start, stop in bounds]

    def _may_be_large(self, size: int, pos: int, end: int) -> bool:
        """Whether the frame at ``pos`` may have ``size`` bytes; False until its API key has been
        received."""
        if not 0 <= size <= self._max_size:
            raise RemoteProtocolError(f"frame of {size} bytes; {self._max_size} are allowed")
        if end - pos < _SIZE_AND_KEY.size:
            return False
        key = _SIZE_AND_KEY.unpack_from(self._scratch, pos)[1]
        if key not in self._large_keys:
            raise RemoteProtocolError(
                f"request of {size} bytes with API key {key}; {self._small_size} are allowed"
            )
        return True

    def _begin(self, size: int, received: memoryview) -> None:
        """Begin a frame of ``size`` bytes with its first bytes, ``received``."""
        self._size = size
        self._filled = len(received)
        self._frame = bytearray(received)
        self._grow()

    def _grow(self) -> None:
        if self._memory.take(self._owner, self._room() - self._held):
            self._enlarge()
        else:
            self.starved = True

    def _room(self) -> int:
        """The size that the frame's memory must have now."""
        return min(self._size, max(_GROWTH * self._filled, _LEAST))

    def _enlarge(self) -> None:
        assert self._frame is not None
        self._held = self._room()
        # Not resized: the transport still has a view of the old one.
        grown = bytearray(self._held)
        grown[: self._filled] = self._frame
        self._frame = grown
