"""Which version of a request both sides speak (KIP-35, KIP-511)."""

from __future__ import annotations

from collections.abc import Mapping

from tallymark.errors import CODES, KafkaError
from tallymark.protocol.schema import Message

Ranges = Mapping[int, tuple[int, int]]
"""API key -> (lowest, highest) version the broker serves, as its ApiVersions response says."""


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
