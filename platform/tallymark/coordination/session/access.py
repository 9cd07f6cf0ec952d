"""Who may touch the nodes of a cluster, where it has credentials (``zookeeper.user``). Pure.

As Apache Kafka has it: whoever holds the credentials of the brokers may do everything, all others
may read (old consumers and tools look up brokers and topics), but not the credentials of users and
brokers. What consumers of the ZooKeeper kind write is theirs: open to all.

ZooKeeper's scheme is ``digest``: user and password travel in the clear, so use it on networks that
you trust, or through TLS.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

_SECRET: Final = re.compile(r"/config/(users|brokers)(/|$)")
_OPEN: Final = re.compile(r"/consumers(/|$)")
USER_VARIABLE: Final = "TALLYMARK_ZOOKEEPER_USER"
PASSWORD_VARIABLE: Final = "TALLYMARK_ZOOKEEPER_PASSWORD"


@dataclass(frozen=True, slots=True)
class Access:
    """How a session is known to ZooKeeper, and whether the nodes it makes are closed to others."""

    user: str = ""
    password: str = field(default="", repr=False)
    closed: bool = False

    @classmethod
    def from_environment(cls) -> Access:
        """Of a part that was given no credentials: ``TALLYMARK_ZOOKEEPER_USER`` and
        ``TALLYMARK_ZOOKEEPER_PASSWORD``, where they are set. What it makes is closed, too."""
        user = os.environ.get(USER_VARIABLE, "")
        return cls(user, os.environ.get(PASSWORD_VARIABLE, ""), closed=bool(user))

    @property
    def auth_data(self) -> list[tuple[str, str]]:
        """What kazoo says at the beginning of every session."""
        return [("digest", f"{self.user}:{self.password}")] if self.user else []

    def acl_of(self, path: str) -> list[Any]:
        """The access-control list of a new node; ``path`` may begin with a chroot."""
        if not self.closed or _OPEN.search(path):
            return list(OPEN_ACL_UNSAFE)
        return list(CREATOR_ALL_ACL) + ([] if _SECRET.search(path) else list(READ_ACL_UNSAFE))

    def stands_open(self, path: str, acl: Iterable[Any]) -> bool:
        """Whether a node of this list lets everybody do more than :meth:`acl_of` would."""
        allowed = sum(each.perms for each in self.acl_of(path) if each.id.scheme == "world")
        return any(each.id.scheme == "world" and each.perms & ~allowed for each in acl)
