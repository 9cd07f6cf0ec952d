"""How much memory all bodies that are being received or worked on may take together."""

from __future__ import annotations

from tallymark_schema_registry.errors import busy
from tallymark_schema_registry.web.asgi import Message, Receive

MAX_BYTES = 64 << 20
FREE_BYTES = 64 << 10
"""Of every body: large ones that fill the memory must not keep small ones out."""


class BodyMemory:
    """Belongs to one event loop."""

    def __init__(self, capacity: int = MAX_BYTES) -> None:
        self.left = capacity

    def of_request(self, receive: Receive) -> BodyReceiver:
        """The receiver of one body; :meth:`BodyReceiver.release` gives its memory back."""
        return BodyReceiver(self, receive)


class BodyReceiver:
    """An ASGI ``receive``; raises the 503 error where no memory is left."""

    def __init__(self, room: BodyMemory, receive: Receive) -> None:
        self._room = room
        self._receive = receive
        self._size = 0
        self._taken = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        more = max(0, self._size - FREE_BYTES) - self._taken
        if more > self._room.left:
            raise busy("too many large bodies are being received")
        self._room.left -= more
        self._taken += more
        return message

    def release(self) -> None:
        """The request has been answered."""
        self._room.left += self._taken
        self._taken = 0
