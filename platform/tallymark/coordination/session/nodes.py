"""A node as it is read from ZooKeeper, and the steps of a transaction."""

from __future__ import annotations

from dataclasses import dataclass

ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class Node:
    """One node as read. ``version`` counts its changes; ``session`` is the id of the session that
    an ephemeral node lives with, 0 for a persistent one; times are ms of the server's clock.
    ``children_version`` counts children that came and went: the number of the next numbered one."""

    data: bytes
    version: int
    session: int = 0
    created_ms: int = 0
    modified_ms: int = 0
    children_version: int = 0


@dataclass(frozen=True, slots=True)
class Create:
    """Transaction step: create a node; its parent must be there. ``numbered``: ZooKeeper appends
    ten digits to the path, which grow with every such node."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Transaction step: replace the content of a node of that version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Transaction step: delete a node of that version that has no children."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Transaction step: fail unless the node exists in that version (a fence)."""

    path: str
    version: int


Step = Create | SetData | Delete | Check
