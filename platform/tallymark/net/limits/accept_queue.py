"""The queue of connections that wait to be accepted, and the log when none can be accepted.

A listener without free descriptors or buffers cannot accept. asyncio then waits a second and calls
the loop's exception handler for every connection of the listener's backlog: one traceback each,
every second, 24 MB of log in ten seconds. Here it is one line in ten seconds. Meanwhile new
connections wait in the kernel's queue, and open ones are served.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, Final

from tallymark.net.limits.log_rate import LogRate

log: Final = logging.getLogger(__name__)

WAITING: Final = 1024
"""Connections that wait to be accepted by a broker (Apache Kafka has 50). They take no descriptor.
When the queue is full the kernel drops a client's packet, and the client sends it again after a
second: with a queue of 128, half of 2,000 clients that reconnected at once lost a second so."""
ACCEPTS: Final = 128
"""The same for HTTP servers, which accept all of them in one turn of the event loop."""
FEW_ACCEPTS: Final = 8
"""So many connections are accepted in one turn of the event loop. Only after that turn are they
counted, and closed where there are too many; their TLS handshakes (a millisecond each) begin in the
next turn. Where descriptors are scarce, this is the length of the queue, too."""

_TURNS: Final = 3
"""Turns of the event loop from an accepted socket to its transport, and one more."""

_Handler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


def rate_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Log errors of accepting on ``loop`` in one line, once in ten seconds. All other errors go to
    the exception handler that the loop already has. Idempotent."""
    before = loop.get_exception_handler()
    if not isinstance(before, _AcceptErrors):
        loop.set_exception_handler(_AcceptErrors(before))


def let_wait(server: asyncio.Server, many: int) -> None:
    """Let ``many`` connections wait to be accepted. asyncio has one number for this and for how
    many it accepts in a turn; a second listen() changes only the first."""
    for listening in server.sockets:
        if listening.fileno() < 0:  # of a loop without descriptors
            continue
        with socket.fromfd(listening.fileno(), listening.family, listening.type) as same:
            same.listen(many)


async def close_listener(server: asyncio.Server) -> None:
    """Stop listening. When its server is closed, asyncio loses a socket that it has accepted but
    has not yet made a transport of: the client then waits on a connection that is not served. So
    first stop accepting, then let the next turns of the loop make these transports, then close."""
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        if listening.fileno() >= 0:
            loop.remove_reader(listening.fileno())
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    server.close()


class _AcceptErrors:
    def __init__(self, otherwise: _Handler | None) -> None:
        self._otherwise = otherwise
        self._rate = LogRate()

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and str(context.get("message")).startswith("socket.accept()"):
            held = self._rate.passes(error.errno)
            if held is not None:
                log.warning(
                    "no connection can be accepted: %s; tried again each second, repeated=%d",
                    error.strerror,
                    held,
                )
        elif self._otherwise is not None:
            self._otherwise(loop, context)
        else:
            loop.default_exception_handler(context)
