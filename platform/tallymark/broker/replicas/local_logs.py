"""The logs of this broker as a registration needs them: where each ends, and whether it is intact.

A log is *intact* when it has all that this broker ever reported to others: one that is flushed
first, with ``flush.before.expose``, always is (:mod:`tallymark.log.disk.flushed_first`). The page
cache survives the end of a process, not that of the machine. So at a start the logs of a directory
are intact after a clean stop, or when the kernel is the one of then::

    .kafka_cleanshutdown    the marker of a clean stop
    .tallymark_boot         the boot id under which the logs were open, that of
                            /proc/sys/kernel/random/boot_id; zeros from when they were found
                            not to be intact until the nodes show that

From the moment when the present boot is written there, the logs stay intact as long as the process
lives, in every later session: nothing is lost below a process that runs. A log on a disk that has
failed is not there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from tallymark.errors import KafkaError
from tallymark.log import Files, Log, LogManager
from tallymark.log.disk.data_dir import DataDir
from tallymark.log.disk.files import write_file
from tallymark.log.disk.health import guarded
from tallymark.log.disk.partition_folder import LogKey
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import UNKNOWN_EPOCH, Tail
from tallymark.replication.registration import (
    NOT_INTACT,
    LocalLog,
    decode_boot,
    encode_boot,
    is_intact,
)

log: Final = logging.getLogger(__name__)
BOOT_FILE: Final = ".tallymark_boot"


class LocalLogs:
    """The :class:`~tallymark.coordination.replicas.starting.LocalReplicas` of a broker whose logs
    are in ``manager``. ``boot_id`` is that of the kernel, "" where it is not known: then only a
    clean stop leaves logs intact. Made right after the logs were opened; blocks."""

    def __init__(self, manager: LogManager, files: Files, boot_id: str) -> None:
        self._manager = manager
        self._files = files
        self._boot_id = boot_id
        self._intact: dict[str, bool] = {}
        self._flushed_first = {key for key in manager if manager.flushed_first.holds(key)}
        """Of the process before: settings may be others by now."""
        for home in manager.homes:
            then = self._boot_of(home.path)
            self._intact[home.path] = is_intact(
                clean=home.stopped_cleanly, boot_then=then, boot_now=boot_id, flushed_first=False
            )
            if not self._intact[home.path] and home.population:
                # A clean stop before the nodes show it leaves the marker of a clean stop, too.
                self._remember(home, NOT_INTACT)
                log.warning(
                    "the logs in %s may lack what was written last: the machine stopped without a"
                    " flush (%s)",
                    home.path,
                    f"boot {then} then, {boot_id} now" if then else "the boot of then is not known",
                )

    def logs(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LocalLog]:
        """Where they end, and whether they are intact; without those that are not here."""
        found: dict[TopicPartition, LocalLog] = {}
        for key in partitions:
            home, here = self._manager.home_of(*key), self._manager.get(*key)
            if home is not None and here is not None and home.health.error is None:
                was_first = LogKey(*key) in self._flushed_first
                intact = was_first or self._intact.get(home.path, False)
                found[key] = LocalLog(tail_of(here), intact)
        return found

    def remember_boot(self) -> None:
        """Write the boot id into every directory, durably. A disk that fails is offline then: its
        logs are not here any more."""
        for home in self._manager.homes:
            self._remember(home, self._boot_id)
            self._intact[home.path] = True

    def _remember(self, home: DataDir, boot: str) -> None:
        path = f"{home.path}/{BOOT_FILE}"
        with suppress(KafkaError), guarded(home.health, f"note the boot in {home.path}"):
            known = self._boot_of(home.path)
            if boot and known != boot:
                write_file(self._files, path, encode_boot(boot))
            elif not boot and known:  # of a kernel that does not tell it
                self._files.remove(path)
                self._files.sync_dir(home.path)

    def _boot_of(self, folder: str) -> str:
        """ "" where it is not known."""
        path = f"{folder}/{BOOT_FILE}"
        try:
            if not self._files.exists(path):
                return ""
            return decode_boot(self._files.read(path))
        except OSError as error:
            log.warning("%s cannot be read: %s", path, error)
            return ""


def tail_of(here: Log) -> Tail:
    """The epoch of the log's last record and the offset behind it. An epoch that has begun at the
    end of the log has no record yet: it says nothing about what the log has."""
    end = here.end_offset
    written = [epoch for epoch, begin in here.epochs if begin < end]
    return Tail(max(written, default=UNKNOWN_EPOCH), end)
