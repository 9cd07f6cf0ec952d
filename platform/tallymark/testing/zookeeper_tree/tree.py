"""The nodes of ZooKeeper: versions, ephemeral and numbered nodes, access-control lists, and
transactions that are done as a whole or not at all. Pure: no clock, no thread.

A command returns the changes that watches are notified of: a list of :class:`Change`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, NamedTuple

from tallymark.coordination import (
    BadVersionError,
    Check,
    CoordinationError,
    Create,
    Delete,
    Node,
    NodeExistsError,
    NoNodeError,
    NotAuthorizedError,
    NotEmptyError,
    SetData,
)
from tallymark.coordination.session.nodes import ANY_VERSION, Step

READ: Final = 1
WRITE: Final = 2
CREATE: Final = 4
DELETE: Final = 8
ADMIN: Final = 16

Right = tuple[int, str, str]
"""(permissions, scheme, id) of one entry of an access-control list."""


class Kind(Enum):
    """What has happened to a node."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


class Change(NamedTuple):
    """``path``: the node, of CHILDREN the parent."""

    kind: Kind
    path: str


@dataclass(frozen=True, slots=True)
class Actor:
    """The session that gives a command. ``user``: ``name:password`` of its credentials, or empty.
    ``now_ms``: the server's clock."""

    session: int
    user: str
    now_ms: int


@dataclass(slots=True)
class _Znode:
    data: bytes
    created_ms: int
    modified_ms: int
    rights: tuple[Right, ...]
    session: int = 0
    version: int = 0
    children_version: int = 0
    rights_version: int = 0
    children: dict[str, None] = field(default_factory=dict[str, None])


class Tree:
    """Commands raise the errors of :mod:`tallymark.coordination.session.errors`, and have then
    changed nothing."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Znode] = {"/": _Znode(b"", 0, 0, ((31, "world", "anyone"),))}

    def read(self, path: str, actor: Actor) -> Node:
        """A node's content."""
        node = self._node(path)
        _allow(node, READ, actor, path)
        return Node(
            node.data,
            node.version,
            node.session,
            node.created_ms,
            node.modified_ms,
            node.children_version,
        )

    def exists(self, path: str) -> bool:
        """Whether the node is there; that needs no permission."""
        return path in self._nodes

    def children(self, path: str, actor: Actor) -> list[str]:
        """Names, sorted."""
        node = self._node(path)
        _allow(node, READ, actor, path)
        return sorted(node.children)

    def rights(self, path: str, actor: Actor) -> tuple[Right, ...]:
        """The access-control list."""
        node = self._node(path)
        _allow(node, READ | ADMIN, actor, path)
        return node.rights

    def set_rights(self, path: str, rights: Iterable[Right], actor: Actor) -> None:
        """Replace the access-control list."""
        node = self._node(path)
        _allow(node, ADMIN, actor, path)
        node.rights = _own(rights, actor)
        node.rights_version += 1

    def commit(
        self, steps: Sequence[tuple[Step, Sequence[Right]]], actor: Actor
    ) -> tuple[list[Change], list[str]]:
        """All steps or none. ``steps``: with each the access-control list of a new node. Returns
        also the paths of the created nodes."""
        before: dict[str, _Znode | None] = {}
        changes: list[Change] = []
        created: list[str] = []
        try:
            for step, rights in steps:
                self._step(step, rights, actor, before, changes, created)
        except CoordinationError:
            for path, node in before.items():
                if node is None:
                    self._nodes.pop(path, None)
                else:
                    self._nodes[path] = node
            raise
        return changes, created

    def end_session(self, session: int) -> list[Change]:
        """Delete the ephemeral nodes of a session."""
        gone = [path for path, node in self._nodes.items() if node.session == session]
        changes: list[Change] = []
        for path in gone:
            self._delete(path, {}, changes)
        return changes

    def _step(
        self,
        step: Step,
        rights: Sequence[Right],
        actor: Actor,
        before: dict[str, _Znode | None],
        changes: list[Change],
        created: list[str],
    ) -> None:
        match step:
            case Create():
                created.append(self._create(step, rights, actor, before, changes))
            case SetData():
                node = self._of_version(step.path, step.version)
                _allow(node, WRITE, actor, step.path)
                self._save(step.path, before)
                node.data, node.version = step.data, node.version + 1
                node.modified_ms = actor.now_ms
                changes.append(Change(Kind.CHANGED, step.path))
            case Delete():
                node = self._node(step.path)
                _allow(self._nodes[parent_of(step.path)], DELETE, actor, step.path)
                self._of_version(step.path, step.version)
                if node.children:
                    raise NotEmptyError(step.path)
                self._delete(step.path, before, changes)
            case Check():
                _allow(self._of_version(step.path, step.version), READ, actor, step.path)

    def _create(
        self,
        step: Create,
        rights: Sequence[Right],
        actor: Actor,
        before: dict[str, _Znode | None],
        changes: list[Change],
    ) -> str:
        above = parent_of(step.path)
        parent = self._nodes.get(above)
        if parent is None:
            raise NoNodeError(step.path)
        _allow(parent, CREATE, actor, step.path)
        if parent.session:
            raise CoordinationError(step.path, "an ephemeral node has no children")
        path = f"{step.path}{parent.children_version:010d}" if step.numbered else step.path
        if path in self._nodes:
            raise NodeExistsError(step.path)
        self._save(above, before)
        before.setdefault(path, None)
        now, owner = actor.now_ms, actor.session if step.ephemeral else 0
        self._nodes[path] = _Znode(step.data, now, now, _own(rights, actor), owner)
        parent.children[path.rpartition("/")[2]] = None
        parent.children_version += 1
        changes += [Change(Kind.CREATED, path), Change(Kind.CHILDREN, above)]
        return path

    def _delete(self, path: str, before: dict[str, _Znode | None], changes: list[Change]) -> None:
        above = parent_of(path)
        self._save(path, before)
        self._save(above, before)
        del self._nodes[path]
        parent = self._nodes[above]
        del parent.children[path.rpartition("/")[2]]
        parent.children_version += 1
        changes += [Change(Kind.DELETED, path), Change(Kind.CHILDREN, above)]

    def _save(self, path: str, before: dict[str, _Znode | None]) -> None:
        if path not in before:
            node = self._nodes[path]
            before[path] = replace(node, children=dict(node.children))

    def _of_version(self, path: str, version: int) -> _Znode:
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersionError(path)
        return node

    def _node(self, path: str) -> _Znode:
        try:
            return self._nodes[path]
        except KeyError:
            raise NoNodeError(path) from None


def parent_of(path: str) -> str:
    """The path above; of ``/a`` it is ``/``."""
    return path.rpartition("/")[0] or "/"


def rights_of(acl: Iterable[Any]) -> tuple[Right, ...]:
    """kazoo's form of an access-control list in ours."""
    return tuple((each.perms, each.id.scheme, each.id.id) for each in acl)


def _own(rights: Iterable[Right], actor: Actor) -> tuple[Right, ...]:
    """The scheme ``auth`` stands for the credentials of the session that creates the node."""
    return tuple(
        (permissions, "digest", actor.user) if scheme == "auth" else (permissions, scheme, who)
        for permissions, scheme, who in rights
    )


def _allow(node: _Znode, wanted: int, actor: Actor, path: str) -> None:
    for permissions, scheme, who in node.rights:
        ours = scheme == "world" or (scheme == "digest" and actor.user and who == actor.user)
        if ours and permissions & wanted:
            return
    raise NotAuthorizedError(path)
