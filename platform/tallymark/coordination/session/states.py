"""The states of a ZooKeeper session, and the form of its address. Pure.

A session has three states. For the owner of an ephemeral node they mean:

* CONNECTED: the node exists, so the owner may act on it.
* SUSPENDED: there is no connection. The session may expire at any moment without our notice, so an
  owner that acts because of its node stops at once.
* LOST: the session is over and its ephemeral nodes are gone. The next CONNECTED is a new session;
  owners register again.

CONNECTED after SUSPENDED in the same session (compare :attr:`SessionEvent.session`) means that the
nodes still exist, but watches have fired and must be set again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tallymark.errors import UserError


class SessionState(Enum):
    """See the module's text."""

    CONNECTED = "CONNECTED"
    SUSPENDED = "SUSPENDED"
    LOST = "LOST"


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """A change of the session. ``session`` is its id, 0 unless CONNECTED."""

    state: SessionState
    session: int = 0


SessionListener = Callable[[SessionEvent], None]
"""Called on the connection's thread: must neither block nor send commands."""


def parse_connect(text: str) -> tuple[str, str]:
    """``host:port[,host:port...][/chroot]`` -> (hosts, chroot); the chroot is empty or begins
    with ``/``. Raises UserError on anything else."""
    hosts, slash, rest = text.strip().partition("/")
    for host in hosts.split(","):
        name, colon, port = host.strip().rpartition(":")
        if not (name if colon else port) or (colon and not port.isdigit()):
            raise UserError(f"{text!r} is no ZooKeeper address", "write host:port[,...][/chroot]")
    chroot = (slash + rest).rstrip("/")
    if "//" in chroot:
        raise UserError(f"{text!r} has an empty part in its chroot", "write host:port/chroot")
    return "".join(hosts.split()), chroot
