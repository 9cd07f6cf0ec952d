"""Who may do what: the question that handlers ask. Answered by access-control lists, or by
everybody-may where none are asked for (:class:`AllowAll`).

Names and numbers are Kafka's (``AclOperation``, ``ResourceType``), since they are on the wire.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Protocol

from tallymark.errors import CODES, KafkaError

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection that nobody authenticated."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The one name of the one resource of type CLUSTER."""


class Operation(IntEnum):
    """What somebody wants to do."""

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


class ResourceType(IntEnum):
    """What it is done to."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


DENIED: Final = {
    ResourceType.TOPIC: CODES["TOPIC_AUTHORIZATION_FAILED"],
    ResourceType.GROUP: CODES["GROUP_AUTHORIZATION_FAILED"],
    ResourceType.CLUSTER: CODES["CLUSTER_AUTHORIZATION_FAILED"],
    ResourceType.TRANSACTIONAL_ID: CODES["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"],
}
"""The error code that stands for "no" with each type of resource."""

OPERATIONS: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""What can be done to each type of resource."""


class Who(Protocol):
    """Somebody at the other end of a connection."""

    @property
    def principal(self) -> str:
        """``User:name``."""
        ...

    @property
    def host(self) -> str:
        """The address the connection comes from."""
        ...


class Authorizer(Protocol):
    """Answers; has logged every "no" to an attempt."""

    def may(
        self, who: Who, operation: Operation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        """Whether ``who`` may do it to the resource ``name``. ``quiet``: it is a question, not an
        attempt; a "no" is neither told nor counted."""
        ...

    def may_somewhere(self, who: Who, operation: Operation, kind: ResourceType) -> bool:
        """Whether there is any resource of that type to which ``who`` may do it (KIP-679)."""
        ...


class AllowAll:
    """Everybody may do everything: no lists are in force."""

    def may(
        self, who: Who, operation: Operation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        """True."""
        return True

    def may_somewhere(self, who: Who, operation: Operation, kind: ResourceType) -> bool:
        """True."""
        return True


def require(
    authorizer: Authorizer, who: Who, operation: Operation, kind: ResourceType, name: str
) -> None:
    """Raise the KafkaError of :data:`DENIED` unless ``who`` may."""
    if not authorizer.may(who, operation, kind, name):
        raise KafkaError(DENIED[kind], f"{who.principal} may not {operation.name} {name}")


def operations_bits(authorizer: Authorizer, who: Who, kind: ResourceType, name: str) -> int:
    """The operations that ``who`` may do, as the bit field of Metadata and Describe answers
    (KIP-430): bit n is operation n."""
    return sum(
        1 << operation
        for operation in OPERATIONS[kind]
        if authorizer.may(who, operation, kind, name, quiet=True)
    )
