"""The queue of connections that wait to be accepted, and the log when none can be.

A listener without descriptors or buffers cannot accept. asyncio then waits a second and calls the
loop's exception handler for every connection of the listener's backlog: one traceback each, every
second, 24 MB of log in ten seconds. Here that is one line in ten seconds. Meanwhile connections
wait in the kernel's queue, and those that are open are served.
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
Where the queue is full the kernel drops what a client sends, and the client repeats it after a
second: so it was for half of 2,000 clients that came back at once where 128 could wait."""
ACCEPTS: Final = 128
"""The same for servers that accept all of them in one turn, those of the web."""
FEW_ACCEPTS: Final = 8
"""As many are accepted in one turn of the event loop: none of them is counted, or closed as one too
many, before the turn is over, and their TLS handshakes (a millisecond each) begin in the next one.
Where descriptors are scarce no more wait, either."""

_Handler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]


def rate_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Have errors of accepting on ``loop`` logged in one line, once in ten seconds. Everything
    else goes to the exception handler that it has. Idempotent."""
    before = loop.get_exception_handler()
    if not isinstance(before, _AcceptErrors):
        loop.set_exception_handler(_AcceptErrors(before))


def let_wait(server: asyncio.Server, many: int) -> None:
    """Have so many connections wait to be accepted. asyncio has one number for that and for how
    many it accepts in a turn; listen() again changes the first of them."""
    for listening in server.sockets:
        with socket.fromfd(listening.fileno(), listening.family, listening.type) as same:
            same.listen(many)


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
