"""A broker's settings from a file of ``name=value`` lines: Apache Kafka's ``server.properties``.

::

    # a comment              ! another
    log.dirs=/data/a,\\
             /data/b         a backslash continues on the next line
    num.partitions = 4

Kafka's own files work: names for the same setting in another unit are converted, names that have
no effect here are logged and skipped, and a setting that requires a missing feature is an error.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tallymark.broker.settings.names import kafka_name
from tallymark.errors import UserError
from tallymark.java_properties import pairs

HOUR_MS: Final = 3_600_000
UNITS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", HOUR_MS)),
    "log.roll.ms": (("log.roll.hours", HOUR_MS),),
}
"""Settings with older names in other units; the first name that is set is used, as in Kafka."""

_OS: Final = "the operating system chooses"
_LOOP: Final = "one event loop does all"
_INDEX: Final = "an index takes 8 bytes for each log.index.interval.bytes"
_AGE: Final = "a segment's age counts from its first record"
_DISKS: Final = "records are on the broker's disks only"
_DIRECTORIES: Final = "nothing moves between directories"
_CLEANER: Final = "one process compacts, in log.cleaner.dedupe.buffer.size"
_WAITING: Final = "a request that was answered leaves nothing behind"
_QUOTA: Final = "a quota is an account of bytes, without samples"
_METRICS: Final = "metrics are at metrics.port"
_FORMAT: Final = "requests carry versions, and records have format 2"

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "num.network.threads": _LOOP,
    "num.io.threads": _LOOP,
    "background.threads": _LOOP,
    "group.coordinator.threads": _LOOP,
    "queued.max.requests": "requests are bounded by connection",
    "socket.send.buffer.bytes": _OS,
    "socket.receive.buffer.bytes": _OS,
    "replica.socket.receive.buffer.bytes": _OS,
    "num.recovery.threads.per.data.dir": "logs are recovered one after the other",
    "compression.lz4.level": "the encoder in use has one level",
    "log.preallocate": "segments grow as they are written",
    "log.index.size.max.bytes": _INDEX,
    "log.roll.jitter.ms": _AGE,
    "log.roll.jitter.hours": _AGE,
    "log.local.retention.ms": _DISKS,
    "log.local.retention.bytes": _DISKS,
    "log.cleaner.threads": _CLEANER,
    "log.cleaner.io.buffer.size": _CLEANER,
    "log.cleaner.io.buffer.load.factor": _CLEANER,
    "num.replica.alter.log.dirs.threads": _DIRECTORIES,
    "replica.alter.log.dirs.io.max.bytes.per.second": _DIRECTORIES,
    "fetch.purgatory.purge.interval.requests": _WAITING,
    "producer.purgatory.purge.interval.requests": _WAITING,
    "delete.records.purgatory.purge.interval.requests": _WAITING,
    "quota.window.num": _QUOTA,
    "quota.window.size.seconds": _QUOTA,
    "replication.quota.window.num": _QUOTA,
    "replication.quota.window.size.seconds": _QUOTA,
    "metric.reporters": _METRICS,
    "auto.include.jmx.reporter": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "metrics.recording.level": _METRICS,
    "inter.broker.protocol.version": _FORMAT,
    "log.message.format.version": _FORMAT,
    "log.message.downconversion.enable": _FORMAT,
}
"""Names in Kafka's files that have no effect here -> the reason."""


class Read(NamedTuple):
    """The content of a file: settings by name, and names that have no effect, with the reason."""

    values: dict[str, str]
    skipped: dict[str, str]


def read_properties(text: str, file: str) -> Read:
    """Parse a file. ``file`` is its name, for errors. Raises UserError with the line that is no
    setting, or is repeated. :func:`~tallymark.broker.settings.text.parse` checks the remaining
    names and values."""
    values = pairs(text, file, kafka_name)
    skipped = {name: WITHOUT_EFFECT[name] for name in values if name in WITHOUT_EFFECT}
    for name in skipped:
        del values[name]
    _convert(values, file)
    return Read(values, skipped)


def _convert(values: dict[str, str], file: str) -> None:
    for target, others in UNITS.items():
        for name, factor in others:
            value = values.pop(name, None)
            if value is None or target in values:
                continue
            try:
                number = int(value)
            except ValueError:
                raise UserError(f"{file}: {name}={value[:40]} is not a number") from None
            values[target] = str(number * factor if number >= 0 else -1)
