"""One data directory of a broker: its owner, its lock, and how the last run ended.

::

    .lock                               held while a broker runs; says which
    meta.properties                     cluster.id and broker.id: whose data this is
    .kafka_cleanshutdown                there while stopped cleanly; without it logs are verified
    recovery-point-offset-checkpoint    topic, partition, offset: everything below is on the disk
    log-start-offset-checkpoint         topic, partition, offset: everything below was deleted
    replication-offset-checkpoint       topic, partition, offset: all replicas have what is below
    flushed-first-checkpoint            logs that are flushed before they are reported
    .tallymark_boot                     the kernel's boot id while the logs were open; the broker's
    orders-0/ ...                       the logs
    orders-0.<hex>-truncated/ ...       records saved aside (:mod:`tallymark.log.saved_tails`)
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from typing import Final

from tallymark.errors import UserError
from tallymark.log.disk.checkpoint import read_checkpoint, write_checkpoint
from tallymark.log.disk.files import Files, Lock, LockHeldError, write_file
from tallymark.log.disk.health import DiskHealth
from tallymark.log.disk.kept_offsets import (
    FLUSHED_FIRST,
    HighWatermarks,
    KeptOffsets,
    StartOffsets,
)
from tallymark.log.disk.partition_folder import (
    DELETED,
    STRAY,
    LogKey,
    parse_folder,
    remove_folder,
)
from tallymark.protocol.records.saved_tail import TRUNCATED

log = logging.getLogger(__name__)

_CLEAN: Final = ".kafka_cleanshutdown"
_CLEAN_TEXT: Final = b'{"version":0,"brokerEpoch":-1}'
_META: Final = "meta.properties"
_RECOVERY: Final = "recovery-point-offset-checkpoint"


class DataDir:
    """A locked data directory. ``starts`` are the start offsets of its logs, ``high_watermarks``
    those of its partitions, ``flushed_first`` is drawn in :mod:`tallymark.log.disk.flushed_first`,
    ``population`` is how many logs there are. ``stopped_cleanly``: there
    was a marker of a clean stop when it was opened."""

    def __init__(self, files: Files, path: str, lock: Lock) -> None:
        self.path = path
        self.health = DiskHealth(path)
        self.starts = StartOffsets(files, path)
        self.high_watermarks = HighWatermarks(files, path)
        self.flushed_first = KeptOffsets(files, f"{path}/{FLUSHED_FIRST}")
        self.population = 0
        self.stopped_cleanly = False
        self.strays: list[str] = []
        """Folders of replicas that were moved away, as :meth:`find_partitions` found them."""
        self._noted: set[LogKey] = set()
        self._files = files
        self._lock = lock

    @classmethod
    def lock(cls, files: Files, path: str, broker_id: int) -> DataDir:
        """Make the directory where needed and lock it. UserError: another process holds it; it
        names both. OSError: the disk does not work."""
        _make_durably(files, path)
        owner = f"broker {broker_id}, process {os.getpid()} on {socket.gethostname()}"
        try:
            return cls(files, path, files.lock(f"{path}/.lock", owner))
        except LockHeldError as error:
            raise UserError(
                f"the data directory {path} is in use by {error.owner}",
                "stop that one, or give this broker a directory of its own (log.dirs)",
            ) from None

    def release(self) -> None:
        self._lock.release()

    def check_owner(self, broker_id: int, cluster_id: str | None) -> str | None:
        """Check the owner of the data. Returns the cluster id in ``meta.properties``, None where
        there is none yet. UserError where it is another broker's or cluster's."""
        meta = _read_meta(self._files, self.path)
        stored = meta.get("cluster.id")
        stored_broker = meta.get("broker.id", meta.get("node.id"))
        if stored_broker is not None and stored_broker != str(broker_id):
            raise UserError(
                f"the data directory {self.path} is broker {stored_broker}'s, "
                f"this is broker {broker_id}",
                "set node.id or log.dirs right",
            )
        if stored is not None and cluster_id is not None and stored != cluster_id:
            raise UserError(
                f"the data directory {self.path} is of the cluster {stored}, "
                f"this broker is in the cluster {cluster_id}",
                "set zookeeper.connect or log.dirs right; if ZooKeeper has lost its data, bring "
                "them back (docs/operations.md)",
            )
        return stored

    def write_owner(self, broker_id: int, cluster_id: str) -> None:
        """Write the owner of the data, durably."""
        text = f"#\nversion=0\nbroker.id={broker_id}\ncluster.id={cluster_id}\n"
        write_file(self._files, f"{self.path}/{_META}", text.encode())

    def find_partitions(self) -> list[LogKey]:
        """The partitions with a folder here. Removes folders whose deletion was interrupted."""
        found: list[LogKey] = []
        for name in self._files.listdir(self.path):
            folder = f"{self.path}/{name}"
            if not self._files.is_dir(folder):
                continue
            if name.endswith(DELETED):
                remove_folder(self._files, folder)
            elif name.endswith(STRAY):
                self.strays.append(folder)
            elif (key := parse_folder(name)) is not None:
                found.append(key)
            elif not name.endswith(TRUNCATED):
                log.warning("%s is not the folder of a partition and is left alone", folder)
        return found

    def take_clean_marker(self) -> bool:
        """Whether the last stop was clean. The marker is gone afterwards: from here on it is
        not, until :meth:`write_clean_marker`."""
        marker = f"{self.path}/{_CLEAN}"
        clean = self.stopped_cleanly = self._files.exists(marker)
        if clean:
            self._files.remove(marker)
            self._files.sync_dir(self.path)
        return clean

    def write_clean_marker(self) -> None:
        write_file(self._files, f"{self.path}/{_CLEAN}", _CLEAN_TEXT)

    def read_recovery_points(self) -> dict[LogKey, int]:
        """The offset up to which each log was flushed."""
        points = recovery_points_of(self._files, self.path)
        self._noted = set(points)
        return points

    def write_recovery_points(self, points: Mapping[LogKey, int]) -> None:
        """Write these offsets, durably."""
        entries = [(key.topic, key.partition, offset) for key, offset in sorted(points.items())]
        write_checkpoint(self._files, f"{self.path}/{_RECOVERY}", entries)
        self._noted = set(points)

    def remembers(self, key: LogKey) -> bool:
        """Whether the checkpoints have an entry of a log. An entry of an earlier log of that name
        would be wrong."""
        kept = (self.starts.get(key), self.high_watermarks.get(key))
        return key in self._noted or any(offset != 0 for offset in kept)

    def save_offsets(self) -> None:
        """Write start offsets and high watermarks, durably, where they have changed."""
        self.starts.save()
        self.high_watermarks.save()

    def forget(self, key: LogKey) -> None:
        """Drop the entries of a log; :meth:`write_recovery_points` writes its own anew."""
        self.starts.drop(key)
        self.high_watermarks.drop(key)
        self.flushed_first.drop(key)


def read_cluster_id(files: Files, folder: str) -> str | None:
    """The cluster that a data directory is of, None while it is new. Needs no lock."""
    return _read_meta(files, folder).get("cluster.id")


def _read_meta(files: Files, folder: str) -> dict[str, str]:
    path = f"{folder}/{_META}"
    if not files.exists(path):
        return {}
    lines = files.read(path).decode(errors="replace").splitlines()
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    return {key.strip(): value.strip() for key, value in pairs}


def recovery_points_of(files: Files, folder: str) -> dict[LogKey, int]:
    """The offsets up to which the logs of a data directory were flushed, from its checkpoint."""
    entries = read_checkpoint(files, f"{folder}/{_RECOVERY}", 3)
    return {LogKey(topic, int(number)): int(offset) for topic, number, offset in entries}


def clean_marker_of(files: Files, folder: str) -> bool:
    """Whether the directory has the marker of a clean stop."""
    return files.exists(f"{folder}/{_CLEAN}")


def _make_durably(files: Files, path: str) -> None:
    """Make the directory and those above it. Their names are on the disk, too: otherwise a power
    failure takes the directory with everything that was flushed in it."""
    made: list[str] = []
    above = path
    while above not in ("", "/") and not files.exists(above):
        made.append(above)
        above = os.path.dirname(above)
    files.make_dirs(path)
    for each in reversed(made):
        files.sync_dir(os.path.dirname(each) or ".")
