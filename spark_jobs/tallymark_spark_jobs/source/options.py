"""The options of ``spark.read.format("tallymark")``: named and meant as Spark's Kafka source does.

Option names arrive in any case. An unknown option is an error here, where Spark's Kafka source
ignores it: a misspelt ``endingTimestamp`` would otherwise read a whole log without a warning.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from tallymark.errors import UserError
from tallymark.patterns import pattern_given
from tallymark.protocol.topic_partition import EARLIEST, LATEST
from tallymark_spark_jobs.source.avro.settings import AVRO_OPTIONS, AvroSettings, parse_avro
from tallymark_spark_jobs.source.declared import columns_of
from tallymark_spark_jobs.source.option_values import (
    SEE,
    Bound,
    Times,
    bound,
    flag,
    json_object,
    one_of,
    positive,
    times,
    timestamp,
)

if TYPE_CHECKING:
    from tallymark.client.core.security.security import SecuritySettings

__all__ = ["KNOWN", "SEE", "Bound", "SourceOptions", "declared_schema", "parse_options"]

Mode = Literal["records", "stamps", "runs", "cells"]
Isolation = Literal["read_uncommitted", "read_committed"]

MODES: Final[tuple[Mode, ...]] = ("records", "stamps", "runs", "cells")
COUNTED: Final[tuple[Mode, ...]] = ("runs", "cells")
ISOLATIONS: Final[tuple[Isolation, ...]] = ("read_uncommitted", "read_committed")

KNOWN: Final = (
    "kafka.bootstrap.servers",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingTimestamp",
    "endingLateness",
    "columns",
    "includeHeaders",
    "includeContentHash",
    "failOnDataLoss",
    "failOnCorruptBatch",
    "minPartitions",
    "maxRecordsPerPartition",
    "rowsPerPartition",
    "mode",
    "windowMs",
    "kafka.isolation.level",
    *AVRO_OPTIONS,
)
ROWS_PER_PARTITION: Final = 1_000_000
ENDING_LATENESS: Final = 3_600_000
WINDOW_MS: Final = 60_000
_MOST_WINDOW_MS: Final = 366 * 86_400_000


def _no_security() -> SecuritySettings:
    return {}


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
    starting_times: Times | None = None
    ending_times: Times | None = None
    fail_without_start: bool = False
    """A starting time that no record has reached is an error; else nothing is read."""
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    ending_lateness: int | None = ENDING_LATENESS
    """Records that stand behind the first one of ``ending_timestamp`` and so many ms more are not
    looked at; None: all are."""
    columns: tuple[str, ...] = ()
    """Those that are wanted; () all."""
    isolation: Isolation = "read_committed"
    include_headers: bool = False
    include_content_hash: bool = False
    fail_on_data_loss: bool = True
    fail_on_corrupt_batch: bool = True
    min_partitions: int = 1
    rows_per_partition: int = ROWS_PER_PARTITION
    mode: Mode = "records"
    avro: AvroSettings | None = None
    """How values are decoded; None: they stay bytes."""
    window_ms: int = WINDOW_MS
    """Of the cells that ``mode=runs`` and ``mode=cells`` count."""
    security: SecuritySettings = field(default_factory=_no_security, repr=False)


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Read the options. UserError names the one that is wrong, and what would be right."""
    options = {name.lower(): value for name, value in given.items()}
    _refuse_unknown(options)
    servers = options.get("kafka.bootstrap.servers", "").strip()
    if not servers:
        raise UserError("the option kafka.bootstrap.servers is missing", "give host:port[,...]")
    for end in ("starting", "ending"):
        _refuse_many(options, *(f"{end}{what}" for what in _BOUNDS))
    _refuse_many(options, "maxRecordsPerPartition", "rowsPerPartition")
    topics, pattern, assigned = _which_topics(options)
    return SourceOptions(
        bootstrap_servers=servers,
        security=_security(options),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        starting=bound(options, "startingOffsets", EARLIEST),
        ending=bound(options, "endingOffsets", LATEST),
        starting_times=times(options, "startingOffsetsByTimestamp"),
        ending_times=times(options, "endingOffsetsByTimestamp"),
        fail_without_start=_strategy(options),
        starting_timestamp=timestamp(options, "startingTimestamp"),
        ending_timestamp=timestamp(options, "endingTimestamp"),
        ending_lateness=_lateness(options),
        columns=_columns(options),
        isolation=_isolation(options),
        include_headers=flag(options, "includeHeaders", False),
        include_content_hash=flag(options, "includeContentHash", False),
        fail_on_data_loss=flag(options, "failOnDataLoss", True),
        fail_on_corrupt_batch=flag(options, "failOnCorruptBatch", True),
        min_partitions=positive(options, "minPartitions", 1),
        rows_per_partition=positive(
            options,
            "maxRecordsPerPartition",
            positive(options, "rowsPerPartition", ROWS_PER_PARTITION),
        ),
        mode=_mode(options),
        avro=parse_avro(options),
        window_ms=_window(options),
    )


