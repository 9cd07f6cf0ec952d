"""The rules for names and configs of topics: one table of every config. Pure.

The table serves validation, DescribeConfigs and the documentation. It has all configs of Kafka 4.1;
those without an effect here are in :mod:`tallymark.broker.settings.topic_configs_kept`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.config_types import (
    INT_MAX,
    LONG_MAX,
    ConfigType,
    ConfigValue,
    between,
    boolean,
    level,
    list_of,
    one_of,
    ratio,
    throttled_replicas,
)
from tallymark.broker.settings.topic_config import TopicConfig, table
from tallymark.broker.settings.topic_configs_kept import WITHOUT_EFFECT
from tallymark.errors import CODES, KafkaError
from tallymark.log.config import LogConfig
from tallymark.protocol.topic_partition import NAME_RULE

MAX_PARTITIONS: Final = 10_000
_CODECS: Final[Mapping[str, str | None]] = {"producer": None, "uncompressed": "none"}
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION unless the name is 1 to 249 of ``a-z A-Z 0-9 . _ -`` and not
    ``.`` or ``..`` (it becomes a folder and a ZooKeeper node)."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        code = CODES["INVALID_TOPIC_EXCEPTION"]
        raise KafkaError(code, f"{name[:80]!r} is not {NAME_RULE}")


def check_partitions(count: int) -> None:
    """Raise INVALID_PARTITIONS unless 1 to 10,000."""
    if not 1 <= count <= MAX_PARTITIONS:
        raise KafkaError(
            CODES["INVALID_PARTITIONS"], f"{count} partitions, 1 to {MAX_PARTITIONS} are possible"
        )


def check_total(count: int) -> None:
    """Raise POLICY_VIOLATION for more than 10,000 partitions in one request, as Kafka does: the
    request would take too long, and its response would be too large."""
    if count > MAX_PARTITIONS:
        raise KafkaError(
            CODES["POLICY_VIOLATION"],
            f"{count} partitions in one request, {MAX_PARTITIONS} are possible",
        )


def log_config(settings: BrokerSettings, overrides: Mapping[str, str]) -> LogConfig:
    """The configuration of a topic's logs: its own configs where given, else the broker's settings.

    A topic that is only compacted has no retention: deletion by age would lose the last value of a
    key. Raises INVALID_CONFIG naming the wrong config.
    """
    values = topic_values(settings, overrides)
    fields: dict[str, Any] = {row.field: values[name] for name, row in RULES.items() if row.field}
    policy = policies(values)
    if "delete" not in policy:
        fields |= {"retention_ms": -1, "retention_bytes": -1}
    if "compact" in policy:  # the active segment is not compacted: it must not stay active longer
        fields["segment_ms"] = min(fields["segment_ms"], fields["max_compaction_lag_ms"])
    return LogConfig(
        **fields,
        delete="delete" in policy,
        compact="compact" in policy,
        codec=_CODECS.get(str(values["compression.type"]), str(values["compression.type"])),
        codec_level=_level(values),
        log_append_time=values["message.timestamp.type"] == "LogAppendTime",
        producer_id_expiration_ms=settings.producer_id_expiration_ms,
        record_validation=settings.record_validation,
        bound_unpacked=settings.message_max_bytes_unpacked,
    )


def _level(values: Mapping[str, ConfigValue]) -> int | None:
    """The compression level of the topic's codec, None for its default."""
    codec = values["compression.type"]
    if codec == "gzip" and values["compression.gzip.level"] != -1:
        return int(str(values["compression.gzip.level"]))
    return int(str(values["compression.zstd.level"])) if codec == "zstd" else None


