"""The options that only a stream has; the others are those of a batch read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from tallymark.errors import UserError
from tallymark.protocol.topic_partition import LATEST
from tallymark_spark_jobs.source.options import SEE, SourceOptions, parse_options

LOCATION: Final = "startingOffsetsLocation"
MOST: Final = "maxOffsetsPerTrigger"
LEAST: Final = "minOffsetsPerTrigger"
DELAY: Final = "maxTriggerDelay"
STREAM_OPTIONS: Final = (LOCATION, MOST, LEAST, DELAY)
_NOT_OF_A_STREAM: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """``source``: what to read. ``location``: the folder that keeps where the stream began.
    ``most``: offsets of a micro-batch, all partitions together; ``least``: it waits for so many,
    ``delay_ms`` at most (0: no limit, no waiting)."""

    source: SourceOptions
    location: str
    most: int = 0
    least: int = 0
    delay_ms: int = 15 * 60_000
    asked: str = field(default="earliest")
    """The starting option as it was given, for the file in ``location``."""


def parse_stream_options(given: Mapping[str, str]) -> StreamOptions:
    """Read the options. UserError names the one that is wrong, and what would be right."""
    options = {name.lower(): value for name, value in given.items()}
    for name in _NOT_OF_A_STREAM:
        if name.lower() in options:
            raise UserError(f"a stream has no {name}", "it ends when the query is stopped")
    source, asked = _source(options)
    location = options.get(LOCATION.lower(), "").strip()
    if not location:
        raise UserError(
            f"a stream needs the option {LOCATION}",
            "give a folder that lives as long as the checkpoint, the checkpoint's own for instance",
        )
    most, least = _number(options, MOST), _number(options, LEAST)
    if most and least > most:
        raise UserError(f"{LEAST} is {least}, more than {MOST} {most}", "give a smaller one")
    return StreamOptions(source, location, most, least, _delay(options), asked)


def without_stream_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options that a batch read has, too."""
    own = {name.lower() for name in STREAM_OPTIONS}
    return {name: value for name, value in given.items() if name.lower() not in own}


def as_batch(given: Mapping[str, str]) -> SourceOptions:
    """What is common to both, where it is not known which one is meant: Spark asks for the schema
    before it says."""
    options = {name.lower(): value for name, value in given.items()}
    return _source(options)[0]


def _source(options: Mapping[str, str]) -> tuple[SourceOptions, str]:
    """As in Spark's Kafka source a stream begins at the end, unless an option says otherwise;
    records older than a starting timestamp that come later belong to it."""
    rest = without_stream_options(options)
    asked = rest.get("startingoffsets", "latest").strip()
    if asked.lower() == "latest":
        rest.pop("startingoffsets", None)
    timestamps = [name for name in rest if name.startswith("starting") and "timestamp" in name]
    if timestamps:
        asked = ", ".join(f"{name} {rest[name]}" for name in sorted(timestamps))
    source = parse_options(rest)
    if asked.lower() == "latest" and not timestamps:
        source = replace(source, starting=LATEST)
    with suppress(ValueError):
        asked = json.dumps(json.loads(asked), sort_keys=True)  # however it was written
    return source, asked


def _number(options: Mapping[str, str], name: str) -> int:
    text = options.get(name.lower())
    if text is None:
        return 0
    if text.strip().isdecimal() and int(text) > 0:
        return int(text)
    raise UserError(f"the option {name} is {text!r}", "give a whole number above zero")


def _delay(options: Mapping[str, str]) -> int:
    text = options.get(DELAY.lower(), "15m").strip().lower()
    found = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h)", text)
    if found is None:
        raise UserError(f"the option {DELAY} is {text!r}", f"give 15m, 30s or 500ms; {SEE}")
    return int(found[1]) * _UNITS[found[2]]