_OWN: Final = frozenset({"kafka.bootstrap.servers", "kafka.isolation.level"})
_BOUNDS: Final = ("Offsets", "OffsetsByTimestamp", "Timestamp")


def declared_schema(options: SourceOptions) -> str:
    """The columns that are read, as Spark declares them."""
    there = columns_of(options.mode, options.include_headers, options.include_content_hash)
    return ", ".join(
        f"{name} {kind}"
        for name, kind in there.items()
        if not options.columns or name in options.columns
    )


def _refuse_unknown(options: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in KNOWN}
    unknown = [name for name in options if name not in known]
    if not unknown:
        return
    from tallymark.client.core.security.properties import PROPERTIES

    known |= {f"kafka.{name}".lower(): f"kafka.{name}" for name in PROPERTIES}
    for name in unknown:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            do = f"did you mean {known[near[0]]}?" if near else SEE
            raise UserError(f"the tallymark source has no option {name!r}", do)


def _security(options: Mapping[str, str]) -> SecuritySettings:
    """TLS and the log-in, by the names of Kafka's clients behind ``kafka.``, as Spark has it."""
    given = {
        name.removeprefix("kafka."): value
        for name, value in options.items()
        if name.startswith("kafka.") and name not in _OWN
    }
    if not given:
        return {}
    # Here: three of four processes of a job only ask for the schema, and load nothing of TLS.
    from tallymark.client.core.security.properties import security_of_properties

    return security_of_properties(given, "the options of the tallymark source")


def _refuse_many(options: Mapping[str, str], *names: str) -> None:
    given = [name for name in names if name.lower() in options]
    if len(given) > 1:
        told = " and ".join(given)
        raise UserError(f"the options {told} exclude each other", "give one of them")


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
        pattern_given("subscribePattern", text)
        return (), text, ()
    return (), "", _assigned(text)


def _assigned(text: str) -> tuple[tuple[str, int], ...]:
    """``{"topic": [0, 1]}``."""
    raw = json_object("assign", text)
    pairs = [(topic, number) for topic, numbers in raw.items() for number in _ints(topic, numbers)]
    if not pairs:
        raise UserError("the option assign names no partition", 'give {"topic": [0, 1]}')
    return tuple(pairs)


def _ints(topic: str, numbers: object) -> list[int]:
    if isinstance(numbers, list) and all(type(number) is int for number in numbers):
        return numbers
    raise UserError(f"the option assign wants a list of partitions for {topic}", SEE)


def _mode(options: Mapping[str, str]) -> Mode:
    return one_of(options, "mode", MODES, "records")


def _window(options: Mapping[str, str]) -> int:
    window = positive(options, "windowMs", WINDOW_MS)
    if window > _MOST_WINDOW_MS:
        raise UserError(f"the option windowMs is {window}", "give a year at most")
    return window


def _isolation(options: Mapping[str, str]) -> Isolation:
    return one_of(options, "kafka.isolation.level", ISOLATIONS, "read_committed")


def _strategy(options: Mapping[str, str]) -> bool:
    """Whether a starting time that no record has reached is an error: as in Spark's Kafka source if
    it is one for each partition, and not if it limits the records."""
    usual = "error" if "startingoffsetsbytimestamp" in options else "latest"
    name = "startingOffsetsByTimestampStrategy"
    return one_of(options, name, ("error", "latest"), usual) == "error"


def _lateness(options: Mapping[str, str]) -> int | None:
    name = "endingLateness"
    if options.get(name.lower(), "").strip().lower() == "all":
        return None
    found = timestamp(options, name, "give milliseconds, or all to read to the end")
    return ENDING_LATENESS if found is None else found


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """Their names in the order of the schema, which they keep."""
    text = options.get("columns")
    if text is None:
        return ()
    there = columns_of(
        _mode(options),
        flag(options, "includeHeaders", False),
        flag(options, "includeContentHash", False),
    )
    wanted = {name.strip().lower() for name in text.split(",") if name.strip()}
    unknown = sorted(wanted - {name.lower() for name in there})
    if unknown or not wanted:
        told = f"names {', '.join(unknown)}" if unknown else "is empty"
        raise UserError(f"the option columns {told}", f"there are {', '.join(there)}")
    return tuple(name for name in there if name.lower() in wanted)
