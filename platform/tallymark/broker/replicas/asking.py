"""One fetch under way, which is given up where something urgent has to be asked.

A leader that has nothing to send keeps a request for a while. What comes meanwhile would wait as
long, so the connection is closed for another one: no other way ends a request.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tallymark.broker.connections.port import BrokerConnection
from tallymark.errors import ConnectError
from tallymark.protocol.messages import FetchRequest, FetchResponse

_GIVE_UP_AFTER: Final = 0.01
"""Seconds: the answer of a leader that has something to send comes sooner."""


class Asking:
    """Sends requests, one at a time, in the caller's own task. ``is_urgent``: something is to be
    asked that the request under way does not ask; the caller takes it back when it builds another
    one. Belongs to the event loop."""

    def __init__(self) -> None:
        self.is_urgent = False
        self._under_way: BrokerConnection | None = None
        self._given_up: BrokerConnection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    async def send(
        self, connection: BrokerConnection, request: FetchRequest, timeout_ms: int
    ) -> FetchResponse | None:
        """The leader's answer; None where the request was given up: the connection is closed then.
        Raises as :meth:`~tallymark.broker.connections.port.BrokerConnection.send` does."""
        self._under_way = connection
        if self.is_urgent:
            self.hurry()
        try:
            response = await connection.send(request, timeout_ms)
        except ConnectError:
            if self._given_up is not connection:
                raise
            return None
        finally:
            self._under_way = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        return None if self._given_up is connection else response

    def hurry(self) -> None:
        """Something is urgent: a request under way is given up if it has no answer very soon."""
        self.is_urgent = True
        if self._under_way is not None and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_GIVE_UP_AFTER, self._give_up)

    def _give_up(self) -> None:
        connection = self._given_up = self._under_way
        if connection is not None:
            self._closing = asyncio.create_task(connection.close())

    async def stop(self) -> None:
        """Return when nothing is being closed any more."""
        if self._closing is not None:
            await asyncio.gather(self._closing, return_exceptions=True)
