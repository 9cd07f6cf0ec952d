"""The folders of logs that go: renamed at once and durably, removed later. Those of deleted topics
as soon as possible, those of replicas that were moved away (strays) when they are released, those
of topics that are lost never."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping

from tallymark.errors import KafkaError
from tallymark.log.disk.data_dir import DataDir
from tallymark.log.disk.files import Files
from tallymark.log.disk.health import guarded
from tallymark.log.disk.partition_folder import (
    DELETED,
    KEPT,
    STRAY,
    LogKey,
    deleted_name,
    remove_folder,
)

log = logging.getLogger(__name__)


class DeletedFolders:
    """Those of one broker. True while there are any to remove. Any thread may call its methods."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._folders: deque[tuple[DataDir, str]] = deque()
        self._strays: dict[str, tuple[DataDir, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._folders)

    @property
    def has_strays(self) -> bool:
        """Whether there are folders that are not released yet."""
        return bool(self._strays)

    def keep(self, home: DataDir, since_ms: int) -> None:
        """The strays that were found in a directory; when they became such is not known."""
        self._strays.update((folder, (home, since_ms)) for folder in home.strays)

    def release(self, before_ms: int) -> bool:
        """Strays since ``before_ms`` or earlier may be removed; whether there are such."""
        due = [each for each, (_, since_ms) in self._strays.items() if since_ms <= before_ms]
        self._folders.extend((self._strays.pop(each)[0], each) for each in due)
        return bool(due)

    def rename(
        self,
        home: DataDir,
        folders: Mapping[LogKey, str],
        stray_since_ms: int | None = None,
        *,
        keep: bool = False,
    ) -> None:
        """Rename the folders, with one sync for all; ``stray_since_ms``: as strays; ``keep``: as
        those that are never removed. After a crash the new names show what they are. KafkaError
        KAFKA_STORAGE_ERROR."""
        suffix = KEPT if keep else DELETED if stray_since_ms is None else STRAY
        some = f"{next(iter(folders))}" + (f" and {len(folders) - 1} more" * (len(folders) > 1))
        with guarded(home.health, f"delete {some}"):
            renamed = [f"{home.path}/{deleted_name(str(key), suffix)}" for key in folders]
            for folder, name in zip(folders.values(), renamed, strict=True):
                self._files.rename(folder, name)
            self._files.sync_dir(home.path)
        if keep:
            return
        if stray_since_ms is None:
            self._folders.extend((home, name) for name in renamed)
        else:
            self._strays.update((name, (home, stray_since_ms)) for name in renamed)

    def remove(self, stopping: Callable[[], bool]) -> None:
        """Remove the renamed folders, until ``stopping``."""
        while self._folders and not stopping():
            try:
                home, folder = self._folders.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                with guarded(home.health, f"remove {folder}"):
                    remove_folder(self._files, folder)
            except KafkaError as error:
                log.error("%s is removed at the next start: %s", folder, error)
