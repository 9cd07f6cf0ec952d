"""Reading the values of the source's options: each says what is wrong, and what would be right."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from tallymark.errors import UserError
from tallymark.protocol.topic_partition import EARLIEST, LATEST

SEE: Final = "see docs/spark.md for every option"

Bound = int | dict[tuple[str, int], int]
"""EARLIEST, LATEST, or an offset (or one of these stand-ins of Kafka's) for each partition by
``(topic, partition)``."""
Times = dict[tuple[str, int], int]
"""A time (ms) for each partition."""

T = TypeVar("T", bound=str)


def bound(options: Mapping[str, str], name: str, default: int) -> Bound:
    """``earliest``, ``latest``, or an offset for each partition."""
    text = options.get(name.lower())
    if text is None:
        return default
    words = {"earliest": EARLIEST, "latest": LATEST}
    forbidden = "latest" if name.startswith("starting") else "earliest"
    word = text.strip().lower()
    if word in words and word != forbidden:
        return words[word]
    if word in words:
        raise UserError(f"{name} of a batch read cannot be {word}", SEE)
    return {place: _offset(name, offset) for place, offset in _by_partition(name, text)}


def times(options: Mapping[str, str], name: str) -> Times | None:
    """A time for each partition; None: not given."""
    text = options.get(name.lower())
    if text is None:
        return None
    return {place: _time(name, at) for place, at in _by_partition(name, text)}


def _by_partition(name: str, text: str) -> Iterator[tuple[tuple[str, int], object]]:
    """``{"topic": {"0": value}}``."""
    for topic, values in json_object(name, text).items():
        if not isinstance(values, dict):
            raise UserError(f"{name}: {topic} needs an object of partitions and their values", SEE)
        for partition, value in values.items():
            yield (topic, _partition(name, partition)), value


def _time(name: str, value: object) -> int:
    if type(value) is int and value >= 0:
        return value
    raise UserError(f"{name}: {value!r} is not a time", "give milliseconds since 1970 UTC")


def _partition(name: str, partition: str) -> int:
    if partition.isdecimal():
        return int(partition)
    raise UserError(f"{name}: {partition!r} is not a partition", SEE)


def _offset(name: str, offset: object) -> int:
    if type(offset) is int and offset >= EARLIEST:
        return offset
    raise UserError(
        f"{name}: {offset!r} is not an offset (-2 earliest, -1 latest, or 0 and up)", SEE
    )


def json_object(name: str, text: str) -> dict[str, object]:
    """An object of JSON."""
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise UserError(f"the option {name} is not JSON: {error}", SEE) from None
    if not isinstance(raw, dict):
        raise UserError(f"the option {name} has to be a JSON object by topic", SEE)
    return raw


def timestamp(
    options: Mapping[str, str], name: str, do: str = "give milliseconds since 1970 UTC"
) -> int | None:
    """Milliseconds; None: not given."""
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise UserError(f"the option {name} is {text!r}", do)
    return value


def positive(options: Mapping[str, str], name: str, default: int) -> int:
    """A whole number above zero."""
    text = options.get(name.lower())
    if text is None:
        return default
    if text.strip().isdecimal() and int(text) > 0:
        return int(text)
    raise UserError(f"the option {name} is {text!r}", "give a whole number above zero")


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    """``true`` or ``false``."""
    text = options.get(name.lower())
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise UserError(f"the option {name} is {text!r}", "give true or false")
    return word == "true"


def one_of(options: Mapping[str, str], name: str, words: Sequence[T], default: T) -> T:
    """One of the words, in any case."""
    text = options.get(name.lower())
    if text is None:
        return default
    for word in words:
        if text.strip().lower() == word:
            return word
    raise UserError(f"the option {name} is {text!r}", f"give {' or '.join(words)}")
