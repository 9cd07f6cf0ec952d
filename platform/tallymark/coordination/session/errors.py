"""The errors of registries: about single nodes and about the session."""

from __future__ import annotations

from tallymark.errors import TallymarkError


class CoordinationError(TallymarkError):
    """ZooKeeper refused a command: ``path`` is the node."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.path = path


class NoNodeError(CoordinationError):
    """The node, or the parent of a node to be created, is not there."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "there is no such node")


class NodeExistsError(CoordinationError):
    """A node to be created is there already."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "the node exists already")


class BadVersionError(CoordinationError):
    """The node was changed since it was read."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "another process has changed the node meanwhile")


class NotEmptyError(CoordinationError):
    """A node to be deleted still has children."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "the node still has children")


class NotAuthorizedError(CoordinationError):
    """We may not read or change the node."""

    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            "ZooKeeper does not let us; set zookeeper.user and zookeeper.password to those by "
            "which it was closed (where 'tallymark up' starts it: <data_dir>/zookeeper/password)",
        )


class MalformedNodeError(CoordinationError):
    """The node's content is not what its registry writes there."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(path, f"malformed content: {text}")


class NodeInUseError(CoordinationError):
    """Another live session holds the ephemeral node; ``content`` is what it wrote."""

    def __init__(self, path: str, content: bytes) -> None:
        shown = content[:200].decode("utf-8", "replace")
        super().__init__(path, f"in use by another live session: {shown}")
        self.content = content


class SessionLostError(TallymarkError):
    """The session ended before the command was done: everything ephemeral of it is gone."""
