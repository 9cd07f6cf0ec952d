"""UpdateFeatures (key 57): the levels of a cluster's features change (KIP-584).

* v1 adds the kind of upgrade and asking without changing
* v2 has one error for all in the answer
"""

from __future__ import annotations

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
    f,
    wire,
)


@wire
class UpdateFeaturesResponseResult(Struct):
    """What became of one feature."""

    feature: str = f(String, until=1, about="Name of the feature.")
    error_code: int = f(Int16, until=1, about="0, or why it has not changed.")
    error_message: str | None = f(
        String, until=1, nullable_since=0, default=None, about="The error in words, or null."
    )


@wire
class UpdateFeaturesResponse(Message):
    """What became of the features."""

    api_key = ApiKey.UPDATE_FEATURES
    valid_versions = (0, 2)
    flexible_from = 0

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why nothing was done.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    results: Sequence[UpdateFeaturesResponseResult] = f(
        Array(UpdateFeaturesResponseResult), until=1, about="One for each feature."
    )


@wire
class UpdateFeaturesRequestFeature(Struct):
    """One feature."""

    feature: str = f(String, about="Name of the feature.")
    max_version_level: int = f(Int16, about="The level it is to have; below 1 removes it.")
    allow_downgrade: bool = f(Bool, until=0, about="Whether the level may become lower.")
    upgrade_type: int = f(
        Int8, since=1, default=1, about="1: up, 2: down if nothing is lost, 3: down."
    )


@wire
class UpdateFeaturesRequest(Request[UpdateFeaturesResponse]):
    """Change features."""

    api_key = ApiKey.UPDATE_FEATURES
    valid_versions = (0, 2)
    flexible_from = 0

    timeout_ms: int = f(Int32, default=60_000, about="How long the change may take.")
    feature_updates: Sequence[UpdateFeaturesRequestFeature] = f(
        Array(UpdateFeaturesRequestFeature), about="One for each feature."
    )
    validate_only: bool = f(Bool, since=1, about="Only say whether it could be done.")
