"""The folders of deleted logs: renamed at once and durably, removed later."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping

from tallymark.errors import KafkaError
from tallymark.log.disk.data_dir import DataDir
from tallymark.log.disk.files import Files
from tallymark.log.disk.health import guarded
from tallymark.log.disk.partition_folder import LogKey, deleted_name, remove_folder

log = logging.getLogger(__name__)


class DeletedFolders:
    """Those of one broker. True while there are any to remove. Any thread may call its methods."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._folders: deque[tuple[DataDir, str]] = deque()

    def __bool__(self) -> bool:
        return bool(self._folders)

    def rename(self, home: DataDir, folders: Mapping[LogKey, str]) -> None:
        """Rename the folders, with one sync for all. After a crash the new names show that they are
        deleted. KafkaError KAFKA_STORAGE_ERROR."""
        some = f"{next(iter(folders))}" + (f" and {len(folders) - 1} more" * (len(folders) > 1))
        with guarded(home.health, f"delete {some}"):
            renamed = [f"{home.path}/{deleted_name(str(key))}" for key in folders]
            for folder, name in zip(folders.values(), renamed, strict=True):
                self._files.rename(folder, name)
            self._files.sync_dir(home.path)
        self._folders.extend((home, name) for name in renamed)

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
