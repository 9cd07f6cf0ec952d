"""Access-control lists, in Apache Kafka's layout.

::

    /kafka-acl/[Type]/[name]                      entries of one resource, or of "*", all of a type
    /kafka-acl-extended/prefixed/[Type]/[prefix]  entries of all whose names begin so
        {"version":1, "acls":[{"principal":"User:alice", "permissionType":"Allow",
                               "operation":"Read", "host":"*"}]}
    /kafka-acl                                    written again with every change, so that one
                                                  watch fires for all

Types are Topic, Group, Cluster, TransactionalId. Names are percent-encoded in paths where they hold
more than letters, digits and ``._-*``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tallymark.coordination import paths
from tallymark.coordination.session import documents
from tallymark.coordination.session.errors import (
    BadVersionError,
    MalformedNodeError,
    NodeExistsError,
    NoNodeError,
)
from tallymark.coordination.session.nodes import Create, Delete, SetData, Step
from tallymark.coordination.session.watches import Watch, watch_node
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.protocol.acls.words import Pattern

Entry = Mapping[str, str]
"""``principal``, ``permissionType``, ``operation``, ``host``."""

_FOLDERS: Final[dict[Pattern, str]] = {
    Pattern.LITERAL: paths.ACLS,
    Pattern.PREFIXED: paths.PREFIXED_ACLS,
}


@dataclass(frozen=True, slots=True)
class AclResource:
    """The resource of a list. ``kind`` is ``Topic``, ``Group`` ..."""

    kind: str
    pattern: Pattern
    name: str

    @property
    def path(self) -> str:
        return f"{_FOLDERS[self.pattern]}/{self.kind}/{paths.encoded(self.name)}"


class AclRegistry:
    """The access-control lists of one cluster."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper

    def read(self) -> dict[AclResource, list[dict[str, Any]]]:
        """All lists."""
        found = [
            AclResource(kind, pattern, paths.decoded(name))
            for pattern, folder in _FOLDERS.items()
            for kind in self._zookeeper.children(folder)
            for name in self._zookeeper.children(f"{folder}/{kind}")
        ]
        nodes = self._zookeeper.read_many([resource.path for resource in found])
        return {
            resource: _decode(resource.path, node.data)
            for resource, node in zip(found, nodes, strict=True)
            if node is not None and node.data
        }

    def change(
        self, resource: AclResource, add: Iterable[Entry] = (), remove: Iterable[Entry] = ()
    ) -> None:
        """Add and remove entries of one resource; a list without entries is deleted."""
        add, remove = list(add), list(remove)
        self._zookeeper.ensure(paths.ACLS)
        while True:
            node = self._zookeeper.find(resource.path)
            held = _decode(resource.path, node.data) if node and node.data else []
            wanted = [entry for entry in held if entry not in remove]
            wanted += [dict(entry) for entry in add if entry not in wanted]
            if wanted == held:
                return
            step: Step
            content = documents.dump({"version": 1, "acls": wanted})
            if node is None:
                self._zookeeper.ensure(resource.path.rpartition("/")[0])
                step = Create(resource.path, content)
            elif wanted:
                step = SetData(resource.path, content, node.version)
            else:
                step = Delete(resource.path, node.version)
            try:
                self._zookeeper.commit([step, SetData(paths.ACLS, b"")])
                return
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue  # it was changed meanwhile: read again

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Call back at every change until the watch is cancelled."""
        self._zookeeper.ensure(paths.ACLS)
        return watch_node(self._zookeeper, paths.ACLS, callback)


def _decode(path: str, data: bytes) -> list[dict[str, Any]]:
    entries = documents.field(path, documents.load(path, data), "acls", list)
    if not all(isinstance(entry, dict) for entry in entries):
        raise MalformedNodeError(path, "an entry is not an object")
    return entries
