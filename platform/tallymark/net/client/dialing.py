"""Opening a connection: look up the name, try the addresses, begin TLS. The error of a step that
fails says which step it was, and to which address."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from tallymark.net.addresses import Address
from tallymark.net.client import connect_errors as refusals


class Dialled(Protocol):
    """An asyncio protocol that can be given up."""

    def abort(self) -> None: ...


P = TypeVar("P", bound=Dialled)


async def dial(
    address: Address, make: Callable[[], P], deadline: float, tls: ssl.SSLContext | None
) -> P:
    """The protocol that ``make`` makes, connected before ``deadline`` (of the loop's clock) and
    behind TLS if given. Raises ConnectError with the stage that failed."""
    loop = asyncio.get_running_loop()
    stage = "resolve"
    found: list[Any] = []
    made: P | None = None

    def connected() -> Any:  # asyncio's protocols are classes, ours only has to be one
        # asyncio makes the protocol between the TCP connection and the handshake.
        nonlocal stage, made
        stage = "tls" if tls is not None else stage
        made = make()
        return made

    try:
        async with asyncio.timeout_at(deadline):
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            stage = "connect"
            _, protocol = await loop.create_connection(
                connected,
                address.host,
                address.port,
                ssl=tls,
                happy_eyeballs_delay=0.25 if len(found) > 1 else None,
            )
    except (OSError, UnicodeError) as error:  # TimeoutError and ssl.SSLError are of the former
        if isinstance(error, UnicodeError):  # no name that the DNS could know
            error = OSError(str(error))
        _drop(made)
        refusal = refusals.unopened(str(address), stage, error)
        refusal.add("", resolved(address, [each[4][0] for each in found]))
        raise refusal from error
    except BaseException:
        _drop(made)
        raise
    dialled: P = protocol
    return dialled


def _drop(made: Dialled | None) -> None:
    """A caller that gives up in the turn in which the handshake ended leaves a connection that
    asyncio closes gracefully: on TLS its socket would stay open until the peer has answered."""
    if made is not None:
        made.abort()


def resolved(address: Address, ips: Sequence[str]) -> tuple[str, ...]:
    """The IP addresses behind a host name; none where the host is one itself."""
    return tuple(ip for ip in dict.fromkeys(ips) if ip != address.host)
