"""Opens a connection: looks up the name, tries the addresses, begins TLS. The error of a step that
fails names the step and the address."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from tallymark.net.addresses import Address
from tallymark.net.client import connect_errors as refusals

_NUMBER: Final = re.compile(r"\[Errno (\d+)\]")


class Dialled(Protocol):
    """An asyncio protocol whose connection can be aborted."""

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

    def connected() -> Any:  # typed Any: P need not inherit from asyncio's protocol classes
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
    except (OSError, UnicodeError) as caught:  # OSError includes TimeoutError and ssl.SSLError
        error = _one_error(caught)
        _drop(made)
        refusal = refusals.unopened(str(address), stage, error)
        refusal.add("", resolved(address, [each[4][0] for each in found]))
        raise refusal from error
    except BaseException:
        _drop(made)
        raise
    dialled: P = protocol
    return dialled


def _one_error(error: OSError | UnicodeError) -> OSError:
    """Of several addresses asyncio joins the errors to one of its own ("Multiple exceptions: [Errno
    111] Connect call failed ..., [Errno 111] ..."): a refusal is one, if all have refused."""
    if isinstance(error, UnicodeError):  # not a valid host name
        return OSError(str(error))
    numbers = set(_NUMBER.findall(str(error)))
    if error.errno is None and numbers == {str(errno.ECONNREFUSED)}:
        return ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
    return error


def _drop(made: Dialled | None) -> None:
    """Abort the connection of a caller that was cancelled in the same turn of the loop in which the
    handshake ended. asyncio would close it gracefully: with TLS the socket would stay open until
    the peer answers."""
    if made is not None:
        made.abort()


def resolved(address: Address, ips: Sequence[str]) -> tuple[str, ...]:
    """The IP addresses behind a host name; empty where the host is an IP address itself."""
    return tuple(ip for ip in dict.fromkeys(ips) if ip != address.host)
