"""DescribeUserScramCredentials (key 50): the users that can log in by SCRAM (KIP-554).

Salts and keys are never sent. It has one version, which is flexible.
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
class DescribeUserScramCredentialsResponseCredentialInfo(Struct):
    """One credential."""

    mechanism: int = f(Int8, about="1 SCRAM-SHA-256, 2 SCRAM-SHA-512.")
    iterations: int = f(Int32, about="How often the password was hashed.")


@wire
class DescribeUserScramCredentialsResponseResult(Struct):
    """One user."""

    user: str = f(String, about="Name of the user.")
    error_code: int = f(Int16, about="0, or why nothing is told.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    credential_infos: Sequence[DescribeUserScramCredentialsResponseCredentialInfo] = f(
        Array(DescribeUserScramCredentialsResponseCredentialInfo), about="The user's credentials."
    )


@wire
class DescribeUserScramCredentialsResponse(Message):
    """The users."""

    api_key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    valid_versions = (0, 0)
    flexible_from = 0

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    error_code: int = f(Int16, about="0, or why there is no list.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )
    results: Sequence[DescribeUserScramCredentialsResponseResult] = f(
        Array(DescribeUserScramCredentialsResponseResult), about="One for each user."
    )


@wire
class DescribeUserScramCredentialsRequestUser(Struct):
    """One user."""

    name: str = f(String, about="Name of the user.")


@wire
class DescribeUserScramCredentialsRequest(Request[DescribeUserScramCredentialsResponse]):
    """Ask about users."""

    api_key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    valid_versions = (0, 0)
    flexible_from = 0

    users: Sequence[DescribeUserScramCredentialsRequestUser] | None = f(
        Array(DescribeUserScramCredentialsRequestUser),
        nullable_since=0,
        default=None,
        about="The users; null or empty for all.",
    )
