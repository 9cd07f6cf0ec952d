"""Kafka's names and numbers for access control: resource types, operations, patterns, permissions.

The numbers are on the wire (Kafka's ``ResourceType``, ``AclOperation``, ``PatternType`` and
``AclPermissionType``). The same name has three forms::

    DESCRIBE_CONFIGS    in code
    describe-configs    in the admin client and on the command line
    DescribeConfigs     in ZooKeeper, in files and in the audit trail
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from tallymark.errors import UserError

ANY: Final = 1
"""In a filter: every resource type, pattern, operation or permission."""
MATCH: Final = 2
"""The pattern of a filter that asks for every entry that applies to the name."""
ALL_OPERATIONS: Final = 2
"""The operation of an entry that stands for every operation (``AclOperation.ALL``)."""
DENY: Final = 2
ALLOW: Final = 3

WILDCARD: Final = "*"
"""As a resource name: every resource of the type; as a host: every host."""
EVERYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The one name of the one resource of type CLUSTER."""


class ResourceType(IntEnum):
    """The types of resources that our brokers protect."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    """What a principal may want to do."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Pattern(IntEnum):
    """Whether the name of an entry's resource is a whole name or a prefix."""

    LITERAL = 3
    PREFIXED = 4


def client_word(name: str) -> str:
    """``DESCRIBE_CONFIGS`` -> ``describe-configs``."""
    return name.lower().replace("_", "-")


def stored_word(name: str) -> str:
    """``DESCRIBE_CONFIGS`` -> ``DescribeConfigs``."""
    return "".join(part.capitalize() for part in name.split("_"))


RESOURCES: Final[Mapping[str, int]] = {
    "any": ANY,
    **{client_word(kind.name): int(kind) for kind in ResourceType},
    "delegation-token": 6,  # only brokers of Apache Kafka have these two
    "user": 7,
}
PATTERNS: Final[Mapping[str, int]] = {
    "any": ANY,
    "match": MATCH,
    **{client_word(pattern.name): int(pattern) for pattern in Pattern},
}
OPERATIONS: Final[Mapping[str, int]] = {
    "any": ANY,
    "all": ALL_OPERATIONS,
    **{client_word(operation.name): int(operation) for operation in Operation},
}
PERMISSIONS: Final[Mapping[str, int]] = {"any": ANY, "deny": DENY, "allow": ALLOW}


def number_of(table: Mapping[str, int], word: str, what: str) -> int:
    """The number of a word in one of these tables; UserError names the words there are."""
    if word not in table:
        raise UserError(f"there is no {what} {word!r}", f"give one of {', '.join(table)}")
    return table[word]


def word_of(table: Mapping[str, int], number: int) -> str:
    """The word of a number; of an unknown number its digits."""
    return next((word for word, each in table.items() if each == number), str(number))
