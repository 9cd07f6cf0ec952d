"""The resources that have configs, as the three config APIs name them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from tallymark.broker.metadata.image import TopicImage
from tallymark.broker.requests.registry import Call
from tallymark.broker.security.authorizer import require
from tallymark.broker.settings.topic_configs import check_name
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType

_LONGEST_GROUP = 249


class ResourceKind(IntEnum):
    """Kafka's ``ConfigResource.Type``: not the numbers of
    :class:`~tallymark.protocol.acls.words.ResourceType`."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    GROUP = 32


@dataclass(frozen=True, slots=True)
class Resource:
    """A topic, a broker, its loggers, or a group. The broker with the empty name means all
    brokers."""

    kind: ResourceKind
    name: str

    @classmethod
    def of(cls, kind: int, name: str) -> Self:
        """From the wire. INVALID_REQUEST for kinds that have no configs here."""
        try:
            return cls(ResourceKind(kind), name)
        except ValueError:
            raise KafkaError(
                CODES["INVALID_REQUEST"], f"resource type {kind} has no configs here"
            ) from None

    def require(self, state: BrokerState, call: Call, operation: Operation) -> None:
        """Raise the authorizer's error: TOPIC_, GROUP_ or CLUSTER_AUTHORIZATION_FAILED."""
        kind, name = ResourceType.CLUSTER, CLUSTER_NAME
        if self.kind is ResourceKind.TOPIC:
            kind, name = ResourceType.TOPIC, self.name
        elif self.kind is ResourceKind.GROUP:
            kind, name = ResourceType.GROUP, self.name
        require(state.authorizer, call.connection, operation, kind, name)


def topic_of(state: BrokerState, name: str) -> TopicImage:
    """The topic. INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION."""
    check_name(name)
    topic = state.image.topics.get(name)
    if topic is None:
        raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], name)
    return topic


def check_own_broker(state: BrokerState, name: str) -> None:
    """Only a broker itself knows its settings: INVALID_REQUEST for another one's id."""
    if name != str(state.settings.node_id):
        raise KafkaError(
            CODES["INVALID_REQUEST"],
            f"this is broker {state.settings.node_id}, ask broker {name[:80]!r} itself",
        )


def check_group(name: str) -> None:
    """INVALID_REQUEST for a name that no group can have; there are no defaults for all groups."""
    if not name or len(name) > _LONGEST_GROUP or not name.isprintable():
        raise KafkaError(CODES["INVALID_REQUEST"], f"{name[:80]!r} cannot be the name of a group")


def named_twice(resources: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """Resources that one request names more than once: it is unclear which one is meant."""
    return {resource for resource, count in Counter(resources).items() if count > 1}
