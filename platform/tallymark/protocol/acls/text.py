"""Entries of access-control lists as text: in stores, and on the command line. Pure.

A stored entry is what Apache Kafka keeps in ZooKeeper::

    {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallymark.errors import UserError
from tallymark.protocol.acls.entry import Acl
from tallymark.protocol.acls.filter import checked_acl
from tallymark.protocol.acls.words import (
    ALL_OPERATIONS,
    ALLOW,
    DENY,
    Operation,
    Pattern,
    ResourceType,
    stored_word,
)

STORED_KINDS: Final = {stored_word(kind.name): kind for kind in ResourceType}
STORED_OPERATIONS: Final = {
    "All": ALL_OPERATIONS,
    **{stored_word(operation.name): int(operation) for operation in Operation},
}
STORED_NAMES: Final = {number: name for name, number in STORED_OPERATIONS.items()}
_PERMISSIONS: Final = {"Allow": ALLOW, "Deny": DENY}


def kind_name(kind: ResourceType) -> str:
    """``Topic``, ``TransactionalId`` ..."""
    return stored_word(kind.name)


def stored(acl: Acl) -> dict[str, str]:
    """The stored form of an entry, without its resource."""
    return {
        "principal": acl.principal,
        "permissionType": "Allow" if acl.allow else "Deny",
        "operation": STORED_NAMES[acl.operation],
        "host": acl.host,
    }


def restored(kind: str, pattern: Pattern, name: str, values: Mapping[str, Any]) -> Acl:
    """The entry of a stored form; KeyError, ValueError or KafkaError where it is not understood."""
    return checked_acl(
        STORED_KINDS[kind],
        name,
        pattern,
        str(values["principal"]),
        str(values["host"]),
        STORED_OPERATIONS[str(values["operation"])],
        _PERMISSIONS[str(values["permissionType"])],
    )


def operation_number(text: str) -> int:
    """The number of an operation as people write it: ``read``, ``describe-configs``, ``All``.
    UserError."""
    wanted = text.replace("-", "").replace("_", "").lower()
    for name, number in STORED_OPERATIONS.items():
        if name.lower() == wanted:
            return number
    raise UserError(f"there is no operation {text!r}", f"there are: {', '.join(STORED_OPERATIONS)}")


def sentence(acl: Acl) -> str:
    """An entry as one line of text."""
    name = f"{acl.name}*" if acl.pattern is Pattern.PREFIXED else acl.name
    return "\t".join(
        (
            "Allow" if acl.allow else "Deny",
            acl.principal,
            f"from {acl.host}",
            STORED_NAMES[acl.operation],
            f"{kind_name(acl.kind)}:{name}",
            acl.pattern.name.capitalize(),
        )
    )
