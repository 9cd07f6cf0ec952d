"""What a consumer of a group subscribes to: how many streams of which topics. Pure.

The content of ``/consumers/[group]/ids/[consumer]``::

    {"clicks":2, "views":1}                                    streams by topic
    {"version":1, "pattern":"filter", "subscription":{"click.*":2}}   streams over all topics
                                                               whose whole name matches
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tallymark.errors import UserError
from tallymark.patterns import compile_pattern, pattern_given

_PATTERNS: Final = ("filter", "white_list")


@dataclass(frozen=True, slots=True)
class Subscription:
    """Streams by topic, or by one regular expression when ``is_filter``. A filter never matches
    internal topics (those with a leading ``_``)."""

    streams: Mapping[str, int]
    is_filter: bool = False

    def __post_init__(self) -> None:
        if not self.streams or any(count < 1 for count in self.streams.values()):
            raise UserError(f"{dict(self.streams)} asks for no stream", "ask for one or more")
        if self.is_filter:
            for pattern in self.streams:
                pattern_given("the topic filter", pattern)

    def streams_of(self, topic: str) -> int:
        """How many streams the topic's partitions are divided into here; 0: not subscribed."""
        if not self.is_filter:
            return self.streams.get(topic, 0)
        if topic.startswith("_"):
            return 0
        return max((n for p, n in self.streams.items() if re.fullmatch(p, topic)), default=0)


def topic_filter(allow: str = ".*", deny: str | None = None) -> str:
    """One regular expression for topics whose whole name matches ``allow`` and not ``deny``.
    UserError for an invalid one."""
    for pattern in (allow, deny or ""):
        pattern_given("the topic filter", pattern)
    if deny is None:
        return allow
    joined = rf"(?!(?:{deny})\Z)(?:{allow})"
    try:
        compile_pattern(joined)
    except ValueError as error:
        raise UserError(
            f"the filters {allow!r} and {deny!r} do not go together: {error}",
            "leave out global flags such as (?i), write (?i:...)",
        ) from None
    return joined


def encode(subscription: Subscription) -> bytes:
    """The content of a consumer's node."""
    document: Mapping[str, object] = subscription.streams
    if subscription.is_filter:
        document = {"version": 1, "pattern": "filter", "subscription": dict(document)}
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def decode(data: bytes) -> Subscription:
    """A consumer's node, also in the form of Apache Kafka 0.8 (``pattern`` is ``static`` or
    ``white_list``). ValueError for anything else."""
    document = json.loads(data)
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    streams, is_filter = document, False
    if isinstance(document.get("subscription"), dict):
        streams = document["subscription"]
        pattern = document.get("pattern", "static")
        if pattern != "static" and pattern not in _PATTERNS:
            raise ValueError(f"unknown pattern {pattern!r}")
        is_filter = pattern in _PATTERNS
    if not all(type(count) is int for count in streams.values()):
        raise ValueError("a number of streams is no integer")
    try:
        return Subscription(dict(streams), is_filter)
    except UserError as error:
        raise ValueError(str(error)) from None
