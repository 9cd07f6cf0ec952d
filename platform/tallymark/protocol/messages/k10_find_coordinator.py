"""FindCoordinator (key 10): which broker looks after a group or a transactional id.

* v1 adds transactional ids, v3 is flexible, v4 asks for many keys at once
* v5 may answer TRANSACTION_ABORTABLE (KIP-890), v6 finds share groups (KIP-932)
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Int8,
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
class FindCoordinatorResponseCoordinator(Struct):
    """The coordinator of one key."""

    key: str = f(String, since=4, about="The group or transactional id.")
    node_id: int = f(Int32, since=4, about="Broker id, -1 when there is an error.")
    host: str = f(String, since=4, about="Its host.")
    port: int = f(Int32, since=4, about="Its port.")
    error_code: int = f(Int16, since=4, about="0, or why there is no coordinator.")
    error_message: str | None = f(
        String, since=4, nullable_since=4, about="The error in words, or null."
    )


@wire
class FindCoordinatorResponse(Message):
    """The coordinator: in the upper fields until v3, in ``coordinators`` from v4."""

    api_key = ApiKey.FIND_COORDINATOR
    valid_versions = (0, 6)
    flexible_from = 3

    throttle_time_ms: int = f(Int32, since=1, about="How long a quota held the request back.")
    error_code: int = f(Int16, until=3, about="0, or why there is no coordinator.")
    error_message: str | None = f(
        String, since=1, until=3, nullable_since=1, about="The error in words, or null."
    )
    node_id: int = f(Int32, until=3, about="Broker id, -1 when there is an error.")
    host: str = f(String, until=3, about="Its host.")
    port: int = f(Int32, until=3, about="Its port.")
    coordinators: Sequence[FindCoordinatorResponseCoordinator] = f(
        Array(FindCoordinatorResponseCoordinator), since=4, about="One for each key."
    )


@wire
class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    """Find the coordinator of ``key`` (until v3) or of each of ``coordinator_keys``."""

    api_key = ApiKey.FIND_COORDINATOR
    valid_versions = (0, 6)
    flexible_from = 3

    key: str = f(String, until=3, about="The group or transactional id.")
    key_type: int = f(Int8, since=1, about="0 group, 1 transactional id, 2 share group.")
    coordinator_keys: Sequence[str] = f(Array(String), since=4, about="The keys.")
