"""Answers that name brokers, with a proxy's gates in their place. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from tallymark.protocol.api import ApiKey
from tallymark.protocol.messages import (
    DescribeClusterResponse,
    FetchResponse,
    FindCoordinatorResponse,
    MetadataResponse,
    ProduceResponse,
)
from tallymark.protocol.schema import Message

M = TypeVar("M", bound=Message)

REDIRECTED: Final = (
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
)


def redirected(answer: M, ports: Mapping[int, int]) -> M:
    """The answer with each broker of ``ports`` (id -> port) at that port. Also of answers to
    Produce and Fetch, which name a new leader (KIP-951)."""
    found: Any = answer
    if isinstance(answer, MetadataResponse):
        found = replace(answer, brokers=_moved(answer.brokers, "node_id", ports))
    elif isinstance(answer, DescribeClusterResponse):
        found = replace(answer, brokers=_moved(answer.brokers, "broker_id", ports))
    elif isinstance(answer, FindCoordinatorResponse):
        coordinators = _moved(answer.coordinators, "node_id", ports)
        port = ports.get(answer.node_id, answer.port)
        found = replace(answer, port=port, coordinators=coordinators)
    elif isinstance(answer, ProduceResponse | FetchResponse) and answer.node_endpoints:
        found = replace(found, node_endpoints=_moved(answer.node_endpoints, "node_id", ports))
    return cast("M", found)


def _moved(brokers: Sequence[Any], name: str, ports: Mapping[int, int]) -> list[Any]:
    return [replace(one, port=ports.get(getattr(one, name), one.port)) for one in brokers]
