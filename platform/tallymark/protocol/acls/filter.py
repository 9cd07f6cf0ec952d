"""Matches the filters of DescribeAcls and DeleteAcls, and checks entries. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.words import (
    ALL_OPERATIONS,
    ALLOW,
    ANY,
    CLUSTER_NAME,
    DENY,
    MATCH,
    Operation,
    Pattern,
    ResourceType,
)

_LONGEST: Final = 1024


@dataclass(frozen=True, slots=True)
class AclFilter:
    """The numbers are those on the wire; None and :data:`ANY` match everything."""

    kind: int = ANY
    name: str | None = None
    pattern: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def check(self) -> None:
        """KafkaError INVALID_REQUEST for numbers that are not known."""
        known = (
            self.kind == ANY or self.kind in _KINDS,
            self.pattern in (ANY, MATCH, *_PATTERNS),
            self.operation in (ANY, ALL_OPERATIONS) or self.operation in _OPERATIONS,
            self.permission in (ANY, DENY, ALLOW),
        )
        if not all(known):
            raise KafkaError(CODES["INVALID_REQUEST"], "the filter has an unknown element")

    def matches(self, acl: Acl) -> bool:
        """Whether the filter matches this entry."""
        return (
            self.kind in (ANY, acl.kind)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, ALLOW if acl.allow else DENY)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (ANY, MATCH, acl.pattern):
            return False
        if self.name is None:
            return True
        return acl.covers(self.name) if self.pattern == MATCH else acl.name == self.name


def checked_acl(
    kind: int,
    name: str,
    pattern: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> Acl:
    """An entry with numbers from the wire. KafkaError INVALID_REQUEST: it is invalid; the text says
    why."""
    if kind not in _KINDS or pattern not in _PATTERNS or permission not in (DENY, ALLOW):
        raise _invalid("its type of resource, pattern or permission is not known")
    if operation != ALL_OPERATIONS and operation not in _OPERATIONS:
        raise _invalid("its operation is not known")
    if not name or not host or max(map(len, (name, host, principal))) > _LONGEST:
        raise _invalid("its name or host is empty, or something is too long")
    if any(not text.isprintable() for text in (name, principal, host)):
        raise _invalid("it has characters that cannot be printed")
    if not principal.startswith("User:") or principal == "User:":
        raise _invalid(f"{principal!r} is not User:name")
    if kind == ResourceType.CLUSTER and (name != CLUSTER_NAME or pattern != Pattern.LITERAL):
        raise _invalid(f"the one cluster is called {CLUSTER_NAME}")
    return Acl(
        ResourceType(kind), name, Pattern(pattern), principal, host, operation, permission == ALLOW
    )


def _invalid(why: str) -> KafkaError:
    return KafkaError(CODES["INVALID_REQUEST"], f"the entry is refused: {why}")


_KINDS: Final = frozenset(int(kind) for kind in ResourceType)
_PATTERNS: Final = frozenset(int(pattern) for pattern in Pattern)
_OPERATIONS: Final = frozenset(int(operation) for operation in Operation)
