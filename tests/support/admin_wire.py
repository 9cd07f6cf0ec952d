"""Short words for tests of the admin APIs over one connection."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tallymark.broker.security.authorizer import Who
from tallymark.protocol.acls.words import Operation, ResourceType
from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponseTopic,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponseConfig,
    DescribeConfigsResponseResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponseResource,
)
from tallymark.testing.wire import WireClient

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def fresh() -> str:
    """A name that no other test uses."""
    return f"t{uuid.uuid4().hex[:8]}"


def create(
    wire: WireClient,
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    version: int = 7,
    configs: Mapping[str, str | None] | None = None,
    **rest: Any,
) -> CreateTopicsResponseTopic:
    """Create one topic; what became of it."""
    topic = CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreateTopicsRequestConfig(name=k, value=v) for k, v in (configs or {}).items()],
    )
    return wire.ask(CreateTopicsRequest(topics=[topic], **rest), version).topics[0]


def describe(
    wire: WireClient,
    kind: int,
    name: str,
    keys: Sequence[str] | None = None,
    version: int = 4,
    **rest: bool,
) -> DescribeConfigsResponseResult:
    """Describe the configs of one resource."""
    resource = DescribeConfigsRequestResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    return wire.ask(DescribeConfigsRequest(resources=[resource], **rest), version).results[0]


def config(wire: WireClient, topic: str, name: str) -> DescribeConfigsResponseConfig:
    """One config of a topic, with synonyms."""
    (found,) = describe(wire, TOPIC, topic, [name], include_synonyms=True).configs
    return found


def change(
    wire: WireClient,
    topic: str,
    *changes: tuple[str, int, str | None],
    kind: int = TOPIC,
    version: int = 1,
    validate_only: bool = False,
) -> IncrementalAlterConfigsResponseResource:
    """Change some configs of one resource."""
    resource = IncrementalAlterConfigsRequestResource(
        resource_type=kind,
        resource_name=topic,
        configs=[
            IncrementalAlterConfigsRequestConfig(name=name, config_operation=operation, value=value)
            for name, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return wire.ask(request, version).responses[0]


class AllBut:
    """An authorizer that denies what it is told to; ``None`` stands for any name."""

    def __init__(self, *denied: tuple[Operation, ResourceType, str | None]) -> None:
        self._denied = denied

    def may(
        self, who: Who, operation: Operation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        """See :class:`tallymark.broker.security.authorizer.Authorizer`."""
        return not any(
            (operation, kind) == (denied, of) and which in (None, name)
            for denied, of, which in self._denied
        )

    def may_somewhere(self, who: Who, operation: Operation, kind: ResourceType) -> bool:
        """See :class:`tallymark.broker.security.authorizer.Authorizer`."""
        return not any((operation, kind) == (denied, of) for denied, of, _ in self._denied)
