"""The settings of one broker: a frozen class whose fields are its reference manual.

A field ``log_segment_bytes`` is the setting ``log.segment.bytes``; its docstring is its
documentation, and :func:`reference` prints them all (``tallymark broker --help-settings``).
Settings come from Kafka's names (:func:`parse`, for settings files) or from keywords
(``BrokerSettings(num_partitions=4)``, in Python).
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tallymark.errors import UserError

LONG_MAX: Final = 2**63 - 1
WEEK_MS: Final = 7 * 24 * 3_600_000

Positive = Annotated[int, Field(ge=1, le=LONG_MAX)]
Limit = Annotated[int, Field(ge=-1, le=LONG_MAX)]
Port = Annotated[int, Field(ge=0, le=65535)]

WILDCARDS: Final = ("0.0.0.0", "::", "")

OTHER_NAMES: Final = {"broker.id": "node.id", "log.dir": "log.dirs"}
"""Older names of Kafka that mean the same setting."""


def kafka_name(field: str) -> str:
    """``log_segment_bytes`` -> ``log.segment.bytes``."""
    return field.replace("_", ".")


class BrokerSettings(BaseModel):
    """All settings of a broker. Times are milliseconds, sizes bytes, -1 means no limit."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=kafka_name,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    node_id: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """The broker's number, unique in its cluster (also: ``broker.id``)."""

    host_name: str = "127.0.0.1"
    """The address to listen on. Loopback unless you say otherwise."""

    port: Port = 9092
    """The port to listen on; 0 takes any free one."""

    advertised_host_name: str = ""
    """The host that clients are told to connect to; empty: ``host.name``. Needed where that is a
    wildcard like 0.0.0.0, which no client can connect to."""

    advertised_port: Port = 0
    """The port that clients are told to connect to; 0: the one listened on."""

    log_dirs: tuple[Path, ...] = (Path("tallymark-data"),)
    """Folders of the partitions, comma separated. A new partition goes to the emptiest one
    (also: ``log.dir``)."""

    num_partitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Partitions of a topic created without a number."""

    auto_create_topics_enable: bool = True
    """Whether asking for the metadata of an unknown topic creates it."""

    log_segment_bytes: Annotated[int, Field(ge=1024, le=2**31 - 1)] = 1024**3
    """A segment of the log is rolled at this size (topic: ``segment.bytes``)."""

    log_roll_ms: Positive = WEEK_MS
    """A segment is rolled at this age (topic: ``segment.ms``)."""

    log_index_interval_bytes: Positive = 4096
    """Bytes of log between two entries of the sparse index (topic: ``index.interval.bytes``)."""

    log_flush_interval_messages: Positive = LONG_MAX
    """A partition is flushed to the disk after so many messages (topic: ``flush.messages``)."""

    log_flush_interval_ms: Positive = 3000
    """A partition is flushed when a message has waited so long for it (topic: ``flush.ms``)."""

    log_flush_scheduler_interval_ms: Positive = 500
    """How often partitions are looked over for a flush that is due."""

    log_flush_offset_checkpoint_interval_ms: Positive = 60_000
    """How often it is noted up to where partitions are flushed; a start after a crash verifies
    what lies behind that."""

    log_retention_ms: Limit = WEEK_MS
    """A segment whose newest record is older is deleted (topic: ``retention.ms``)."""

    log_retention_bytes: Limit = -1
    """The oldest segments of a partition above this size are deleted
    (topic: ``retention.bytes``)."""

    log_retention_check_interval_ms: Positive = 300_000
    """How often segments are looked over for retention."""

    message_max_bytes: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1_048_588
    """The largest record batch accepted (topic: ``max.message.bytes``)."""

    producer_id_expiration_ms: Positive = 86_400_000
    """The sequence memory of an idempotent producer that is idle so long is forgotten."""

    fetch_max_bytes: Annotated[int, Field(ge=1024, le=2**31 - 1)] = 57_671_680
    """The most bytes that one fetch is answered with, whatever it asks for."""

    socket_request_max_bytes: Annotated[int, Field(ge=64, le=2**31 - 1)] = 104_857_600
    """A request that announces more bytes closes its connection."""

    max_connections: Positive = 10_000
    """Connections beyond this number are closed at once."""

    offsets_topic_num_partitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Partitions of ``__consumer_offsets``, fixed when it is created. One here, Kafka has 50."""

    offset_metadata_max_bytes: Annotated[int, Field(ge=0, le=32_767)] = 4096
    """The longest text that may go with a committed offset."""

    enable_zookeeper: bool = True
    """False: this broker is a cluster of its own and needs no ZooKeeper (tests, laptops)."""

    zookeeper_connect: str = "127.0.0.1:2181"
    """``host:port[,host:port...][/chroot]`` of the ZooKeeper ensemble of the cluster."""

    zookeeper_session_timeout_ms: Annotated[int, Field(ge=1000, le=3_600_000)] = 6000
    """Silence after which ZooKeeper gives up a broker, and its registration goes."""

    zookeeper_connection_timeout_ms: Annotated[int, Field(ge=100, le=3_600_000)] = 15_000
    """How long a starting broker waits for ZooKeeper."""

    @model_validator(mode="after")
    def _clients_can_connect(self) -> Self:
        if self.host_name in WILDCARDS and not self.advertised_host_name:
            raise ValueError(f"host.name={self.host_name} needs advertised.host.name")
        return self

    @model_validator(mode="after")
    def _there_is_a_folder(self) -> Self:
        if not self.log_dirs:
            raise ValueError("log.dirs names no folder")
        return self


def parse(values: Mapping[str, Any]) -> BrokerSettings:
    """Settings from a mapping of Kafka's names (or field names) to text, numbers or booleans.

    Raises UserError that names each wrong setting; an unknown one comes with the nearest name.
    """
    known = {kafka_name(field): field for field in BrokerSettings.model_fields}
    found: dict[str, Any] = {}
    for given, value in values.items():
        name = kafka_name(given)
        name = OTHER_NAMES.get(name, name)
        if name not in known:
            raise _unknown(given, sorted(known))
        found[known[name]] = _paths(value) if name == "log.dirs" else value
    try:
        return BrokerSettings.model_validate(found)
    except ValidationError as error:
        wrong = "; ".join(
            f"{kafka_name(str(item['loc'][0]))}={item['input']!r}: {item['msg']}"
            if item["loc"]
            else item["msg"].removeprefix("Value error, ")
            for item in error.errors()
        )
        raise UserError(
            f"broker settings: {wrong}", "see tallymark broker --help-settings"
        ) from error


def _unknown(name: str, known: list[str]) -> UserError:
    near = difflib.get_close_matches(kafka_name(name), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return UserError(
        f"there is no broker setting {name!r}", f"{hint}tallymark broker --help-settings lists all"
    )


def _paths(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(Path(part.strip()) for part in value.split(",") if part.strip())
    return (value,) if isinstance(value, Path) else value


def reference() -> str:
    """The reference page: every setting with its default and what it does."""
    blocks: list[str] = []
    for field, info in BrokerSettings.model_fields.items():
        text = " ".join((info.description or "").replace("``", "").split())
        blocks.append(f"{kafka_name(field)} = {_shown(info.default)}\n    {text}")
    return "\n\n".join(blocks) + "\n"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return '""' if value == "" else str(value)


def log_effective(settings: BrokerSettings, log: logging.Logger) -> None:
    """One line with every setting that differs from its default."""
    changed = settings.model_dump(exclude_defaults=True)
    text = " ".join(f"{kafka_name(name)}={_shown(value)}" for name, value in changed.items())
    log.info("settings: %s", text or "all defaults")
