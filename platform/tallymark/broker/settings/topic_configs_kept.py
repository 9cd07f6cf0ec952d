"""Configs of topics in Kafka 4.1 that have no effect here. They are checked as in Kafka, stored and
described, so that tools that set them work. Pure."""

from __future__ import annotations

from typing import Final

from tallymark.broker.settings.config_types import (
    INT_MAX,
    LONG_MAX,
    ConfigType,
    between,
    boolean,
    only,
)
from tallymark.broker.settings.topic_config import TopicConfig

_ONE_REPLICA: Final = "a partition has one replica"
_NO_TIERS: Final = "records are on this broker's disks only"

WITHOUT_EFFECT: Final = (
    TopicConfig(
        "compression.lz4.level",
        ConfigType.INT,
        between(1, 17),
        "How hard lz4 tries where compression.type says lz4.",
        default="9",
        without_effect="the encoder in use has one level",
    ),
    TopicConfig(
        "file.delete.delay.ms",
        ConfigType.LONG,
        between(0, LONG_MAX),
        "How long the file of a deleted segment stays.",
        default="60000",
        without_effect="files go at once, readers keep what they hold",
    ),
    TopicConfig(
        "local.retention.bytes",
        ConfigType.LONG,
        between(-2, LONG_MAX),
        "Like retention.bytes, of what is not only in remote storage; -2: retention.bytes.",
        default="-2",
        without_effect=_NO_TIERS,
    ),
    TopicConfig(
        "local.retention.ms",
        ConfigType.LONG,
        between(-2, LONG_MAX),
        "Like retention.ms, of what is not only in remote storage; -2: retention.ms.",
        default="-2",
        without_effect=_NO_TIERS,
    ),
    TopicConfig(
        "min.insync.replicas",
        ConfigType.INT,
        between(1, INT_MAX),
        "So many replicas have a record before a producer with acks=all is answered; a partition "
        "with fewer replicas asks for all it has.",
        setting="min_insync_replicas",
        without_effect="a partition has one replica, which is in sync with itself",
    ),
    TopicConfig(
        "preallocate",
        ConfigType.BOOLEAN,
        boolean,
        "Whether a segment's file has its full size from the beginning.",
        default="false",
        without_effect="segments grow as they are written",
    ),
    TopicConfig(
        "remote.log.copy.disable",
        ConfigType.BOOLEAN,
        boolean,
        "Whether nothing more is copied to remote storage.",
        default="false",
        without_effect=_NO_TIERS,
    ),
    TopicConfig(
        "remote.log.delete.on.disable",
        ConfigType.BOOLEAN,
        boolean,
        "Whether what is in remote storage is deleted when that is switched off.",
        default="false",
        without_effect=_NO_TIERS,
    ),
    TopicConfig(
        "remote.storage.enable",
        ConfigType.BOOLEAN,
        only(False, _NO_TIERS),
        "Whether old segments are kept in remote storage; only false is possible.",
        default="false",
        without_effect=_NO_TIERS,
    ),
    TopicConfig(
        "segment.index.bytes",
        ConfigType.INT,
        between(4, INT_MAX),
        "How large the index of a segment may become.",
        default="10485760",
        without_effect="an index takes 8 bytes for each index.interval.bytes of its segment",
    ),
    TopicConfig(
        "segment.jitter.ms",
        ConfigType.LONG,
        between(0, LONG_MAX),
        "A segment is rolled up to so much earlier, at random.",
        default="0",
        without_effect="a segment's age counts from its first record, so they differ by themselves",
    ),
)
"""Rows of :data:`tallymark.broker.settings.topic_configs.RULES`."""
