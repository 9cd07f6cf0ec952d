"""The offset up to which each log is clean: ``cleaner-offset-checkpoint`` in every data directory,
in Kafka's checkpoint format (:mod:`tallymark.log.disk.checkpoint`): topic, partition, first dirty
offset.

Losing it costs work, not data: a log that is not in it is cleaned from its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallymark.log.disk.checkpoint import read_checkpoint, write_checkpoint
from tallymark.log.disk.files import Files
from tallymark.log.disk.partition_folder import LogKey

FILE_NAME: Final = "cleaner-offset-checkpoint"


def read_clean_points(files: Files, data_dir: str) -> dict[LogKey, int]:
    """Partition -> first dirty offset; nothing where there is no file or a damaged one."""
    entries = read_checkpoint(files, f"{data_dir}/{FILE_NAME}", 3)
    return {LogKey(topic, int(number)): int(offset) for topic, number, offset in entries}


def write_clean_points(files: Files, data_dir: str, points: Mapping[LogKey, int]) -> None:
    """Replace the file, durably."""
    entries = [(key.topic, key.partition, offset) for key, offset in sorted(points.items())]
    write_checkpoint(files, f"{data_dir}/{FILE_NAME}", entries)
