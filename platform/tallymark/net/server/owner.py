"""The interface of a server for the connections that it accepted."""

from __future__ import annotations

import asyncio
from typing import Protocol, TypeVar

from tallymark.net.limits.log_rate import LogRate
from tallymark.net.limits.request_memory import RequestMemory
from tallymark.net.server.handler import Answer, Handler
from tallymark.net.server.limits import ServerLimits
from tallymark.net.tls.principals import PrincipalRules

C = TypeVar("C", contravariant=True)


class Owner(Protocol[C]):
    """The server that accepted a connection (``C``), as the connection sees it."""

    handler: Handler
    listener: str
    """Its name."""
    limits: ServerLimits
    principals: PrincipalRules
    """The rules from the name in a certificate to a user."""
    abandon: frozenset[int]
    """API keys whose handlers are cancelled when their client goes away."""
    request_memory: RequestMemory
    scratch: memoryview
    """Memory that all connections receive into, one at a time."""
    working: set[asyncio.Future[Answer]]
    """Handlers that have not ended; a connection adds its own and removes them."""
    log_rate: LogRate
    """Limits the log lines that each host causes."""

    def admit(self, connection: C, transport: asyncio.Transport) -> bool:
        """Count a new connection. False: there are too many, and the caller must close it."""
        ...

    def forget(self, connection: C) -> None:
        """A connection has ended."""
