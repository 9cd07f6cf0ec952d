"""DeleteTopics (key 20).

* v4 is flexible, v5 says the error in words, v6 takes topics by name or id
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
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
class DeleteTopicsResponseTopic(Struct):
    """What became of one topic."""

    name: str | None = f(String, nullable_since=6, about="Name; null for an unknown id.")
    topic_id: uuid.UUID = f(Uuid, since=6, about="Id; zero for an unknown name.")
    error_code: int = f(Int16, about="0, or why it was not deleted.")
    error_message: str | None = f(
        String, since=5, nullable_since=5, default=None, about="The error in words, or null."
    )


@wire
class DeleteTopicsResponse(Message):
    """What became of the topics."""

    api_key = ApiKey.DELETE_TOPICS
    valid_versions = (1, 6)
    flexible_from = 4

    throttle_time_ms: int = f(Int32, since=1, about="How long a quota held the request back.")
    responses: Sequence[DeleteTopicsResponseTopic] = f(
        Array(DeleteTopicsResponseTopic), about="One for each topic of the request."
    )


@wire
class DeleteTopicsRequestTopic(Struct):
    """A topic by name or id."""

    name: str | None = f(
        String, since=6, nullable_since=6, default=None, about="Its name, or null to use the id."
    )
    topic_id: uuid.UUID = f(Uuid, since=6, about="Its id, or zero to use the name.")


@wire
class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    """Delete topics: ``topic_names`` until v5, ``topics`` from v6."""

    api_key = ApiKey.DELETE_TOPICS
    valid_versions = (1, 6)
    flexible_from = 4

    topics: Sequence[DeleteTopicsRequestTopic] = f(
        Array(DeleteTopicsRequestTopic), since=6, about="The topics."
    )
    topic_names: Sequence[str] = f(Array(String), until=5, about="Names of the topics.")
    timeout_ms: int = f(Int32, about="How long to wait for it.")
