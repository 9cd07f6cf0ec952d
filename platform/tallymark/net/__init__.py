"""Bytes over TCP: a sans-io client connection, an asyncio stream around it, and a server shell.

Reading order: :mod:`.connection` (pure: requests in, bytes out, responses back in order),
:mod:`.versions` (pure: which version of a request both sides speak), :mod:`.stream` (one asyncio
connection to a broker), :mod:`.responses` (what a server may answer with, and the one writer that
puts it on the wire in order), :mod:`.inbox` and :mod:`.request_memory` (what is received, and the
memory it may take), :mod:`.server_connection` and :mod:`.server` (the shell that the
broker stands on).
Security: :mod:`.tls` and :mod:`.tls_accept`; :mod:`.sasl` and what it names.
"""

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
