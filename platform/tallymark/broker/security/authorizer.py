"""The interface for authorization that handlers use: by access-control lists, or, without them,
everything is allowed (:class:`AllowAll`).
"""

from __future__ import annotations

from typing import Final, Protocol

from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import Operation, ResourceType

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection that is not authenticated."""

DENIED: Final = {
    ResourceType.TOPIC: CODES["TOPIC_AUTHORIZATION_FAILED"],
    ResourceType.GROUP: CODES["GROUP_AUTHORIZATION_FAILED"],
    ResourceType.CLUSTER: CODES["CLUSTER_AUTHORIZATION_FAILED"],
    ResourceType.TRANSACTIONAL_ID: CODES["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"],
}
"""The error code of a denial, for each type of resource."""

OPERATIONS_OF: Final = {
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
"""The operations on each type of resource."""


class Who(Protocol):
    """The client at the other end of a connection."""

    @property
    def principal(self) -> str:
        """``User:name``."""
        ...

    @property
    def host(self) -> str:
        """The address of the client."""
        ...


class Authorizer(Protocol):
    """Decides what clients may do, and logs each denial of an attempt."""

    def may(
        self, who: Who, operation: Operation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        """Whether ``who`` may do ``operation`` on the resource ``name``. ``quiet``: the client does
        not attempt it; a denial is neither logged nor counted."""
        ...

    def may_somewhere(self, who: Who, operation: Operation, kind: ResourceType) -> bool:
        """Whether there is any resource of that type on which ``who`` may do ``operation``
        (KIP-679)."""
        ...


class AllowAll:
    """All clients may do everything: there are no access-control lists."""

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
        for operation in OPERATIONS_OF[kind]
        if authorizer.may(who, operation, kind, name, quiet=True)
    )
