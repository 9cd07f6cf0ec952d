"""k03 Metadata: brokers, topics, partitions and their leaders.

Served 0-13.

* v0 an empty list of topics means all; from v1 null means all and empty means none
* v1 the controller, racks, internal topics
* v2 the cluster id; v5 offline replicas; v7 leader epochs (KIP-320)
* v4 the client says whether an unknown topic may be created; in older versions it may
* v8 authorized operations of topics, v8 to v10 of the cluster (KIP-430)
* v9 flexible; v10 topic ids; v12 topics by id (KIP-516); v13 a top-level error, never used

Kept: a client gets addresses of the listener that it is connected to; a broker without that
listener is left out, and its partitions have LISTENER_NOT_FOUND. A partition whose broker is down
has no leader (-1, LEADER_NOT_AVAILABLE). An unknown topic is created where
``auto.create.topics.enable`` and the client allow it and the client may CREATE. It is created
before the answer, so the first answer has its leaders. "All topics" leaves out those that the
client may not DESCRIBE; requested by name they are TOPIC_AUTHORIZATION_FAILED, whether they exist
or not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tallymark.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from tallymark.broker.requests.create_topic import CHANGED_AT_ONCE, auto_create
from tallymark.broker.requests.partition_facts import partition_facts
from tallymark.broker.requests.registry import Call, register
from tallymark.broker.security.authorizer import operations_bits
from tallymark.broker.settings.topic_configs import check_name
from tallymark.broker.state import BrokerState
from tallymark.broker.yielding import side_by_side
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.acls.words import CLUSTER_NAME, Operation, ResourceType
from tallymark.protocol.messages import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tallymark.protocol.schema import ZERO_UUID
from tallymark.replication.model import NO_LEADER

OPERATIONS_UNKNOWN: Final = -(2**31)
_FIRST_WITH_NO_TOPICS: Final = 1
_FIRST_WITH_LISTENER_ERRORS: Final = 6
_FIRST_BY_ID: Final = 12


def handle(
    state: BrokerState, request: MetadataRequest, call: Call
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """At once, unless a topic has to be created first."""
    answer = _Answer(state, request, call)
    asked = request.topics
    if asked is None or (call.version < _FIRST_WITH_NO_TOPICS and not asked):
        topics = [topic for _, topic in sorted(state.image.topics.items())]
        return answer.response(
            answer.described(t) for t in topics if answer.may_describe(t.name, quiet=True)
        )
    # An id counts, where there is one: Java's admin sends an empty name beside it.
    asked = [t if t.topic_id == ZERO_UUID else replace(t, name=None) for t in asked]
    asked = list({(topic.name, topic.topic_id): topic for topic in asked}.values())
    if request.allow_auto_topic_creation and state.settings.auto_create_topics_enable:
        unknown = [
            topic.name
            for topic in asked
            if topic.name is not None
            and topic.name not in state.image.topics
            and answer.may_describe(topic.name)
        ]
        if unknown:
            return _create_then_answer(answer, asked, unknown)
    return answer.response(answer.asked(topic) for topic in asked)


async def _create_then_answer(
    answer: _Answer, asked: Sequence[MetadataRequestTopic], unknown: Sequence[str]
) -> MetadataResponse:
    async def create(name: str) -> None:
        try:
            answer.check_may_create(name)
            await auto_create(answer.state, name)
        except KafkaError as error:
            answer.failed[name] = error

    await side_by_side(unknown, create, CHANGED_AT_ONCE)
    return answer.response(answer.asked(topic) for topic in asked)


@dataclass(slots=True)
class _Answer:
    """The response to one request; ``failed`` has the errors of topics that could not be
    created."""

    state: BrokerState
    request: MetadataRequest
    call: Call
    failed: dict[str, KafkaError] = field(default_factory=dict[str, KafkaError])

    @property
    def image(self) -> MetadataImage:
        """The current image; a new one after a topic was created."""
        return self.state.image

    def may_describe(self, name: str, *, quiet: bool = False) -> bool:
        return self._may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=quiet)

    def check_may_create(self, name: str) -> None:
        if not (
            self._may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True)
            or self._may(Operation.CREATE, ResourceType.TOPIC, name)
        ):
            raise KafkaError(CODES["TOPIC_AUTHORIZATION_FAILED"], name)

    def asked(self, asked: MetadataRequestTopic) -> MetadataResponseTopic:
        """One requested topic: by name, or from v12 on by id."""
        name = asked.name
        if self.call.version < _FIRST_BY_ID and (name is None or asked.topic_id != ZERO_UUID):
            return _refused("INVALID_REQUEST", name or "")
        if name is None:
            name = self.image.names_by_id.get(asked.topic_id)
            if name is None or not self.may_describe(name):
                # Ids are no secret (Kafka answers so, too), but the name of an id is.
                why = "UNKNOWN_TOPIC_ID" if name is None else "TOPIC_AUTHORIZATION_FAILED"
                return MetadataResponseTopic(
                    error_code=CODES[why], name=None, topic_id=asked.topic_id
                )
        elif not self.may_describe(name):
            return _refused("TOPIC_AUTHORIZATION_FAILED", name)
        topic = self.image.topics.get(name)
        return self._unknown(name) if topic is None else self.described(topic)

    def described(self, topic: TopicImage) -> MetadataResponseTopic:
        """A topic that exists and that the client may describe."""
        bits = OPERATIONS_UNKNOWN
        if self.request.include_topic_authorized_operations:
            bits = self._bits(ResourceType.TOPIC, topic.name)
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=[
                self._partition(topic.name, index, partition)
                for index, partition in enumerate(topic.partitions)
            ],
            topic_authorized_operations=bits,
        )

    def response(self, topics: Iterable[MetadataResponseTopic]) -> MetadataResponse:
        """The whole answer."""
        listener, image = self.call.connection.listener, self.image
        brokers: list[MetadataResponseBroker] = []
        for node_id, broker in sorted(image.brokers.items()):
            at = broker.at(listener)
            if at is not None:
                brokers.append(
                    MetadataResponseBroker(node_id, at.host, at.port, broker.rack or None)
                )
        known = {broker.node_id for broker in brokers}
        bits = OPERATIONS_UNKNOWN
        if self.request.include_cluster_authorized_operations:
            # A client that may not even describe the cluster gets no operations.
            may = self._may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True)
            bits = self._bits(ResourceType.CLUSTER, CLUSTER_NAME) if may else 0
        return MetadataResponse(
            brokers=brokers,
            cluster_id=image.cluster_id,
            controller_id=image.controller_id if image.controller_id in known else NO_LEADER,
            topics=list(topics),
            cluster_authorized_operations=bits,
        )

    def _partition(
        self, topic: str, index: int, partition: PartitionImage
    ) -> MetadataResponsePartition:
        facts = partition_facts(self.state, self.call.connection.listener, topic, index, partition)
        error = facts.error
        if error == CODES["LISTENER_NOT_FOUND"] and self.call.version < _FIRST_WITH_LISTENER_ERRORS:
            error = CODES["LEADER_NOT_AVAILABLE"]
        return MetadataResponsePartition(
            error_code=error,
            partition_index=index,
            leader_id=facts.leader,
            leader_epoch=facts.leader_epoch,
            replica_nodes=facts.replicas,
            isr_nodes=facts.isr,
            offline_replicas=facts.offline_replicas,
        )

    def _unknown(self, name: str) -> MetadataResponseTopic:
        """The error for an unknown topic. LEADER_NOT_AVAILABLE makes every client retry."""
        error = self.failed.get(name)
        if error is None:
            try:
                check_name(name)
            except KafkaError as wrong:
                return _refused(wrong.name, name)
            return _refused("UNKNOWN_TOPIC_OR_PARTITION", name)
        soon = error.retriable or error.name == "TOPIC_ALREADY_EXISTS"  # it is being deleted
        return _refused("LEADER_NOT_AVAILABLE" if soon else error.name, name)

    def _may(
        self, operation: Operation, kind: ResourceType, name: str, *, quiet: bool = False
    ) -> bool:
        who = self.call.connection
        return self.state.authorizer.may(who, operation, kind, name, quiet=quiet)

    def _bits(self, kind: ResourceType, name: str) -> int:
        return operations_bits(self.state.authorizer, self.call.connection, kind, name)


def _refused(why: str, name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=CODES[why], name=name, topic_id=ZERO_UUID)


register(MetadataRequest, handle)
