"""CreateTopics (key 19).

* v4 allows -1 for the broker's default of partitions and replicas (KIP-464)
* v5 is flexible and returns the topic's configuration; v6 may be throttled; v7 returns its id
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    Request,
    String,
    Struct,
    Uuid,
    f,
    wire,
)


@wire
class CreateTopicsResponseConfig(Struct):
    """One configuration of the new topic."""

    name: str = f(String, since=5, about="Name of the configuration.")
    value: str | None = f(String, since=5, nullable_since=5, about="Its value.")
    read_only: bool = f(Bool, since=5, about="Whether it cannot be changed.")
    config_source: int = f(Int8, since=5, default=-1, about="Where the value comes from.")
    is_sensitive: bool = f(Bool, since=5, about="Whether the value is a secret.")


@wire
class CreateTopicsResponseTopic(Struct):
    """What became of one topic."""

    name: str = f(String, about="Name of the topic.")
    topic_id: uuid.UUID = f(Uuid, since=7, about="Id of the topic.")
    error_code: int = f(Int16, about="0, or why it was not created.")
    error_message: str | None = f(
        String, since=1, nullable_since=0, about="The error in words, or null."
    )
    topic_config_error_code: int = f(
        Int16, since=5, tag=0, about="Why the configuration is not told."
    )
    num_partitions: int = f(Int32, since=5, default=-1, about="Number of partitions.")
    replication_factor: int = f(Int16, since=5, default=-1, about="Replicas of each.")
    configs: Sequence[CreateTopicsResponseConfig] | None = f(
        Array(CreateTopicsResponseConfig), since=5, nullable_since=5, about="Its configuration."
    )


@wire
class CreateTopicsResponse(Message):
    """What became of the topics."""

    api_key = ApiKey.CREATE_TOPICS
    valid_versions = (2, 7)
    flexible_from = 5

    throttle_time_ms: int = f(Int32, since=2, about="How long a quota held the request back.")
    topics: Sequence[CreateTopicsResponseTopic] = f(
        Array(CreateTopicsResponseTopic), about="One for each topic of the request."
    )


@wire
class CreateTopicsRequestAssignment(Struct):
    """Where one partition shall live."""

    partition_index: int = f(Int32, about="Number of the partition.")
    broker_ids: Sequence[int] = f(Array(Int32), about="Its replicas, the preferred leader first.")


@wire
class CreateTopicsRequestConfig(Struct):
    """One configuration to set."""

    name: str = f(String, about="Name of the configuration.")
    value: str | None = f(String, nullable_since=0, about="Its value.")


@wire
class CreateTopicsRequestTopic(Struct):
    """One topic to create."""

    name: str = f(String, about="Name of the topic.")
    num_partitions: int = f(
        Int32, about="Number of partitions; -1 for the default or with assignments."
    )
    replication_factor: int = f(
        Int16, about="Replicas of each; -1 for the default or with assignments."
    )
    assignments: Sequence[CreateTopicsRequestAssignment] = f(
        Array(CreateTopicsRequestAssignment), about="Placement by hand, or empty."
    )
    configs: Sequence[CreateTopicsRequestConfig] = f(
        Array(CreateTopicsRequestConfig), about="Configurations to set."
    )


@wire
class CreateTopicsRequest(Request[CreateTopicsResponse]):
    """Create topics."""

    api_key = ApiKey.CREATE_TOPICS
    valid_versions = (2, 7)
    flexible_from = 5

    topics: Sequence[CreateTopicsRequestTopic] = f(
        Array(CreateTopicsRequestTopic), about="The topics."
    )
    timeout_ms: int = f(Int32, default=60000, about="How long to wait for them.")
    validate_only: bool = f(Bool, since=1, about="Whether to check only and create nothing.")
