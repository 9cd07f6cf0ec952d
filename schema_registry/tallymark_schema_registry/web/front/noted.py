"""A request on its ordinary way, whose answer may be remembered when it has been sent."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tallymark_schema_registry.web.front.answer_memory import LARGEST


class Noted:
    """``line``, ``block`` and ``body`` are the request as it was received; ``since`` is how many
    changes the memory had seen then. ``cycle`` answers it; what that writes is copied."""

    def __init__(
        self, cycle: RequestResponseCycle, line: bytes, block: bytes, body: bytes, since: int
    ) -> None:
        self.cycle = cycle
        self.line = line
        self.block = block
        self.body = body
        self.since = since
        self._copy = _Copying(cycle.transport)
        cycle.transport = self._copy

    @property
    def sent(self) -> bytes:
        """The answer; b"" where it is too large to be remembered."""
        return b"".join(self._copy.parts)


class _Copying(asyncio.Transport):
    """What a cycle does with its transport, which it only writes to and closes."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self.parts: list[bytes] = []
        self._left = LARGEST

    def write(self, data: Any) -> None:
        self._transport.write(data)
        self._left -= len(data)
        if self._left >= 0:
            self.parts.append(data)
        else:
            self.parts.clear()

    def close(self) -> None:
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()
