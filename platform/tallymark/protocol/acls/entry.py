"""One entry of an access-control list."""

from __future__ import annotations

from dataclasses import dataclass

from tallymark.protocol.acls.words import EVERYBODY, WILDCARD, Pattern, ResourceType


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """``principal`` ("User:alice") may (``allow``) or may not do an operation from ``host`` to a
    resource. ``operation`` is an :class:`~tallymark.protocol.acls.words.Operation` or
    :data:`~tallymark.protocol.acls.words.ALL_OPERATIONS`."""

    kind: ResourceType
    name: str
    pattern: Pattern
    principal: str
    host: str
    operation: int
    allow: bool

    def concerns(self, principal: str, host: str) -> bool:
        """Whether the entry is about this principal on this host."""
        return self.principal in (principal, EVERYBODY) and self.host in (host, WILDCARD)

    def covers(self, name: str) -> bool:
        """Whether its resource is, or includes, the one of that name."""
        if self.pattern is Pattern.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)
