"""AlterUserScramCredentials (key 51): add, change and remove SCRAM credentials (KIP-554).

The client salts the password, so that the broker never sees it. It has one version, which is
flexible.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.protocol.api import ApiKey
from tallymark.protocol.schema import (
    Array,
    Buffer,
    Bytes,
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
class AlterUserScramCredentialsResponseResult(Struct):
    """What became of one user."""

    user: str = f(String, about="Name of the user.")
    error_code: int = f(Int16, about="0, or why nothing was changed.")
    error_message: str | None = f(
        String, nullable_since=0, default=None, about="The error in words, or null."
    )


@wire
class AlterUserScramCredentialsResponse(Message):
    """What became of the users."""

    api_key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    valid_versions = (0, 0)
    flexible_from = 0

    throttle_time_ms: int = f(Int32, about="How long a quota held the request back.")
    results: Sequence[AlterUserScramCredentialsResponseResult] = f(
        Array(AlterUserScramCredentialsResponseResult), about="One for each user of the request."
    )


@wire
class AlterUserScramCredentialsRequestDeletion(Struct):
    """One credential to remove."""

    name: str = f(String, about="Name of the user.")
    mechanism: int = f(Int8, about="1 SCRAM-SHA-256, 2 SCRAM-SHA-512.")


@wire
class AlterUserScramCredentialsRequestUpsertion(Struct):
    """One credential to set."""

    name: str = f(String, about="Name of the user.")
    mechanism: int = f(Int8, about="1 SCRAM-SHA-256, 2 SCRAM-SHA-512.")
    iterations: int = f(Int32, about="How often the password was hashed.")
    salt: Buffer = f(Bytes, about="Random bytes of the user's own.")
    salted_password: Buffer = f(Bytes, about="What the hashing made of password and salt.")


@wire
class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse]):
    """Change credentials."""

    api_key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    valid_versions = (0, 0)
    flexible_from = 0

    deletions: Sequence[AlterUserScramCredentialsRequestDeletion] = f(
        Array(AlterUserScramCredentialsRequestDeletion), about="What to remove."
    )
    upsertions: Sequence[AlterUserScramCredentialsRequestUpsertion] = f(
        Array(AlterUserScramCredentialsRequestUpsertion), about="What to set."
    )
