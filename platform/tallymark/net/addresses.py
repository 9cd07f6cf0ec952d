"""``host:port`` lists, as in the arguments of every client and in every settings file."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import NamedTuple

from tallymark.errors import UserError


class Address(NamedTuple):
    """The address on which a broker listens. An IPv6 host is kept without its brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str | Iterable[str]) -> tuple[Address, ...]:
    """The addresses in ``"a:9092, b:9092"`` or in a sequence of such texts; order kept, repeats
    dropped.

    Raises UserError naming the part that is not ``host:port``, or when nothing is given.
    """
    parts = text.split(",") if isinstance(text, str) else [p for t in text for p in t.split(",")]
    found = dict.fromkeys(parse_address(part) for part in parts if part.strip())
    if not found:
        raise UserError("no broker address is given", "give bootstrap_servers as host:port,...")
    return tuple(found)


def parse_address(text: str) -> Address:
    """One ``host:port`` or ``[v6]:port``; UserError names the wrong text and the reason."""
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UserError(f"{text.strip()!r} is not host:port", "write an IPv6 host as [host]:port")
    if not colon or not host:
        raise UserError(f"{text.strip()!r} is not host:port", "for example 127.0.0.1:9092")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"{text.strip()!r} has no valid port", "a port is a number from 1 to 65535")
    return Address(host, int(port))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on ``host``, judged by its text."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def sender(host: str) -> str:
    """The key by which limits count a peer: an IPv4 address, or the /64 of an IPv6 address, since
    one machine has all addresses of a /64. Other text is returned as it is."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