def topic_values(settings: BrokerSettings, overrides: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Every config of a topic with its value in force. Raises INVALID_CONFIG naming the wrong
    one."""
    given = {name: value_of(name, text) for name, text in overrides.items()}
    return {
        name: given[name] if name in given else row.rule(row.inherited(settings))
        for name, row in RULES.items()
    }


def policies(values: Mapping[str, ConfigValue]) -> tuple[str, ...]:
    """``cleanup.policy`` of :func:`topic_values`: ``delete``, ``compact`` or both."""
    policy = values["cleanup.policy"]
    assert isinstance(policy, tuple)
    return policy


def understood(overrides: Mapping[str, str]) -> dict[str, str]:
    """The configs of a topic that this broker knows. Another kind of broker may have written the
    stored ones: an unknown config must not make the partition unavailable."""
    known: dict[str, str] = {}
    for name, text in overrides.items():
        try:
            value_of(name, text)
        except KafkaError:
            continue
        known[name] = text
    return known


def value_of(name: str, text: str) -> ConfigValue:
    """The value of one config. Raises INVALID_CONFIG, with the nearest name for an unknown one."""
    try:
        return rule_of(name).rule(text.strip())
    except ValueError as error:
        raise KafkaError(CODES["INVALID_CONFIG"], f"{name}={text[:80]!r}: {error}") from None


def rule_of(name: str) -> TopicConfig:
    """The row of a config. Raises INVALID_CONFIG, with the nearest name for an unknown one."""
    row = RULES.get(name)
    if row is None:
        near = difflib.get_close_matches(name[:80], RULES, n=1, cutoff=0.5)
        hint = f", did you mean {near[0]}?" if near else ""
        raise KafkaError(CODES["INVALID_CONFIG"], f"unknown topic config {name[:80]!r}{hint}")
    return row


RULES: Final[Mapping[str, TopicConfig]] = table(
    *WITHOUT_EFFECT,
    TopicConfig(
        "cleanup.policy",
        ConfigType.LIST,
        list_of("delete", "compact"),
        "delete: old segments go by retention; compact: the last record of each key stays; both: "
        "records are compacted and go by retention.",
        setting="log_cleanup_policy",
    ),
    TopicConfig(
        "compression.gzip.level",
        ConfigType.INT,
        level(1, 9),
        "How hard gzip tries where compression.type says gzip, 1 to 9; -1: gzip's default.",
        setting="compression_gzip_level",
    ),
    TopicConfig(
        "compression.type",
        ConfigType.STRING,
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "producer: batches are stored as the producer compressed them. Any other: those that come "
        "otherwise are compressed anew by the broker, which takes its processor time.",
        setting="compression_type",
    ),
    TopicConfig(
        "compression.zstd.level",
        ConfigType.INT,
        between(-131_072, 22),
        "How hard zstd tries where compression.type says zstd.",
        setting="compression_zstd_level",
    ),
    TopicConfig(
        "delete.retention.ms",
        ConfigType.LONG,
        between(0, LONG_MAX),
        "How long the tombstone of a key stays in a compacted log after it was compacted first.",
        field="delete_retention_ms",
        setting="log_cleaner_delete_retention_ms",
    ),
    TopicConfig(
        "flush.before.expose",
        ConfigType.BOOLEAN,
        boolean,
        "A message is shown to consumers after it is flushed, and a producer with acks=all is "
        "answered then.",
        field="flush_before_expose",
        setting="log_flush_before_expose",
    ),
    TopicConfig(
        "flush.messages",
        ConfigType.LONG,
        between(1, LONG_MAX),
        "A partition is flushed to the disk after so many messages.",
        field="flush_messages",
        setting="log_flush_interval_messages",
    ),
    TopicConfig(
        "flush.ms",
        ConfigType.LONG,
        between(1, LONG_MAX),
        "A partition is flushed when a message has waited so long for it.",
        field="flush_ms",
        setting="log_flush_interval_ms",
    ),
    TopicConfig(
        "follower.replication.throttled.replicas",
        ConfigType.LIST,
        throttled_replicas,
        "partition:broker,... or *: replicas that are copied at follower.replication.throttled.rate"
        " of their broker at most, while they are out of sync.",
    ),
    TopicConfig(
        "index.interval.bytes",
        ConfigType.INT,
        between(1, INT_MAX),
        "Bytes of log between two entries of the sparse indexes.",
        field="index_interval_bytes",
        setting="log_index_interval_bytes",
    ),
    TopicConfig(
        "leader.replication.throttled.replicas",
        ConfigType.LIST,
        throttled_replicas,
        "partition:broker,... or *: where the broker leads, replicas that are out of sync get "
        "leader.replication.throttled.rate of that broker at most.",
    ),
    TopicConfig(
        "max.message.bytes",
        ConfigType.INT,
        between(0, INT_MAX),
        "The largest record batch that is accepted.",
        field="max_message_bytes",
        setting="message_max_bytes",
    ),
    TopicConfig(
        "max.compaction.lag.ms",
        ConfigType.LONG,
        between(1, LONG_MAX),
        "A record of a compacted log does not wait longer for its compaction.",
        field="max_compaction_lag_ms",
        setting="log_cleaner_max_compaction_lag_ms",
    ),
    TopicConfig(
        "message.timestamp.type",
        ConfigType.STRING,
        one_of("CreateTime", "LogAppendTime"),
        "Whose clock the timestamps of records are from: the producer's, or the broker's when it "
        "appends.",
        setting="log_message_timestamp_type",
    ),
    TopicConfig(
        "message.timestamp.before.max.ms",
        ConfigType.LONG,
        between(0, LONG_MAX),
        "A batch whose first timestamp is further behind the broker's clock is refused.",
        field="timestamp_before_max_ms",
        setting="log_message_timestamp_before_max_ms",
    ),
    TopicConfig(
        "message.timestamp.after.max.ms",
        ConfigType.LONG,
        between(0, LONG_MAX),
        "A batch with a timestamp further ahead of the broker's clock is refused.",
        field="timestamp_after_max_ms",
        setting="log_message_timestamp_after_max_ms",
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio",
        ConfigType.DOUBLE,
        ratio,
        "A log is compacted when this share of it was written since the last time.",
        field="min_cleanable_dirty_ratio",
        setting="log_cleaner_min_cleanable_ratio",
    ),
    TopicConfig(
        "min.compaction.lag.ms",
        ConfigType.LONG,
        between(0, LONG_MAX),
        "A record younger than this is not compacted.",
        field="min_compaction_lag_ms",
        setting="log_cleaner_min_compaction_lag_ms",
    ),
    TopicConfig(
        "retention.bytes",
        ConfigType.LONG,
        between(-1, LONG_MAX),
        "The oldest segments of a partition above this size are deleted; -1: no limit.",
        field="retention_bytes",
        setting="log_retention_bytes",
    ),
    TopicConfig(
        "retention.ms",
        ConfigType.LONG,
        between(-1, LONG_MAX),
        "A segment whose newest record is older is deleted; -1: no limit.",
        field="retention_ms",
        setting="log_retention_ms",
    ),
    TopicConfig(
        "segment.bytes",
        ConfigType.INT,
        between(1024, INT_MAX),
        "A segment of the log is rolled at this size.",
        field="segment_bytes",
        setting="log_segment_bytes",
    ),
    TopicConfig(
        "segment.ms",
        ConfigType.LONG,
        between(1, LONG_MAX),
        "A segment of the log is rolled at this age.",
        field="segment_ms",
        setting="log_roll_ms",
    ),
    TopicConfig(
        "unclean.leader.election.enable",
        ConfigType.BOOLEAN,
        boolean,
        "Whether a replica that lacks records may become leader where no other is left; these "
        "records are lost then. Only partitions with several replicas.",
        setting="unclean_leader_election_enable",
    ),
)
"""Every topic config that is understood, by name in order."""
