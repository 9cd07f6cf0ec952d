"""All logs of a broker: opened at its start, created, deleted, flushed, trimmed, closed.

A broker has one or more data directories, one per disk. A disk that fails takes its own logs
offline; the others go on. All methods belong to the owner's thread but those that say otherwise.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from tallymark.errors import CODES, KafkaError, UserError
from tallymark.log.config import LogConfig
from tallymark.log.data_dir import DataDir
from tallymark.log.files import Files
from tallymark.log.flush import FlushJob
from tallymark.log.log import Log
from tallymark.log.partition_folder import (
    DELETED,
    TopicPartition,
    deleted_name,
    parse_folder,
    read_topic_id,
    write_topic_id,
)

log = logging.getLogger(__name__)

ConfigOf = Callable[[str], LogConfig]


class LogManager:
    """See the module. Made by :meth:`open`; ``cluster_id`` is what the directories say, None while
    they are new (see :meth:`adopt`)."""

    def __init__(self, files: Files, config_of: ConfigOf, broker_id: int) -> None:
        self.cluster_id: str | None = None
        self._files = files
        self._config_of = config_of
        self._broker_id = broker_id
        self._dirs: list[DataDir] = []
        self._logs: dict[TopicPartition, Log] = {}
        self._homes: dict[TopicPartition, DataDir] = {}
        self._topic_ids: dict[TopicPartition, uuid.UUID] = {}

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
        """Lock the directories and open every log in them, recovering what was not left cleanly.

        ``config_of`` gives the config of a topic, default: ``default_config`` for all. A directory
        whose disk fails is left out. UserError: a directory is in use, is another broker's or
        cluster's, or none works.
        """
        manager = cls(files, config_of or (lambda _: default_config), broker_id)
        try:
            manager._open(dirs, cluster_id, now_ms)
        except BaseException:
            manager._release()
            raise
        return manager

    def _open(
        self, dirs: Sequence[str | os.PathLike[str]], cluster_id: str | None, now_ms: int
    ) -> None:
        problems: list[str] = []
        for path in dirs:
            try:
                home = DataDir.lock(self._files, os.fspath(path), self._broker_id)
                self._dirs.append(home)
                self._take_over(home, cluster_id, now_ms)
            except (OSError, KafkaError) as error:
                problems.append(f"{os.fspath(path)}: {error}")
                log.error("the data directory %s cannot be used: %s", os.fspath(path), error)
                self._drop(os.fspath(path))
        if not self._dirs:
            raise UserError(
                f"no data directory can be used ({'; '.join(problems) or 'none is given'})",
                "mend the disk or its permissions, or set log.dirs",
            )
        if cluster_id is not None:
            self.adopt(cluster_id)

    def _take_over(self, home: DataDir, cluster_id: str | None, now_ms: int) -> None:
        stored = home.check_owner(self._broker_id, cluster_id or self.cluster_id)
        self.cluster_id = self.cluster_id or stored
        points = home.read_recovery_points()
        clean = home.take_clean_marker()
        for name in self._files.listdir(home.path):
            folder = f"{home.path}/{name}"
            if not self._files.is_dir(folder):
                continue
            if name.endswith(DELETED):
                self._remove_folder(folder)
            elif (key := parse_folder(name)) is None:
                log.warning("%s is not the folder of a partition and is left alone", folder)
            elif key in self._logs:
                raise UserError(
                    f"{key} is in {self._homes[key].path} and in {home.path}",
                    "remove the older of the two folders",
                )
            else:
                self._open_log(home, key, clean, points.get(key, 0), now_ms)

    def _open_log(
        self, home: DataDir, key: TopicPartition, clean: bool, point: int, now_ms: int
    ) -> None:
        folder = f"{home.path}/{key}"
        self._logs[key] = Log.open(
            self._files,
            folder,
            self._config_of(key.topic),
            clean=clean,
            now_ms=now_ms,
            recovery_point=point,
            health=home.health,
        )
        self._homes[key] = home
        topic_id = read_topic_id(self._files, folder)
        if topic_id is not None:
            self._topic_ids[key] = topic_id

    def adopt(self, cluster_id: str) -> None:
        """Write into directories that do not have it yet which cluster they belong to. UserError
        where one belongs to another."""
        for home in self._online():
            if home.check_owner(self._broker_id, cluster_id) is None:
                home.write_owner(self._broker_id, cluster_id)
        self.cluster_id = cluster_id

    # --- logs

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(tuple(self._logs))

    def __len__(self) -> int:
        return len(self._logs)

    def get(self, topic: str, partition: int) -> Log | None:
        """The log, None where this broker has none of that name."""
        return self._logs.get(TopicPartition(topic, partition))

    def topic_id(self, topic: str, partition: int) -> uuid.UUID | None:
        """The topic id in the partition's folder."""
        return self._topic_ids.get(TopicPartition(topic, partition))

    @property
    def offline_dirs(self) -> dict[str, str]:
        """Directories whose disk has failed, and how."""
        return {home.path: str(home.health.error) for home in self._dirs if home.health.error}

    def create(self, topic: str, partition: int, topic_id: uuid.UUID, now_ms: int) -> Log:
        """The log of the partition: the one that is there, else a new one in the directory with the
        fewest. INCONSISTENT_TOPIC_ID where the one there is of another topic of that name;
        KAFKA_STORAGE_ERROR where no disk works."""
        key = TopicPartition(topic, partition)
        there = self._topic_ids.get(key)
        if there is not None and there != topic_id:
            raise KafkaError(CODES["INCONSISTENT_TOPIC_ID"], f"{key}: {there}, not {topic_id}")
        if key not in self._logs:
            homes = self._online()
            if not homes:
                raise KafkaError(CODES["KAFKA_STORAGE_ERROR"], f"{key}: all disks are offline")
            home = min(homes, key=self._population)
            try:
                self._files.make_dirs(f"{home.path}/{key}")
                self._files.sync_dir(home.path)
                self._open_log(home, key, True, 0, now_ms)
            except OSError as error:
                raise home.health.failed(error, f"create {key}") from error
        if there is None:
            write_topic_id(self._files, self._logs[key].directory, topic_id)
            self._topic_ids[key] = topic_id
        return self._logs[key]

    def delete(self, topic: str, partition: int) -> None:
        """Delete the log and its files; fine where there is none. Readers keep what they hold."""
        key = TopicPartition(topic, partition)
        found = self._logs.pop(key, None)
        if found is None:
            return
        home = self._homes.pop(key)
        self._topic_ids.pop(key, None)
        found.abandon()
        doomed = f"{home.path}/{deleted_name(str(key))}"
        try:
            # The name goes at once and durably; the rest, which may take a crash, by that name.
            self._files.rename(found.directory, doomed)
            self._files.sync_dir(home.path)
            self._remove_folder(doomed)
        except OSError as error:
            raise home.health.failed(error, f"delete {key}") from error

    # --- housekeeping

    def flush_jobs(self, now_ms: int) -> list[tuple[Log, FlushJob]]:
        """The flushes that are due. Run each job in a thread, then ``log.finish_flush(job)``."""
        jobs: list[tuple[Log, FlushJob]] = []
        for due in self._logs.values():
            if due.flush_due(now_ms):
                with suppress(KafkaError):  # its disk is offline by now, and that was said
                    job = due.take_flush()
                    if job is not None:
                        jobs.append((due, job))
        return jobs

    def apply_retention(self, now_ms: int) -> int:
        """Delete old segments of all logs; how many went."""
        count = 0
        for each in tuple(self._logs.values()):
            with suppress(KafkaError):
                count += each.apply_retention(now_ms)
        return count

    def checkpoint(self) -> None:
        """Write the recovery points, so that the next start verifies less. Any thread may."""
        for home in self._online():
            with suppress(KafkaError):
                self._checkpoint(home)

    def close(self) -> None:
        """Stop cleanly: flush and close every log, then say so in each directory."""
        for key, each in self._logs.items():
            try:
                each.close()
            except KafkaError as error:
                log.error("%s is not closed cleanly: %s", key, error)
        for home in self._online():
            try:
                self._checkpoint(home)
                home.write_clean_marker()
            except (KafkaError, OSError) as error:
                log.error("%s is not closed cleanly: %s", home.path, error)
        self._release()

    # --- inside

    def _checkpoint(self, home: DataDir) -> None:
        logs = {
            key: each for key, each in tuple(self._logs.items()) if self._homes.get(key) is home
        }
        try:
            home.write_recovery_points({key: each.recovery_point for key, each in logs.items()})
        except OSError as error:
            raise home.health.failed(error, f"checkpoint {home.path}") from error

    def _online(self) -> list[DataDir]:
        return [home for home in self._dirs if home.health.error is None]

    def _population(self, home: DataDir) -> int:
        return sum(1 for each in self._homes.values() if each is home)

    def _remove_folder(self, folder: str) -> None:
        for name in self._files.listdir(folder):
            self._files.remove(f"{folder}/{name}")
        self._files.remove_dir(folder)

    def _drop(self, path: str) -> None:
        """Leave out a directory that cannot be used."""
        for home in [home for home in self._dirs if home.path == path]:
            self._dirs.remove(home)
            home.release()
            for key in [key for key, at in self._homes.items() if at is home]:
                self._logs.pop(key).abandon()
                self._homes.pop(key)
                self._topic_ids.pop(key, None)

    def _release(self) -> None:
        for each in self._logs.values():
            each.abandon()
        for home in self._dirs:
            home.release()
