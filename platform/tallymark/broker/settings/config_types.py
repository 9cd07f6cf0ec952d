"""The types and sources of configs, with their numbers on the wire, and the rules that parse texts.
Pure. Numbers and names are Kafka's (KIP-226, KIP-524, KIP-569)."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias

ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...]
"""The parsed value of a config: tuples are lists."""

Rule: TypeAlias = Callable[[str], ConfigValue]
"""Parses a text into the value; ValueError describes valid texts."""

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_REPLICA: Final = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{0,20}\.?[0-9]{0,20}")


class ConfigType(IntEnum):
    """``ConfigType`` of DescribeConfigs v3."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """The source of a value: ``ConfigSource`` of DescribeConfigs v1 and CreateTopics v5."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


def between(low: int, high: int) -> Rule:
    """An integer from ``low`` to ``high``, both inclusive."""

    def rule(text: str) -> int:
        value = int(text) if _INTEGER.fullmatch(text) else None
        if value is None or not low <= value <= high:
            raise ValueError(f"must be an integer from {low} to {high}")
        return value

    return rule


def level(low: int, high: int) -> Rule:
    """A codec's level: an integer from ``low`` to ``high``, or -1 for its default."""
    inside = between(low, high)

    def rule(text: str) -> ConfigValue:
        if text == "-1":
            return -1
        try:
            return inside(text)
        except ValueError as error:
            raise ValueError(f"{error}, or -1") from None

    return rule


def throttled_replicas(text: str) -> tuple[str, ...]:
    """``partition:broker`` pairs, comma separated, ``*`` for all of them, or nothing."""
    words = split(text)
    if words != ("*",) and not all(_REPLICA.fullmatch(word) for word in words):
        raise ValueError("must be * or partition:broker, comma separated")
    return words


def ratio(text: str) -> float:
    """A number from 0 to 1."""
    value = float(text) if _NUMBER.fullmatch(text) and any(map(str.isdigit, text)) else -1.0
    if not 0 <= value <= 1:
        raise ValueError("must be a number from 0 to 1")
    return value


def boolean(text: str) -> bool:
    """``true`` or ``false`` in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"


def one_of(*allowed: str, why: str = "") -> Rule:
    """One of these words. ``why`` is the reason in the error for another one."""

    def rule(text: str) -> str:
        if text not in allowed:
            raise ValueError(
                f"only {' or '.join(allowed)} is possible" + (f": {why}" if why else "")
            )
        return text

    return rule


def only(value: bool | int, why: str) -> Rule:
    """The only number or boolean that this broker supports."""

    def rule(text: str) -> bool | int:
        if text.lower() != shown(value):
            raise ValueError(f"only {shown(value)} is possible: {why}")
        return value

    return rule


def list_of(*allowed: str) -> Rule:
    """At least one of these words, comma separated, in any order, none of them twice."""

    def rule(text: str) -> tuple[str, ...]:
        words = split(text)
        if not words or not set(words) <= set(allowed) or len(set(words)) < len(words):
            raise ValueError(f"must be one or more of {', '.join(allowed)}")
        return words

    return rule


def split(text: str) -> tuple[str, ...]:
    """The words of a list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def shown(value: object) -> str:
    """A value as the text of a config."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ",".join(str(item) for item in value)
    return str(value)
