"""The high watermarks of all logs of a broker, as far as its data directories keep them: one file
in each (:class:`~tallymark.log.disk.kept_offsets.HighWatermarks`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tallymark.errors import KafkaError
from tallymark.log.disk.data_dir import DataDir
from tallymark.log.disk.health import guarded
from tallymark.log.disk.kept_offsets import HIGH_WATERMARKS
from tallymark.log.disk.partition_folder import LogKey

log = logging.getLogger(__name__)


class KnownHighWatermarks:
    """``dirs`` and ``homes`` (the directory of each log) belong to the log manager, which changes
    them. Any thread may call the methods."""

    def __init__(self, dirs: Sequence[DataDir], homes: Mapping[LogKey, DataDir]) -> None:
        self._dirs = dirs
        self._homes = homes

    def of(self, topic: str, partition: int) -> int:
        """The partition's high watermark as it was noted last, here or before the start; 0 where it
        never was."""
        home = self._homes.get(LogKey(topic, partition))
        return 0 if home is None else home.high_watermarks.get(LogKey(topic, partition))

    def note(self, topic: str, partition: int, offset: int) -> None:
        """It is ``offset`` now; on the disk after :meth:`save`. No effect without a log."""
        home = self._homes.get(LogKey(topic, partition))
        if home is not None:
            home.high_watermarks.put(LogKey(topic, partition), offset)

    def save(self) -> None:
        """Write what was noted. A disk that fails is offline then; a full one is tried again with
        the next call."""
        for home in tuple(self._dirs):
            if home.health.error is None:
                with suppress(KafkaError), guarded(home.health, f"checkpoint {home.path}"):
                    home.high_watermarks.save()

    def lower(self, topic: str, partition: int, offset: int) -> None:
        """The log will be cut at ``offset``: what is noted is not above it, durably on return.
        Costs nothing where it is not. Raises KAFKA_STORAGE_ERROR."""
        key = LogKey(topic, partition)
        home = self._homes.get(key)
        if home is not None and home.high_watermarks.get(key) > offset:
            home.high_watermarks.put(key, offset)
            with guarded(home.health, f"lower the high watermark of {key}"):
                home.high_watermarks.save()

    def settle(self, home: DataDir, ends: Mapping[LogKey, int | None]) -> None:
        """A start has found these logs in a directory, which end there (None: one that cannot be
        opened). Raises KAFKA_STORAGE_ERROR where the disk fails."""
        if ends and home.high_watermarks.is_missing:
            log.info("%s has no %s: replicated logs ask their leader", home.path, HIGH_WATERMARKS)
        if not home.high_watermarks.settle(ends):
            return
        try:
            with guarded(home.health, f"lower high watermarks of {home.path}"):
                home.high_watermarks.save()
        except KafkaError as error:
            home.health.check(home.path)
            log.warning("%s; tried again with the next checkpoint", error)
