"""Listeners of a broker: their addresses, their security, and the addresses for clients. Pure.

``listeners`` is Kafka's list: ``PLAINTEXT://127.0.0.1:9092,SASL_SSL://broker.example:9094``. The
part before ``://`` is the listener's name; its security protocol is the one of that name, or that
in ``listener.security.protocol.map`` (``INSIDE:SASL_SSL,...``). A wrong text is a ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tallymark.net.addresses import is_loopback

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WILDCARDS: Final = ("0.0.0.0", "::", "")
"""Hosts that mean every address of the machine: no client can connect to them."""

_LISTENER: Final = re.compile(r"([A-Za-z0-9_.-]+)://(?:\[([^\]]*)\]|([^:\[\]/]*)):([0-9]{1,5})/?")


class Endpoint(NamedTuple):
    """The address of one listener for clients. ``protocol`` is Kafka's name of its security
    protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""

    host: str
    port: int
    protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener; port 0 is any free one. An IPv6 host is without its brackets."""

    name: str
    protocol: str
    host: str
    port: int

    @property
    def tls(self) -> bool:
        """Whether bytes are encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        """Whether clients log in with SASL."""
        return self.protocol.startswith("SASL_")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listeners(text: str, protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """The listeners in ``NAME://host:port,...``; ``protocols`` maps names to security protocols.
    ValueError names the mistake: the form, an unknown name, a repeated name or port."""
    found: list[Listener] = []
    for part in text.split(","):
        match = _LISTENER.fullmatch(part.strip())
        if match is None or int(match[4]) > 65535:
            raise ValueError(f"{part.strip()!r} is not NAME://host:port")
        name = match[1].upper()
        if name not in protocols:
            raise ValueError(
                f"listener {name} is none of {', '.join(PROTOCOLS)}; say in "
                "listener.security.protocol.map how it is secured"
            )
        found.append(Listener(name, protocols[name], match[2] or match[3] or "", int(match[4])))
    _check_unique(found)
    return tuple(found)


def parse_protocol_map(text: str) -> dict[str, str]:
    """The map in ``NAME:PROTOCOL,...``, in addition to the four protocols, which are also names of
    listeners; ValueError."""
    found = {protocol: protocol for protocol in PROTOCOLS}
    for part in filter(None, map(str.strip, text.split(","))):
        name, colon, protocol = part.upper().partition(":")
        if not name or not colon or protocol not in PROTOCOLS:
            raise ValueError(f"{part!r} is not NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}")
        found[name] = protocol
    return found


def off_loopback(listener: Listener) -> bool:
    """Whether other machines can reach the listener, judged by its text."""
    return not is_loopback(listener.host)


def endpoints(listening: Sequence[Listener], advertised: Sequence[Listener]) -> dict[str, Endpoint]:
    """The addresses for clients, by the listener's name: the advertised one, else the listener's
    own with its real port. ValueError where no client could connect to it."""
    told = {listener.name: listener for listener in listening}
    for listener in advertised:
        if listener.name not in told:
            raise ValueError(f"advertised.listeners names {listener.name}, listeners does not")
        port = listener.port or told[listener.name].port
        told[listener.name] = replace(listener, port=port)
    for listener in told.values():
        if listener.host in WILDCARDS:
            raise ValueError(f"{listener} needs a host in advertised.listeners to connect to")
    return {name: Endpoint(one.host, one.port, one.protocol) for name, one in told.items()}


def _check_unique(listeners: Sequence[Listener]) -> None:
    names = [listener.name for listener in listeners]
    places = [(one.host, one.port) for one in listeners if one.port]
    if len(set(names)) < len(names):
        raise ValueError("two listeners have the same name")
    if len(set(places)) < len(places):
        raise ValueError("two listeners have the same address")
