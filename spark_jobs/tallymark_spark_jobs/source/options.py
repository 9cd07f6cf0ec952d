"""The options of ``spark.read.format("tallymark")``: named and meant as Spark's Kafka source does.

Option names arrive in any case. An unknown option is an error here, where Spark's Kafka source
ignores it: a misspelt ``endingTimestamp`` would otherwise read a whole log without a warning.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tallymark.client.core.security.properties import PROPERTIES, security_of_properties
from tallymark.client.core.security.security import SecuritySettings
from tallymark.errors import UserError
from tallymark.protocol.topic_partition import EARLIEST, LATEST

Mode = Literal["records", "stamps"]
"""Kafka's own stand-ins for the ends of a log, also inside JSON offsets."""

Bound = int | dict[tuple[str, int], int]
"""EARLIEST, LATEST, or an offset (or stand-in) for each partition by ``(topic, partition)``."""

KNOWN: Final = (
    "kafka.bootstrap.servers",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "includeHeaders",
    "includeContentHash",
    "failOnDataLoss",
    "failOnCorruptBatch",
    "minPartitions",
    "rowsPerPartition",
    "mode",
    *(f"kafka.{name}" for name in PROPERTIES),
)
ROWS_PER_PARTITION: Final = 1_000_000
SEE: Final = "see docs/spark.md for every option"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read. Exactly one of ``topics``, ``pattern`` and ``assigned`` names the topics;
    timestamps are ms UTC, the ending one excluded; offsets start included, end excluded."""

    bootstrap_servers: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[tuple[str, int], ...] = ()
    starting: Bound = EARLIEST
    ending: Bound = LATEST
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    include_headers: bool = False
    include_content_hash: bool = False
    fail_on_data_loss: bool = True
    fail_on_corrupt_batch: bool = True
    min_partitions: int = 1
    rows_per_partition: int = ROWS_PER_PARTITION
    mode: Mode = "records"
    security: SecuritySettings = field(default_factory=SecuritySettings, repr=False)


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Read the options. UserError names the one that is wrong, and what would be right."""
    options = {name.lower(): value for name, value in given.items()}
    _refuse_unknown(options)
    servers = options.get("kafka.bootstrap.servers", "").strip()
    if not servers:
        raise UserError("the option kafka.bootstrap.servers is missing", "give host:port[,...]")
    _refuse_both(options, "startingOffsets", "startingTimestamp")
    _refuse_both(options, "endingOffsets", "endingTimestamp")
    topics, pattern, assigned = _which_topics(options)
    return SourceOptions(
        bootstrap_servers=servers,
        security=_security(options),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        starting=_bound(options, "startingOffsets", EARLIEST),
        ending=_bound(options, "endingOffsets", LATEST),
        starting_timestamp=_timestamp(options, "startingTimestamp"),
        ending_timestamp=_timestamp(options, "endingTimestamp"),
        include_headers=_flag(options, "includeHeaders", False),
        include_content_hash=_flag(options, "includeContentHash", False),
        fail_on_data_loss=_flag(options, "failOnDataLoss", True),
        fail_on_corrupt_batch=_flag(options, "failOnCorruptBatch", True),
        min_partitions=_positive(options, "minPartitions", 1),
        rows_per_partition=_positive(options, "rowsPerPartition", ROWS_PER_PARTITION),
        mode=_mode(options),
    )


def _refuse_unknown(options: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in KNOWN}
    for name in options:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, n=1)
        do = f"did you mean {known[near[0]]}?" if near else SEE
        raise UserError(f"the tallymark source has no option {name!r}", do)


def _security(options: Mapping[str, str]) -> SecuritySettings:
    """TLS and the log-in, by the names of Kafka's clients behind ``kafka.``, as Spark has it."""
    given = {name.removeprefix("kafka."): options[name] for name in options if name[:6] == "kafka."}
    return security_of_properties(given, "the options of the tallymark source")


def _refuse_both(options: Mapping[str, str], one: str, other: str) -> None:
    if one.lower() in options and other.lower() in options:
        raise UserError(f"the options {one} and {other} exclude each other", "give one of them")


def _which_topics(
    options: Mapping[str, str],
) -> tuple[tuple[str, ...], str, tuple[tuple[str, int], ...]]:
    names = ("subscribe", "subscribePattern", "assign")
    given = [name for name in names if options.get(name.lower(), "").strip()]
    if len(given) != 1:
        raise UserError(
            f"the source needs exactly one of {', '.join(names)}, not {len(given)} of them", SEE
        )
    text = options[given[0].lower()]
    if given[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        return topics, "", ()
    if given[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise UserError(
                f"subscribePattern {text!r} is not a regular expression: {error}"
            ) from None
        return (), text, ()
    return (), "", _assigned(text)


def _assigned(text: str) -> tuple[tuple[str, int], ...]:
    """``{"topic": [0, 1]}``."""
    raw = _json("assign", text)
    pairs = [(topic, number) for topic, numbers in raw.items() for number in _ints(topic, numbers)]
    if not pairs:
        raise UserError("the option assign names no partition", 'give {"topic": [0, 1]}')
    return tuple(pairs)


def _ints(topic: str, numbers: object) -> list[int]:
    if isinstance(numbers, list) and all(type(number) is int for number in numbers):
        return numbers
    raise UserError(f"the option assign wants a list of partitions for {topic}", SEE)


def _bound(options: Mapping[str, str], name: str, default: int) -> Bound:
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
    offsets: dict[tuple[str, int], int] = {}
    for topic, by_partition in _json(name, text).items():
        if not isinstance(by_partition, dict):
            raise UserError(f"{name}: {topic} needs an object of partitions and offsets", SEE)
        for partition, offset in by_partition.items():
            offsets[topic, _offset_key(name, partition)] = _offset(name, offset)
    return offsets


def _offset_key(name: str, partition: str) -> int:
    if partition.isdecimal():
        return int(partition)
    raise UserError(f"{name}: {partition!r} is not a partition", SEE)


def _offset(name: str, offset: object) -> int:
    if type(offset) is int and offset >= EARLIEST:
        return offset
    raise UserError(
        f"{name}: {offset!r} is not an offset (-2 earliest, -1 latest, or 0 and up)", SEE
    )


def _json(name: str, text: str) -> dict[str, object]:
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise UserError(f"the option {name} is not JSON: {error}", SEE) from None
    if not isinstance(raw, dict):
        raise UserError(f"the option {name} has to be a JSON object by topic", SEE)
    return raw


def _timestamp(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise UserError(f"the option {name} is {text!r}", "give milliseconds since 1970 UTC")
    return value


def _positive(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name.lower())
    if text is None:
        return default
    if text.strip().isdecimal() and int(text) > 0:
        return int(text)
    raise UserError(f"the option {name} is {text!r}", "give a whole number above zero")


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower())
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise UserError(f"the option {name} is {text!r}", "give true or false")
    return word == "true"


def _mode(options: Mapping[str, str]) -> Mode:
    word = options.get("mode", "records").strip().lower()
    if word == "records":
        return "records"
    if word == "stamps":
        return "stamps"
    raise UserError(f"the option mode is {word!r}", "give records or stamps")
