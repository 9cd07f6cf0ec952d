"""What serves requests, as a connection sees it, and the place of each answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from tallymark.net.server.responses import Payload
from tallymark.protocol.frames import RequestHeader

if TYPE_CHECKING:
    from tallymark.net.server.connection import ServerConnection

BARE: Final = RequestHeader(-1, 0, 0, None)
"""Stands for the header of a frame that has none."""

Answer: TypeAlias = Payload | None
"""None: the request has no response (Produce with acks=0)."""


class Handler(Protocol):
    """Answers one request. ``body`` is the frame behind its header: give it to ``decode(cls,
    header.api_version, body)``. May return the answer or an awaitable of it.

    Handlers of one connection are called in the order of its requests. A coroutine runs up to its
    first ``await`` before the next request is handed over (on Python 3.11: before the next
    coroutine). What a handler raises closes the connection; errors meant for the client are
    responses.
    """

    def __call__(
        self, header: RequestHeader, body: memoryview, connection: ServerConnection, /
    ) -> Answer | Awaitable[Answer]: ...


class Slot:
    """The place of one response. ``answer`` counts once ``ready``."""

    __slots__ = ("answer", "api_key", "ready", "size", "task")

    def __init__(self, api_key: int, size: int) -> None:
        self.api_key = api_key
        self.size = size
        self.answer: Answer = None
        self.ready = False
        self.task: asyncio.Future[Answer] | None = None


OnClose: TypeAlias = Callable[["ServerConnection"], None]
