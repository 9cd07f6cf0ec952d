"""Access-control lists and the decisions they lead to. Pure: no I/O, no clock.

An entry allows or denies a principal an operation on a resource from a host. A resource is a name,
every name with a prefix, or ``*``: all of a type. The rules are Kafka's (KIP-290):

1. a super user may do everything
2. an operation that a matching entry denies is denied, whatever other entries allow
3. an operation that a matching entry allows is allowed; READ, WRITE, DELETE and ALTER imply
   DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS
4. a resource that no entry matches is open only with ``open_without_entries``
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.words import ALL_OPERATIONS, WILDCARD, Operation, Pattern, ResourceType

IMPLIED_BY: Final = {
    Operation.DESCRIBE: (
        Operation.DESCRIBE,
        Operation.READ,
        Operation.WRITE,
        Operation.DELETE,
        Operation.ALTER,
    ),
    Operation.DESCRIBE_CONFIGS: (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
}
"""Operation -> the operations whose permission includes it. This holds for permissions only, not
for denials."""


class AclRules:
    """All entries, indexed for decisions. ``super_users`` are principals."""

    def __init__(
        self,
        acls: Iterable[Acl] = (),
        super_users: Iterable[str] = (),
        open_without_entries: bool = False,
    ) -> None:
        self.acls = frozenset(acls)
        self.super_users = frozenset(super_users)
        self.open_without_entries = open_without_entries
        self._literal: dict[tuple[ResourceType, str], list[Acl]] = defaultdict(list)
        self._prefixed: dict[ResourceType, dict[str, list[Acl]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for acl in sorted(self.acls):
            if acl.pattern is Pattern.PREFIXED:
                self._prefixed[acl.kind][acl.name].append(acl)
            else:
                self._literal[acl.kind, acl.name].append(acl)
        self._lengths = {
            kind: sorted({len(prefix) for prefix in prefixes})
            for kind, prefixes in self._prefixed.items()
        }

    def may(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Whether ``principal`` may do ``operation`` from ``host`` on the resource ``name``."""
        if principal in self.super_users:
            return True
        applying = list(self._applying(kind, name))
        if not applying:
            return self.open_without_entries
        theirs = [acl for acl in applying if acl.concerns(principal, host)]
        if any(not acl.allow and _names(acl, (operation,)) for acl in theirs):
            return False
        wanted = IMPLIED_BY.get(operation, (operation,))
        return any(acl.allow and _names(acl, wanted) for acl in theirs)

    def may_somewhere(
        self, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Whether there is any name of that type, existing or not, on which ``principal`` may do
        ``operation`` (KIP-679): an allowed name or prefix that no denial covers."""
        if principal in self.super_users:
            return True
        theirs = [
            acl
            for acl in self.acls
            if acl.kind is kind and acl.concerns(principal, host) and _names(acl, (operation,))
        ]
        denied = [acl for acl in theirs if not acl.allow]
        if self.open_without_entries and not any(
            acl.pattern is Pattern.LITERAL and acl.name == WILDCARD for acl in denied
        ):
            return True
        return any(acl.allow and not any(_hides(no, acl) for no in denied) for acl in theirs)

    def _applying(self, kind: ResourceType, name: str) -> Iterator[Acl]:
        yield from self._literal.get((kind, name), ())
        if name != WILDCARD:
            yield from self._literal.get((kind, WILDCARD), ())
        prefixes = self._prefixed.get(kind)
        if prefixes:
            for length in self._lengths[kind]:
                if length > len(name):
                    break
                yield from prefixes.get(name[:length], ())


def _names(acl: Acl, operations: tuple[Operation, ...]) -> bool:
    return acl.operation == ALL_OPERATIONS or acl.operation in operations


def _hides(denied: Acl, allowed: Acl) -> bool:
    """Whether ``denied`` covers every name of ``allowed``."""
    if denied.pattern is Pattern.PREFIXED:
        return allowed.name.startswith(denied.name) and (
            allowed.pattern is Pattern.PREFIXED or allowed.name != WILDCARD
        )
    if denied.name == WILDCARD:
        return True
    return allowed.pattern is Pattern.LITERAL and allowed.name == denied.name
