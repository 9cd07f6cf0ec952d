"""Entries of access-control lists in words: as they are stored, and as people write them. Pure.

A stored entry is what Apache Kafka keeps in ZooKeeper::

    {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tallymark.broker.security.acl_filter import ALLOW, DENY, entry
from tallymark.broker.security.acl_rules import ALL_OPERATIONS, Acl, Pattern
from tallymark.broker.security.authorizer import Operation, ResourceType
from tallymark.errors import UserError


def words(name: str) -> str:
    """``DESCRIBE_CONFIGS`` -> ``DescribeConfigs``."""
    return "".join(part.capitalize() for part in name.split("_"))


KINDS: Final = {words(kind.name): kind for kind in ResourceType}
OPERATIONS: Final = {
    "All": ALL_OPERATIONS,
    **{words(operation.name): int(operation) for operation in Operation},
}
OPERATION_NAMES: Final = {number: name for name, number in OPERATIONS.items()}
_PERMISSIONS: Final = {"Allow": ALLOW, "Deny": DENY}


def kind_name(kind: ResourceType) -> str:
    """``Topic``, ``TransactionalId`` ..."""
    return words(kind.name)


def stored(acl: Acl) -> dict[str, str]:
    """What is kept of an entry, beside its resource."""
    return {
        "principal": acl.principal,
        "permissionType": "Allow" if acl.allow else "Deny",
        "operation": OPERATION_NAMES[acl.operation],
        "host": acl.host,
    }


def restored(kind: str, pattern: str, name: str, values: Mapping[str, Any]) -> Acl:
    """The entry again; KeyError, ValueError or KafkaError when it is none of ours."""
    return entry(
        KINDS[kind],
        name,
        Pattern[pattern.upper()],
        str(values["principal"]),
        str(values["host"]),
        OPERATIONS[str(values["operation"])],
        _PERMISSIONS[str(values["permissionType"])],
    )


def operation_number(text: str) -> int:
    """The operation a person means: ``read``, ``describe-configs``, ``All``; UserError."""
    wanted = text.replace("-", "").replace("_", "").lower()
    for name, number in OPERATIONS.items():
        if name.lower() == wanted:
            return number
    raise UserError(f"there is no operation {text!r}", f"there are: {', '.join(OPERATIONS)}")


def sentence(acl: Acl) -> str:
    """An entry as one line for people."""
    name = f"{acl.name}*" if acl.pattern is Pattern.PREFIXED else acl.name
    return "\t".join(
        (
            "Allow" if acl.allow else "Deny",
            acl.principal,
            f"from {acl.host}",
            OPERATION_NAMES[acl.operation],
            f"{kind_name(acl.kind)}:{name}",
            acl.pattern.name.capitalize(),
        )
    )
