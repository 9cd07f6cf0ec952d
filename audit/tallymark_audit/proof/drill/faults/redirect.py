"""Answers that name brokers, with the proxy in the broker's place. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tallymark.protocol.api import ApiKey
from tallymark.protocol.messages import (
    DescribeClusterResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)
from tallymark.protocol.schema import Message

REDIRECTED: Final = (ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER)


def redirected(answer: Message, port: int) -> Message:
    """The answer with every broker at this port: of a cluster of one broker."""
    if isinstance(answer, MetadataResponse):
        return replace(answer, brokers=_moved(answer.brokers, port))
    if isinstance(answer, DescribeClusterResponse):
        return replace(answer, brokers=_moved(answer.brokers, port))
    if isinstance(answer, FindCoordinatorResponse):
        coordinators = _moved(answer.coordinators, port)
        return replace(
            answer, port=port if answer.port > 0 else answer.port, coordinators=coordinators
        )
    return answer


def _moved(brokers: Sequence[Any], port: int) -> list[Any]:
    return [replace(one, port=port) if one.port > 0 else one for one in brokers]
