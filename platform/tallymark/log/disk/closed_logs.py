"""The logs that a start found and could not open: damaged ones, and those for which there was no
room, which are tried again."""

from __future__ import annotations

import logging
from typing import NamedTuple

from tallymark.errors import CODES, KafkaError
from tallymark.log.disk.data_dir import DataDir
from tallymark.log.disk.files import NoRoomError
from tallymark.log.disk.partition_folder import LogKey

log = logging.getLogger(__name__)


class ClosedLog(NamedTuple):
    """A log in ``home``, to be verified from its recovery point on."""

    home: DataDir
    recovery_point: int
    why: str
    damaged: bool


class ClosedLogs:
    """See the module."""

    def __init__(self) -> None:
        self._closed: dict[LogKey, ClosedLog] = {}

    def note(self, home: DataDir, key: LogKey, recovery_point: int, error: KafkaError) -> None:
        """The log could not be opened."""
        damaged = not isinstance(error.__cause__, NoRoomError)
        self._closed[key] = ClosedLog(home, recovery_point, str(error), damaged)
        reason = "it is damaged" if damaged else "there is no room, and it is tried again"
        log.error("%s/%s stays closed, %s: %s", home.path, key, reason, error)

    def to_open(self, key: LogKey) -> ClosedLog | None:
        """The log, where it may be tried again; None where it is none of these. Raises
        KAFKA_STORAGE_ERROR for a damaged one."""
        closed = self._closed.get(key)
        if closed is not None and closed.damaged:
            raise KafkaError(CODES["KAFKA_STORAGE_ERROR"], closed.why)
        return closed

    def homes(self) -> set[DataDir]:
        """The directories of these logs: what was not verified must be at the next start."""
        return {closed.home for closed in self._closed.values()}

    def opened(self, key: LogKey) -> None:
        """The log is open now."""
        self._closed.pop(key, None)
