"""Which sessions may change the nodes of a cluster with credentials (``zookeeper.user``). Pure.

As in Apache Kafka: a session with the credentials of the brokers may do everything. All others may
read (old consumers and tools look up brokers and topics), but not the credentials of users and
brokers. The nodes that ZooKeeper consumers write are open to all.

ZooKeeper's scheme is ``digest``: user and password are sent unencrypted, so use it on networks that
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
    """The credentials of a session, and whether the nodes that it creates are restricted."""

    user: str = ""
    password: str = field(default="", repr=False)
    closed: bool = False

    @classmethod
    def from_environment(cls) -> Access:
        """For a part without credentials of its own: ``TALLYMARK_ZOOKEEPER_USER`` and
        ``TALLYMARK_ZOOKEEPER_PASSWORD``, where they are set. The nodes that it creates are
        restricted, too."""
        user = os.environ.get(USER_VARIABLE, "")
        return cls(user, os.environ.get(PASSWORD_VARIABLE, ""), closed=bool(user))

    @property
    def auth_data(self) -> list[tuple[str, str]]:
        """The credentials that kazoo sends at the beginning of every session."""
        return [("digest", f"{self.user}:{self.password}")] if self.user else []

    def acl_of(self, path: str) -> list[Any]:
        """The access-control list of a new node; ``path`` may begin with a chroot."""
        if not self.closed or _OPEN.search(path):
            return list(OPEN_ACL_UNSAFE)
        return list(CREATOR_ALL_ACL) + ([] if _SECRET.search(path) else list(READ_ACL_UNSAFE))

    def is_open(self, path: str, acl: Iterable[Any]) -> bool:
        """Whether a node with this list allows everyone more than :meth:`acl_of` would."""
        allowed = sum(each.perms for each in self.acl_of(path) if each.id.scheme == "world")
        return any(each.id.scheme == "world" and each.perms & ~allowed for each in acl)
