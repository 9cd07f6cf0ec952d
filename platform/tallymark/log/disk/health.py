"""Whether a data directory still works. A failing disk must not affect the others."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tallymark.errors import CODES, CorruptRecordError, KafkaError
from tallymark.log.disk.files import NoRoomError

log = logging.getLogger(__name__)

_NOT_THE_DISK: Final = (errno.EMFILE, errno.ENFILE)
"""Out of descriptors: the operation failed, the disk did not."""


def is_of_the_disk(error: OSError) -> bool:
    """Whether the disk failed. A full disk before anything changed, or a lack of descriptors, is no
    failure of the disk."""
    return not isinstance(error, NoRoomError) and error.errno not in _NOT_THE_DISK


class DiskHealth:
    """Shared by all logs of one data directory: the first failure takes it offline, for good.

    Going on after a failed write or sync is not safe: the kernel may have dropped the pages that it
    could not write, and would report the next sync as a success.
    """

    __slots__ = ("directory", "error")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.error: OSError | None = None

    def check(self, name: str) -> None:
        """Raise KAFKA_STORAGE_ERROR where the directory is offline."""
        if self.error is not None:
            raise KafkaError(
                CODES["KAFKA_STORAGE_ERROR"], f"{name}: {self.directory} is offline: {self.error}"
            )

    def failed(self, error: OSError, doing: str) -> KafkaError:
        """Take the directory offline because of ``error``; returns the error to raise."""
        if self.error is None and is_of_the_disk(error):
            self.error = error
            log.error("%s is offline: %s: %s", self.directory, doing, error)
        return KafkaError(CODES["KAFKA_STORAGE_ERROR"], f"{doing}: {error}")


@contextmanager
def guarded(health: DiskHealth, doing: str) -> Iterator[None]:
    """Turn a disk failure into KAFKA_STORAGE_ERROR, damage found in the log into
    CORRUPT_MESSAGE."""
    try:
        yield
    except OSError as error:
        raise health.failed(error, doing) from error
    except CorruptRecordError as error:
        raise KafkaError(CODES["CORRUPT_MESSAGE"], f"{doing}: {error}") from error
