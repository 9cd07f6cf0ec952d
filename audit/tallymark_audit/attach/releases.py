"""Which Kafka brokers speak as, judged by the newest requests they serve. Pure.

A broker does not tell its version (KIP-511 has only clients tell theirs); what it serves does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Served = Mapping[str, tuple[int, int]]

_SINCE: Final = (
    ("FETCH", 18, "4.1 or newer"),
    ("METADATA", 13, "4.0"),
    ("FETCH", 17, "3.9"),
    ("FETCH", 16, "3.7"),
    ("FETCH", 15, "3.5"),
    ("FETCH", 13, "3.1"),
    ("FETCH", 12, "2.7"),
    ("FETCH", 11, "2.3"),
    ("FETCH", 4, "0.11"),
)
"""The newest first: a request, the version of it, and the Kafka that brought it."""
_HEADERS_SINCE: Final = 4
"""The Fetch that may carry record batches, and so headers (KIP-82)."""


def release_of(served: Served) -> str:
    """The Kafka that serves such requests: it is that one, or one up to the next of the table."""
    for api, version, release in _SINCE:
        if served.get(api, (0, -1))[1] >= version:
            return release
    return "before 0.11"


def keeps_headers(served: Served) -> bool:
    """Whether records keep the stamp, which is a header."""
    return served.get("FETCH", (0, -1))[1] >= _HEADERS_SINCE
