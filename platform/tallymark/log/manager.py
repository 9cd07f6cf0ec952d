"""All logs of a broker: opens them at its start, creates, deletes and closes them.

A broker has one or more data directories, one per disk. A disk that fails takes its own logs
offline. All methods are for the owner's thread, except those that say otherwise.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from tallymark.errors import CODES, KafkaError, UserError
from tallymark.log.config import LogConfig
from tallymark.log.disk.bounded_files import BoundedFiles
from tallymark.log.disk.closed_logs import ClosedLogs
from tallymark.log.disk.data_dir import DataDir
from tallymark.log.disk.deleted_folders import DeletedFolders
from tallymark.log.disk.files import Files, noticing_no_room
from tallymark.log.disk.flushed_first import FlushedFirst
from tallymark.log.disk.health import guarded
from tallymark.log.disk.high_watermarks import KnownHighWatermarks
from tallymark.log.disk.partition_folder import LogKey, read_topic_id, write_topic_id
from tallymark.log.disk.shared_writes import SharedWrites
from tallymark.log.log import Log
from tallymark.log.progress import Progress
from tallymark.log.results import DirInfo, LogInfo

log = logging.getLogger(__name__)

ConfigOf = Callable[[str], LogConfig]


class LogManager:
    """Made by :meth:`open`. ``cluster_id`` is the one in the directories, None while they are new
    (see :meth:`adopt`); ``high_watermarks`` are the partitions', ``deleted`` folders go."""

    def __init__(self, files: Files, config_of: ConfigOf, broker_id: int) -> None:
        self.cluster_id: str | None = None
        self._files = BoundedFiles(files, self._release_files)
        self._config_of = config_of
        self._broker_id = broker_id
        self._dirs: list[DataDir] = []
        self._logs: dict[LogKey, Log] = {}
        self._homes: dict[LogKey, DataDir] = {}
        self._topic_ids: dict[LogKey, uuid.UUID] = {}
        self._dead: dict[str, str] = {}
        self._closed = ClosedLogs()
        self._checkpoints: dict[DataDir, SharedWrites] = {}
        self.deleted = DeletedFolders(self._files)
        self.high_watermarks = KnownHighWatermarks(self._dirs, self._homes)
        self.flushed_first = FlushedFirst(self._dirs, self._homes, self._topic_ids)

    @classmethod
    def open(
        cls,
        files: Files,
        dirs: Sequence[str | os.PathLike[str]],
        default_config: LogConfig,
        *,
        broker_id: int,
        now_ms: int,
        cluster_id: str | None = None,
        config_of: ConfigOf | None = None,
    ) -> LogManager:
        """Lock the directories and open every log in them, with a recovery after an unclean stop.

        ``config_of`` gives the config of a topic, default: ``default_config``. A directory whose
        disk fails is left out. UserError: one is in use, is another's, or none works.
        """
        manager = cls(files, config_of or (lambda _: default_config), broker_id)
        try:
            manager._open(dirs, cluster_id, now_ms)
        except BaseException:
            manager.abandon()
            raise
        return manager

    def _open(
        self, dirs: Sequence[str | os.PathLike[str]], cluster_id: str | None, now_ms: int
    ) -> None:
        for path in dirs:
            try:
                home = DataDir.lock(self._files, os.fspath(path), self._broker_id)
                self._dirs.append(home)
                self._checkpoints[home] = SharedWrites(partial(self._write_checkpoint, home))
                self._take_over(home, cluster_id, now_ms)
            except (OSError, KafkaError) as error:
                log.error("the data directory %s cannot be used: %s", os.fspath(path), error)
                self._drop(os.fspath(path))
                self._dead[os.fspath(path)] = str(error)
        self._require_a_disk()
        if cluster_id is not None:
            self.adopt(cluster_id)

    def _require_a_disk(self) -> None:
        if not self.homes:
            problems = "; ".join(f"{path}: {why}" for path, why in self.offline_dirs.items())
            raise UserError(
                f"no data directory can be used ({problems or 'none is given'})",
                "mend the disk or its permissions, or set log.dirs",
            )

    def _take_over(self, home: DataDir, cluster_id: str | None, now_ms: int) -> None:
        stored = home.check_owner(self._broker_id, cluster_id or self.cluster_id)
        self.cluster_id = self.cluster_id or stored
        points = home.read_recovery_points()
        clean = home.take_clean_marker()
        found = home.find_partitions()
        self.deleted.keep(home, now_ms)
        progress = Progress(len(found), f"logs of {home.path}", lambda t: log.info("opened %s", t))
        for key in found:
            if key in self._logs:
                raise UserError(
                    f"{key} is in {self._homes[key].path} and in {home.path}",
                    "remove the older of the two folders",
                )
            if (topic_id := read_topic_id(self._files, f"{home.path}/{key}")) is not None:
                self._topic_ids[key] = topic_id
            try:
                self._open_log(home, key, clean, points.get(key, 0), now_ms)
            except KafkaError as error:
                home.health.check(home.path)
                self._closed.note(home, key, points.get(key, 0), error)
                continue
            progress.step()
        ends = {key: at.end_offset if (at := self._logs.get(key)) else None for key in found}
        self.high_watermarks.settle(home, ends)

    def _open_log(self, home: DataDir, key: LogKey, clean: bool, point: int, now_ms: int) -> Log:
        opened = self._logs[key] = Log.open(
            self._files,
            f"{home.path}/{key}",
            self._config_of(key.topic),
            clean=clean,
            now_ms=now_ms,
            recovery_point=point,
            health=home.health,
            starts=home.starts,
        )
        opened.hold_back(home.high_watermarks.get(key), now_ms)
        opened.save_recovery_points = self._checkpoints[home].wanted
        self._homes[key], home.population = home, home.population + 1
        return opened

    def adopt(self, cluster_id: str) -> None:
        """Write the cluster id into directories that have none. UserError where one belongs to
        another cluster."""
        for home in self.homes:
            try:
                if home.check_owner(self._broker_id, cluster_id) is None:
                    home.write_owner(self._broker_id, cluster_id)
            except OSError as error:
                home.health.failed(error, f"note the owner of {home.path}")
        self._require_a_disk()
        self.cluster_id = cluster_id

    # --- logs

    def __iter__(self) -> Iterator[LogKey]:
        return iter(tuple(self._logs))

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, topic: str, partition: int) -> Log | None:
        """The log, None where this broker does not have it."""
        return self._logs.get(LogKey(topic, partition))

    def topic_id(self, topic: str, partition: int) -> uuid.UUID | None:
        """The topic id in the partition's folder."""
        return self._topic_ids.get(LogKey(topic, partition))

    @property
    def homes(self) -> list[DataDir]:
        """The directories that work."""
        return [home for home in self._dirs if home.health.error is None]

    def home_of(self, topic: str, partition: int) -> DataDir | None:
        """The directory of a log, also where its disk has failed. Any thread may call it."""
        return self._homes.get(LogKey(topic, partition))

    @property
    def offline_dirs(self) -> dict[str, str]:
        """Directories whose disk has failed -> the error."""
        failed = {home.path: str(home.health.error) for home in self._dirs if home.health.error}
        return self._dead | failed

    def dirs(self) -> list[DirInfo]:
        """Every directory with its logs, failed ones too. Any thread may call it."""
        logs: dict[DataDir, list[LogInfo]] = {home: [] for home in self._dirs}
        for key, each in tuple(self._logs.items()):
            if (home := self._homes.get(key)) is not None:
                logs[home].append(LogInfo(key, each.size, each.start_offset, each.end_offset))
        found = [DirInfo(path, error, -1, -1, ()) for path, error in self._dead.items()]
        for home, infos in logs.items():
            error, space = home.health.error, (-1, -1)
            if error is None:
                try:
                    space = self._files.space(home.path)
                except OSError as failure:
                    error = failure
            found.append(DirInfo(home.path, str(error) if error else None, *space, tuple(infos)))
        return found

    def at_risk(self, path: str) -> list[tuple[str, int, int]]:
        """(name, first, end) of the records of a directory that are lost if its disk is."""
        return [
            (each.name, each.recovery_point, each.end_offset)
            for each in tuple(self._logs.values())
            if each.directory.rpartition("/")[0] == path and each.recovery_point < each.end_offset
        ]

    def create(self, topic: str, partition: int, topic_id: uuid.UUID, now_ms: int) -> Log:
        """The log of the partition: the one that is there, else a new one in the directory with the
        fewest. INCONSISTENT_TOPIC_ID where the one there is of another topic of that name;
        KAFKA_STORAGE_ERROR where no disk works, or the log that is there cannot be opened."""
        key = LogKey(topic, partition)
        there = self._topic_ids.get(key)
        if there is not None and there != topic_id:
            raise KafkaError(CODES["INCONSISTENT_TOPIC_ID"], f"{key}: {there}, not {topic_id}")
        found = self._logs.get(key) or self._reopen(key, now_ms) or self._create(key, now_ms)
        if there is None:
            with guarded(self._homes[key].health, f"create {key}"):
                write_topic_id(self._files, found.directory, topic_id)
            self._topic_ids[key] = topic_id
        return found

    def _reopen(self, key: LogKey, now_ms: int) -> Log | None:
        if (closed := self._closed.to_open(key)) is None:
            return None
        found = self._open_log(closed.home, key, False, closed.recovery_point, now_ms)
        self._closed.opened(key)
        return found

    def _create(self, key: LogKey, now_ms: int) -> Log:
        homes = self.homes
        if not homes:
            raise KafkaError(CODES["KAFKA_STORAGE_ERROR"], f"{key}: all disks are offline")
        home = min(homes, key=lambda each: each.population)
        with guarded(home.health, f"create {key}"):
            if home.remembers(key):
                home.forget(key)
                self._checkpoints[home].now()
            with noticing_no_room():
                self._files.make_dirs(f"{home.path}/{key}")
            self._files.sync_dir(home.path)
            return self._open_log(home, key, True, 0, now_ms)

    def delete(self, topic: str, partition: int) -> None:
        """:meth:`delete_all` of one, and :meth:`remove_deleted`. Raises KAFKA_STORAGE_ERROR."""
        for error in self.delete_all([LogKey(topic, partition)]).values():
            raise error
        self.remove_deleted()

    def delete_all(
        self, partitions: Iterable[LogKey], stray_since_ms: int | None = None, keep: bool = False
    ) -> dict[LogKey, KafkaError]:
        """Delete logs, durably; no error where there is none. :meth:`remove_deleted` removes their
        files; with ``stray_since_ms``, a time, when they are released from ``deleted``; with
        ``keep`` nothing does. Returns those whose disk failed: the next start has them. Readers
        keep open files. Any thread may call it, once the owner of the logs no longer uses them."""
        doomed: dict[DataDir, dict[LogKey, str]] = {}
        for key in partitions:
            found = self._logs.pop(key, None)
            if found is not None:
                home = self._homes.pop(key)
                home.population -= 1
                self._topic_ids.pop(key, None)
                found.abandon()
                home.high_watermarks.drop(key)
                doomed.setdefault(home, {})[key] = found.directory
        failed: dict[LogKey, KafkaError] = {}
        for home, folders in doomed.items():
            try:
                self.deleted.rename(home, folders, stray_since_ms, keep=keep)
            except KafkaError as error:
                failed |= dict.fromkeys(folders, error)
        return failed

    @property
    def has_deleted(self) -> bool:
        """Whether there is anything for :meth:`remove_deleted`."""
        return bool(self.deleted)

    def remove_deleted(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Remove the files of deleted logs, until ``stopping``: the next start removes the rest.
        Any thread may call it."""
        self.deleted.remove(stopping)

    def checkpoint(self) -> None:
        """Write recovery points, start offsets and high watermarks. Any thread may call it."""
        for home in self.homes:
            with suppress(KafkaError), guarded(home.health, f"checkpoint {home.path}"):
                self._checkpoints[home].now()

    def take_shortage(self) -> bool:
        """Whether logs were out of descriptors since the last call: the caller should flush all
        logs, since segments that are not on the disk yet keep their files open."""
        short, self._files.is_short = self._files.is_short, False
        return short

    def close(self) -> None:
        """Stop cleanly: flush and close every log, then write the marker of a clean stop into each
        directory without a log that could not be flushed: the next start must verify others."""
        unclean = self._closed.homes()
        for key, each in self._logs.items():
            try:
                each.close()
            except KafkaError as error:
                unclean.add(self._homes[key])
                log.error("%s is not closed cleanly: %s", key, error)
        for home in self.homes:
            try:
                with guarded(home.health, f"stop {home.path}"):
                    self._checkpoints[home].now()
                    if home not in unclean:
                        home.write_clean_marker()
            except KafkaError as error:
                log.error("%s is not closed cleanly: %s", home.path, error)
        self.abandon()

    def _release_files(self) -> int:
        return sum(each.release_files() for each in tuple(self._logs.values()))

    def _write_checkpoint(self, home: DataDir) -> None:
        logs = tuple(self._logs.items())
        here = [(key, each) for key, each in logs if self._homes.get(key) is home]
        home.write_recovery_points({key: each.recovery_point for key, each in here})
        home.save_offsets()

    def _drop(self, path: str) -> None:
        """Leave out a directory that cannot be used."""
        for home in [home for home in self._dirs if home.path == path]:
            self._dirs.remove(home)
            home.release()
            for key in [key for key, at in self._homes.items() if at is home]:
                self._logs.pop(key).abandon()
                self._homes.pop(key)
                self._topic_ids.pop(key, None)

    def abandon(self) -> None:
        """Close all files and unlock all directories without writing anything."""
        for each in self._logs.values():
            each.abandon()
        for home in self._dirs:
            home.release()
