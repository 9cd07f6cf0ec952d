"""Where partitions are, and how their logs are kept: mostly defaults of topics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from tallymark.broker.settings.config_types import LONG_MAX, list_of
from tallymark.broker.settings.fields.part import Limit, Positive, SettingsPart
from tallymark.log.config import RecordValidation

WEEK_MS: Final = 7 * 24 * 3_600_000


def _policy(text: str) -> str:
    list_of("delete", "compact")(text)
    return text


def _gzip_level(value: int) -> int:
    if value != -1 and not 1 <= value <= 9:
        raise ValueError("must be from 1 to 9, or -1")
    return value


class LogFields(SettingsPart):
    """The rack, the folders, new topics, and the logs of partitions."""

    broker_rack: str = ""
    """The rack or zone of this broker; clients get it with the metadata."""

    log_dirs: tuple[Path, ...] = (Path("tallymark-data"),)
    """Folders of the partitions, comma separated. A new partition goes to the emptiest one
    (also: ``log.dir``)."""

    num_partitions: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Partitions of a topic created without a number."""

    default_replication_factor: Annotated[int, Field(ge=1, le=2**15 - 1)] = 1
    """Replicas of a partition of a topic created without a number. More than one needs level 1 of
    the feature ``replication.version``: until then such topics are refused."""

    auto_create_topics_enable: bool = True
    """Whether asking for the metadata of an unknown topic creates it."""

    delete_topic_enable: bool = True
    """Whether topics can be deleted."""

    log_cleanup_policy: Annotated[str, AfterValidator(_policy)] = "delete"
    """What becomes of old records: ``delete``, ``compact`` or both, comma separated
    (topic: ``cleanup.policy``)."""

    log_cleaner_enable: bool = True
    """Whether compacted topics are compacted, by a process of their own."""

    log_cleaner_backoff_ms: Positive = 15_000
    """How long the cleaner sleeps where no log is worth a compaction."""

    log_cleaner_dedupe_buffer_size: Annotated[int, Field(ge=1024, le=2**40)] = 134_217_728
    """Memory for the keys of the logs that are being compacted (four at most), about 200 bytes a
    key. One alone has three quarters of it; a log with more keys is compacted part by part."""

    log_cleaner_io_max_bytes_per_second: Limit = -1
    """The most that a compaction reads and writes in a second."""

    log_cleaner_min_cleanable_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    """A log is compacted when this share of it was written since the last time
    (topic: ``min.cleanable.dirty.ratio``)."""

    log_cleaner_min_compaction_lag_ms: Annotated[int, Field(ge=0, le=LONG_MAX)] = 0
    """A record younger than this is not compacted (topic: ``min.compaction.lag.ms``)."""

    log_cleaner_max_compaction_lag_ms: Positive = LONG_MAX
    """A record does not wait longer for its compaction (topic: ``max.compaction.lag.ms``)."""

    log_cleaner_delete_retention_ms: Annotated[int, Field(ge=0, le=LONG_MAX)] = 86_400_000
    """How long a tombstone stays after it was compacted first (topic: ``delete.retention.ms``)."""

    log_segment_bytes: Annotated[int, Field(ge=1024, le=2**31 - 1)] = 1024**3
    """A segment of the log is rolled at this size (topic: ``segment.bytes``)."""

    log_roll_ms: Positive = WEEK_MS
    """A segment is rolled at this age (topic: ``segment.ms``)."""

    log_segment_delete_delay_ms: Annotated[int, Field(ge=0, le=LONG_MAX)] = 60_000
    """How long the log of a replica that was moved to another broker stays on the disk, in a folder
    whose name ends in ``-stray``. What else is deleted goes at once."""

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

    replica_high_watermark_checkpoint_interval_ms: Positive = 5_000
    """How often the high watermarks of partitions are written to the data directories."""

    log_retention_ms: Limit = WEEK_MS
    """A segment whose newest record is older is deleted (topic: ``retention.ms``)."""

    log_retention_bytes: Limit = -1
    """The oldest segments of a partition above this size are deleted
    (topic: ``retention.bytes``)."""

    log_retention_check_interval_ms: Positive = 300_000
    """How often segments are looked over for retention."""

    log_flush_before_expose: bool = False
    """True: a message is shown to consumers after it is flushed (by the two settings above), and a
    producer with ``acks=all`` is answered then (topic: ``flush.before.expose``)."""

    log_message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    """Whose clock the timestamps of records are from: the producer's, or the broker's when it
    appends (topic: ``message.timestamp.type``)."""

    log_message_timestamp_before_max_ms: Annotated[int, Field(ge=0, le=LONG_MAX)] = LONG_MAX
    """A batch whose first timestamp is further behind the broker's clock is refused
    (topic: ``message.timestamp.before.max.ms``)."""

    log_message_timestamp_after_max_ms: Annotated[int, Field(ge=0, le=LONG_MAX)] = LONG_MAX
    """A batch with a timestamp further ahead of the broker's clock is refused. Kafka 4 has an hour
    here, Kafka 3 no limit (topic: ``message.timestamp.after.max.ms``)."""

    message_max_bytes: Annotated[int, Field(ge=0, le=2**31 - 1)] = 1_048_588
    """The largest record batch accepted (topic: ``max.message.bytes``)."""

    message_max_bytes_unpacked: bool = False
    """Whether ``max.message.bytes`` also bounds what a compressed batch holds when it is unpacked,
    where the broker does that (``record.validation=full``, compacted topics, limits on timestamps,
    ``compression.type``). false, as in Kafka: there it may hold 16 times that, and 16 MiB at
    least."""

    record_validation: RecordValidation = "lengths"
    """Whether records are what they claim to be. ``lengths``: the records of batches that are not
    compressed are walked over (those of the first 20 KB with the compiled kernel, ``make kernel``;
    without it the first one), those of compressed ones are counted against their bytes. ``full``:
    every batch is unpacked, and every record checked. ``header``: the header and the CRC alone.
    What is not right is INVALID_RECORD, with the place of the record."""

    min_insync_replicas: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    """So many replicas have a record before a producer with ``acks=all`` is answered; a partition
    has one, so this changes nothing (topic: ``min.insync.replicas``)."""

    compression_type: Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"] = (
        "producer"
    )
    """The codec that batches are stored in; ``producer``: as they came
    (topic: ``compression.type``)."""

    compression_gzip_level: Annotated[int, AfterValidator(_gzip_level)] = -1
    """How hard gzip tries, 1 to 9, -1: its default (topic: ``compression.gzip.level``)."""

    compression_zstd_level: Annotated[int, Field(ge=-131_072, le=22)] = 3
    """How hard zstd tries (topic: ``compression.zstd.level``)."""

    producer_id_expiration_ms: Positive = 86_400_000
    """The sequence memory of an idempotent producer that is idle so long is forgotten."""
