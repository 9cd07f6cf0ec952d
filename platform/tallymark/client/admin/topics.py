"""Topics and their partitions: create, grow, describe, list, delete."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tallymark.client.admin.acls import operations_in
from tallymark.client.admin.base import AdminBase
from tallymark.client.admin.results import Outcomes, Results, refusal
from tallymark.client.admin.routes import from_controller
from tallymark.client.admin.topic_admin import (
    CreatedTopic,
    NewTopic,
    ask_create,
    ask_delete,
    create_topic,
    delete_topic,
)
from tallymark.client.core.cluster import RETRY_BACKOFF
from tallymark.client.core.metadata import TopicInfo
from tallymark.errors import CODES, KafkaError
from tallymark.protocol import messages
from tallymark.protocol.topic_partition import TopicPartition

__all__ = ["CreatedTopic", "NewTopic", "PartitionDescription", "TopicAdmin", "TopicDescription"]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition: broker ids of its leader (-1: none now) and replicas, the preferred leader
    first; ``isr`` are those in sync, ``offline`` those whose broker or disk is not available."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()

    @property
    def under_replicated(self) -> bool:
        """Whether a replica is not in sync."""
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions, ascending. ``internal``: the cluster itself uses the topic.
    ``operations``: what the caller may do with it, in the words of
    :data:`~.acls.OPERATIONS`; None when it was not requested, or not reported (before Kafka 2.3).
    """

    name: str
    topic_id: uuid.UUID
    internal: bool
    partitions: tuple[PartitionDescription, ...] = field(default_factory=tuple)
    operations: frozenset[str] | None = None


