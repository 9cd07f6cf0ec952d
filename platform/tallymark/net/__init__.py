"""Bytes over TCP: framing, TLS, SASL, and the connections of both sides.

Reading order: :mod:`.addresses`, :mod:`.inbox` (bytes into frames), :mod:`.server` (the broker's
side), :mod:`.client` (the side of clients), :mod:`.sasl` and :mod:`.tls`, :mod:`.limits` (what a
peer may take), :mod:`.web` (HTTP).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tallymark.net.addresses import Address, parse_address, parse_addresses
    from tallymark.net.client.broker_connection import Stream
    from tallymark.net.client.connection import ClientConnection
    from tallymark.net.sasl.mechanisms import SaslCredentials
    from tallymark.net.server.connection import Handler, ServerConnection
    from tallymark.net.server.limits import ServerLimits
    from tallymark.net.server.responses import FileSliceLike, Payload
    from tallymark.net.server.server import Server

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
    "ClientConnection": "client.connection",
    "FileSliceLike": "server.responses",
    "Handler": "server.connection",
    "Payload": "server.responses",
    "SaslCredentials": "sasl.mechanisms",
    "Server": "server.server",
    "ServerConnection": "server.connection",
    "ServerLimits": "server.limits",
    "Stream": "client.broker_connection",
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
