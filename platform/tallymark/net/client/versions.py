"""The API versions of a broker, and the version of a request that both sides support (KIP-35,
KIP-511)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import ApiVersionsRequest, ApiVersionsResponse
from tallymark.protocol.schema import Message

Ranges = Mapping[int, tuple[int, int]]
"""API key -> (lowest, highest) version that the broker serves, from its ApiVersions response."""

Submit = Callable[[ApiVersionsRequest, int], Awaitable[ApiVersionsResponse]]
"""Sends an ApiVersions request in the given version."""

CLIENT_NAME: Final = "tallymark"
_API_VERSIONS: Final = 3
"""The version of the first request: the lowest one that names the client's software (KIP-511)."""


async def negotiate(submit: Submit) -> Ranges:
    """Ask what the broker serves: as v3, and when it answers "unsupported version" in the form of
    v0 (KIP-511), as the version that this answer allows; a v0 answer that lists nothing about
    itself means v0. Raises the broker's KafkaError."""
    response = await _ask(submit, _API_VERSIONS)
    if response.error_code == CODES["UNSUPPORTED_VERSION"]:
        own = {key.api_key: key.max_version for key in response.api_keys}
        lower = min(own.get(ApiVersionsRequest.api_key, 0), _API_VERSIONS - 1)
        response = await _ask(submit, lower)
    if response.error_code:
        raise KafkaError(response.error_code, "ApiVersions")
    return {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}


def question() -> ApiVersionsRequest:
    """The request, with the name of our software."""
    return ApiVersionsRequest(client_software_name=CLIENT_NAME, client_software_version="0.1.0")


def _ask(submit: Submit, version: int) -> Awaitable[ApiVersionsResponse]:
    return submit(question(), version)


def common_version(request_class: type[Message], served: Ranges, at_most: int | None = None) -> int:
    """The highest version of a request that we write and the broker reads.

    ``at_most`` lowers our side. Raises KafkaError UNSUPPORTED_VERSION naming both ranges.
    """
    lowest, highest = request_class.valid_versions
    if at_most is not None:
        highest = min(highest, at_most)
    name = request_class.__name__.removesuffix("Request")
    if request_class.api_key not in served:
        raise KafkaError(CODES["UNSUPPORTED_VERSION"], f"the broker does not serve {name}")
    served_lowest, served_highest = served[request_class.api_key]
    version = min(highest, served_highest)
    if version < max(lowest, served_lowest):
        raise KafkaError(
            CODES["UNSUPPORTED_VERSION"],
            f"{name}: the broker serves {served_lowest}-{served_highest}, "
            f"we speak {lowest}-{highest}",
        )
    return version