class TopicAdmin(AdminBase):
    """The methods of Admin for topics."""

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        if_not_exists: bool = True,
        replication_factor: int = -1,
    ) -> bool:
        """Create a topic and wait until brokers report it. True when this call made it.

        Raises KafkaError TOPIC_ALREADY_EXISTS unless ``if_not_exists``, and the cluster's other
        refusals (name, number of partitions, configs); TimedOutError, ConnectError.
        """
        made = self._run(
            create_topic(
                self._cluster, name, partitions, configs or {}, self._timeout, replication_factor
            ),
            f"creating topic {name}",
        )
        if not made and not if_not_exists:
            raise KafkaError(CODES["TOPIC_ALREADY_EXISTS"], f"topic {name}")
        return made

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Results[str, CreatedTopic]:
        """Create several topics, each with a number of partitions or with a given placement of
        replicas. One may fail while others succeed. ``validate_only`` checks the request and
        creates nothing. Brokers may need a moment until all of them report a new topic."""
        wanted = {topic.name: topic for topic in topics}

        async def attempt(names: list[str]) -> Outcomes[str, CreatedTopic]:
            chosen = [wanted[name] for name in names]
            return await ask_create(self._cluster, chosen, self._timeout, validate_only)

        return self._settle(wanted, attempt, "creating topics")

    def delete_topic(self, name: str, if_exists: bool = True) -> bool:
        """Delete a topic and its records. True when this call deleted it.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION unless ``if_exists``; other errors as for
        :meth:`create_topic`.
        """
        work = delete_topic(self._cluster, name, self._timeout)
        gone = self._run(work, f"deleting topic {name}")
        if not gone and not if_exists:
            raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], f"topic {name}")
        return gone

    def delete_topics(self, names: Iterable[str]) -> Results[str, None]:
        """Delete several topics with their records."""

        async def attempt(pending: list[str]) -> Outcomes[str, None]:
            return await ask_delete(self._cluster, pending, self._timeout)

        return self._settle(names, attempt, "deleting topics")

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> Results[str, None]:
        """Add partitions to topics until they have the given numbers; ``assignments`` place the
        replicas of each new partition. A key may go to another partition afterwards."""
        placed = assignments or {}

        async def attempt(names: list[str]) -> Outcomes[str, None]:
            request = messages.CreatePartitionsRequest(
                topics=tuple(_grown(name, counts[name], placed.get(name)) for name in names),
                timeout_ms=int(self._timeout * 1000),
                validate_only=validate_only,
            )
            return await from_controller(
                self._cluster,
                request,
                names,
                lambda response: {
                    one.name: refusal(one.error_code, f"topic {one.name}", one.error_message)
                    if one.error_code
                    else None
                    for one in response.results
                },
            )

        results = self._settle(counts, attempt, "creating partitions")
        if not validate_only:
            self._run(
                self._told_of({name: counts[name] for name in results}), "creating partitions"
            )
        return results

    async def _told_of(self, counts: Mapping[str, int]) -> None:
        """Wait until a broker reports so many partitions: Apache Kafka's controller answers before
        its brokers know of them. After the deadline it returns without an error, since the
        partitions exist all the same."""
        deadline = time.monotonic() + self._timeout
        while counts and time.monotonic() < deadline:
            await self._cluster.refresh(list(counts))
            there = self._cluster.metadata.topics()
            if all(n in there and there[n].partition_count >= counts[n] for n in counts):
                return
            await asyncio.sleep(RETRY_BACKOFF)

    def topics(self) -> dict[str, TopicInfo]:
        """All topics, from a new request."""
        self._run(self._cluster.refresh(None), "listing topics")
        return self._cluster.metadata.topics()

    def describe_topics(
        self, names: Iterable[str] | None = None, *, operations: bool = False
    ) -> Results[str, TopicDescription]:
        """These topics (None: all) with leaders and replicas, from a new request; with
        ``operations`` also what the caller may do with them (KIP-430)."""
        wanted = None if names is None else sorted(set(names))
        request = messages.MetadataRequest(
            topics=None
            if wanted is None
            else tuple(messages.MetadataRequestTopic(name=n) for n in wanted),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=operations,
        )
        response = self._run(self._cluster.ask_any(request), "describing topics")
        return Results.of({topic.name or "": _described(topic) for topic in response.topics})

    def partitions_of(self, topics: Iterable[str]) -> tuple[TopicPartition, ...]:
        """Every partition of the topics, from a new request. KafkaError for a topic that does not
        exist."""
        described = self.describe_topics(topics).check()
        return tuple(
            (topic.name, part.partition)
            for topic in described.values()
            for part in topic.partitions
        )

    def leaders(self, topic: str) -> dict[int, tuple[int, int]]:
        """Partition -> (broker id of its leader or -1, leader epoch), from the cached metadata."""
        metadata = self._cluster.metadata
        info = metadata.topic(topic)
        found = {p: metadata.leader(topic, p) for p in (info.partitions if info else ())}
        return {part: (one.broker, one.epoch) for part, one in found.items() if one is not None}


def _grown(
    name: str, count: int, placed: Sequence[Sequence[int]] | None
) -> messages.CreatePartitionsRequestTopic:
    assignments = (
        None
        if placed is None
        else tuple(
            messages.CreatePartitionsRequestAssignment(broker_ids=tuple(ids)) for ids in placed
        )
    )
    return messages.CreatePartitionsRequestTopic(name=name, count=count, assignments=assignments)


def _described(topic: messages.MetadataResponseTopic) -> TopicDescription | KafkaError:
    if topic.error_code and not topic.partitions:
        return refusal(topic.error_code, f"topic {topic.name}")
    partitions = (
        PartitionDescription(
            part.partition_index,
            part.leader_id,
            part.leader_epoch,
            tuple(part.replica_nodes),
            tuple(part.isr_nodes),
            tuple(part.offline_replicas),
        )
        for part in sorted(topic.partitions, key=lambda part: part.partition_index)
    )
    return TopicDescription(
        topic.name or "",
        topic.topic_id,
        topic.is_internal,
        tuple(partitions),
        operations_in(topic.topic_authorized_operations),
    )
