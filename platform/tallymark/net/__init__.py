"""Bytes over TCP: a sans-io client connection, an asyncio stream around it, and a server shell.

Reading order: :mod:`.connection` (pure: requests in, bytes out, responses back in order),
:mod:`.versions` (pure: which version of a request both sides speak), :mod:`.stream` (one asyncio
connection to a broker), :mod:`.responses` (what a server may answer with, and the one writer that
puts it on the wire in order), :mod:`.inbox` and :mod:`.request_memory` (what is received, and the
memory it may take), :mod:`.server_connection` and :mod:`.server` (the shell that the
broker stands on).
Security: :mod:`.tls` and :mod:`.tls_accept`; :mod:`.sasl` and what it names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tallymark.net.addresses import Address, parse_address, parse_addresses
    from tallymark.net.connection import ClientConnection
    from tallymark.net.responses import FileSliceLike, Payload
    from tallymark.net.sasl import SaslCredentials
    from tallymark.net.server import Server
    from tallymark.net.server_connection import Handler, ServerConnection
    from tallymark.net.server_limits import ServerLimits
    from tallymark.net.stream import Stream

__all__ = [
    "Address",
    "ClientConnection",
    "FileSliceLike",
    "Handler",
    "Payload",
    "SaslCredentials",
    "Server",
    "ServerConnection",
    "ServerLimits",
    "Stream",
    "parse_address",
    "parse_addresses",
]

# Loaded at first use: a client does not wait for the parts of a server.
_HOMES: Final = {
    "Address": "addresses",
    "ClientConnection": "connection",
    "FileSliceLike": "responses",
    "Handler": "server_connection",
    "Payload": "responses",
    "SaslCredentials": "sasl",
    "Server": "server",
    "ServerConnection": "server_connection",
    "ServerLimits": "server_limits",
    "Stream": "stream",
    "parse_address": "addresses",
    "parse_addresses": "addresses",
}


if not TYPE_CHECKING:  # with it type checkers would believe in every name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value  # found at once from now on
        return value
