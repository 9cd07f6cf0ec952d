"""What ``tallymark attach`` is asked for: clusters by name and address. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tallymark.deployment import ClusterSecurity
from tallymark.errors import UserError
from tallymark.net.addresses import Address, parse_addresses
from tallymark.patterns import pattern_given

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,48}")
_HOST_PART: Final = re.compile(r"[a-z][a-z0-9-]{0,40}")


class ClusterAddress(NamedTuple):
    """A cluster that is asked for: what it is called, and some of its brokers."""

    name: str
    addresses: tuple[Address, ...]

    @property
    def bootstrap_servers(self) -> str:
        """As clients take it."""
        return ",".join(map(str, self.addresses))


class ClusterRequest(NamedTuple):
    """A place, and how its clients get in (without passwords); None: not said."""

    address: ClusterAddress
    security: ClusterSecurity | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        return self.address.name


@dataclass(frozen=True, slots=True)
class AttachRequest:
    """``downstream`` are clusters into which ``upstream`` is copied. None and "": not given, so the
    default, or what the settings of an earlier start say. ``rename`` is what copies are
    called, with ``{topic}``; ``topics`` a regular expression; windows in ms."""

    upstream: ClusterRequest
    downstream: tuple[ClusterRequest, ...] = ()
    data_dir: Path | None = None
    window_ms: int | None = None
    topics: str = ""
    rename: str = ""

    @property
    def clusters(self) -> tuple[ClusterRequest, ...]:
        """All of them, the upstream one first."""
        return (self.upstream, *self.downstream)


def parse_clusters(upstream: str, downstream: Collection[str]) -> tuple[ClusterAddress, ...]:
    """``[NAME=]HOST:PORT,...`` of each, named after its host where no name is given.

    Raises UserError: an address or a name that cannot be, a name or an address twice.
    """
    found: list[ClusterAddress] = []
    for text, usual in ((upstream, "kafka"), *((one, "downstream") for one in downstream)):
        given, equals, addresses = text.rpartition("=")
        parsed = parse_addresses(addresses)
        taken = {one.name for one in found}
        name = given if equals else _free_name(_host_name(parsed[0].host) or usual, taken)
        _check_name(name, taken)
        for other in found:
            if same := set(other.addresses) & set(parsed):
                raise UserError(
                    f"{min(same)} is given for {other.name} and for {name}",
                    "a cluster is audited once; --downstream names another one",
                )
        found.append(ClusterAddress(name, parsed))
    return tuple(found)


def checked_topics(pattern: str) -> str:
    """What --topics is given. UserError: it is no regular expression."""
    pattern_given("--topics", pattern, "write for example 'clicks|orders' or 'shop[.].*'")
    return pattern


def _host_name(host: str) -> str:
    """The first part of a host's name, if a cluster can be called so; "" for an IP address."""
    part = host.partition(".")[0].lower()
    usable = _HOST_PART.fullmatch(part) and part not in ("localhost", "producer")
    return part if usable and "-to-" not in part else ""


def _free_name(name: str, taken: Collection[str]) -> str:
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return next(one for one in (name, *numbered) if one not in taken)


def _check_name(name: str, taken: Collection[str]) -> None:
    if not _NAME.fullmatch(name) or name == "producer" or "-to-" in name:
        raise UserError(
            f"a cluster cannot be called {name!r}",
            "give a name of a-z, 0-9 and -, as in west=kafka:9092",
        )
    if name in taken:
        raise UserError(f"two clusters are called {name}", "give each a name of its own")
