"""CreatePartitions (key 37): give topics more partitions (KIP-195).

* v2 is flexible, v3 may be throttled (KIP-599)
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Message,
    Request,
    String,
    Struct,
    f,
    wire,
)


@wire
class CreatePartitionsResponseResult(Struct):
    """What became of one topic."""

    name: str = f(String, about="Name of the topic.")
    error_code: int = f(Int16, about="0, or why it has no more partitions.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )


@wire
class CreatePartitionsResponse(Message):
    """What became of the topics."""

    api_key = ApiKey.CREATE_PARTITIONS
    valid_versions = (0, 3)
    flexible_from = 2

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    results: Sequence[CreatePartitionsResponseResult] = f(
        Array(CreatePartitionsResponseResult), about="One for each topic of the request."
    )


@wire
class CreatePartitionsRequestAssignment(Struct):
    """Where one new partition shall live."""

    broker_ids: Sequence[int] = f(Array(Int32), about="Its replicas, the preferred leader first.")


@wire
class CreatePartitionsRequestTopic(Struct):
    """One topic."""

    name: str = f(String, about="Name of the topic.")
    count: int = f(Int32, about="How many partitions it shall have.")
    assignments: Sequence[CreatePartitionsRequestAssignment] | None = f(
        Array(CreatePartitionsRequestAssignment),
        nullable_since=0,
        default=None,
        about="Placement by hand of the new ones, or null.",
    )


@wire
class CreatePartitionsRequest(Request[CreatePartitionsResponse]):
    """Add partitions."""

    api_key = ApiKey.CREATE_PARTITIONS
    valid_versions = (0, 3)
    flexible_from = 2

    topics: Sequence[CreatePartitionsRequestTopic] = f(
        Array(CreatePartitionsRequestTopic), about="The topics."
    )
    timeout_ms: int = f(Int32, about="How long to wait for them.")
    validate_only: bool = f(Bool, about="Whether to check only and create nothing.")
