"""Creating and deleting topics, for Admin and for clients that need a topic of their own."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tallymark.client.admin.results import Outcomes, refusal
from tallymark.client.admin.routes import from_controller, settle
from tallymark.client.core.cluster import Cluster
from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.protocol import messages
from tallymark.protocol.schema import ZERO_UUID

_EXISTS: Final = CODES["TOPIC_ALREADY_EXISTS"]
_GONE: Final = CODES["UNKNOWN_TOPIC_OR_PARTITION"]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 means the cluster's default (KIP-464). ``assignment`` is
    partition -> broker ids of its replicas, the preferred leader first, in place of the numbers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict[str, str])
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The created topic; -1, 0 and empty where the broker does not report it (before Kafka 2.4)."""

    name: str
    topic_id: uuid.UUID = ZERO_UUID
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict[str, str | None])


async def create_topic(
    cluster: Cluster,
    name: str,
    partitions: int,
    configs: Mapping[str, str],
    timeout: float,
    replication_factor: int = -1,
) -> bool:
    """Create a topic and wait until brokers report it. False when it was there already.

    Raises KafkaError (INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_CONFIG ...),
    TimedOutError after ``timeout`` seconds. It waits for brokers that cannot be reached.
    """
    topic = NewTopic(name, partitions, replication_factor, configs)

    async def attempt(names: list[str]) -> Outcomes[str, CreatedTopic]:
        return await ask_create(cluster, [topic], timeout, validate_only=False)

    outcomes = await settle(cluster, [name], attempt, timeout, patient=True)
    made = _unless(outcomes[name], _EXISTS)
    await cluster.topic(name, timeout)
    return made


async def delete_topic(cluster: Cluster, name: str, timeout: float) -> bool:
    """Delete a topic. False when there was none. Errors as for :func:`create_topic`."""

    async def attempt(names: list[str]) -> Outcomes[str, bool]:
        outcome = (await ask_delete(cluster, names, timeout)).get(name)
        return {name: _unless(outcome, _GONE)}  # it is gone, as wanted

    outcome = (await settle(cluster, [name], attempt, timeout, patient=True))[name]
    if isinstance(outcome, TallymarkError):
        raise outcome
    return outcome


async def ask_create(
    cluster: Cluster, topics: Sequence[NewTopic], timeout: float, validate_only: bool
) -> Outcomes[str, CreatedTopic]:
    """One CreateTopics request to the controller."""
    request = messages.CreateTopicsRequest(
        topics=tuple(_requested(topic) for topic in topics),
        timeout_ms=int(timeout * 1000),
        validate_only=validate_only,
    )

    def read(response: messages.CreateTopicsResponse) -> Outcomes[str, CreatedTopic]:
        return {topic.name: _created(topic) for topic in response.topics}

    return await from_controller(cluster, request, [topic.name for topic in topics], read)


async def ask_delete(cluster: Cluster, names: Iterable[str], timeout: float) -> Outcomes[str, None]:
    """One DeleteTopics request to the controller."""
    wanted = tuple(names)
    request = messages.DeleteTopicsRequest(
        topic_names=wanted,
        topics=tuple(messages.DeleteTopicsRequestTopic(name=name) for name in wanted),
        timeout_ms=int(timeout * 1000),
    )
    outcomes: Outcomes[str, None] = await from_controller(
        cluster,
        request,
        wanted,
        lambda response: {
            one.name or "": refusal(one.error_code, f"topic {one.name}", one.error_message)
            if one.error_code
            else None
            for one in response.responses
        },
    )
    cluster.metadata.forget(name for name, outcome in outcomes.items() if outcome is None)
    return outcomes


def _requested(topic: NewTopic) -> messages.CreateTopicsRequestTopic:
    return messages.CreateTopicsRequestTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignment else topic.partitions,
        replication_factor=-1 if topic.assignment else topic.replication_factor,
        assignments=tuple(
            messages.CreateTopicsRequestAssignment(
                partition_index=partition, broker_ids=tuple(brokers)
            )
            for partition, brokers in sorted(topic.assignment.items())
        ),
        configs=tuple(
            messages.CreateTopicsRequestConfig(name=key, value=value)
            for key, value in topic.configs.items()
        ),
    )


def _created(topic: messages.CreateTopicsResponseTopic) -> CreatedTopic | KafkaError:
    if topic.error_code:
        return refusal(topic.error_code, f"topic {topic.name}", topic.error_message)
    return CreatedTopic(
        topic.name,
        topic.topic_id,
        topic.num_partitions,
        topic.replication_factor,
        {config.name: config.value for config in topic.configs or ()},
    )


def _unless(outcome: object, code: int) -> bool:
    """True for a success, False for the error ``code``; raises any other error."""
    if isinstance(outcome, KafkaError) and outcome.code == code:
        return False
    if isinstance(outcome, TallymarkError):
        raise outcome
    return True
