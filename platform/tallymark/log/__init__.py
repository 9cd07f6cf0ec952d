"""The segmented log: one folder a partition, one file a segment. After a crash a start cuts what is
not whole.

In reading order: :mod:`~tallymark.log.disk.files` (the disk as a port),
:mod:`~tallymark.log.segments.segment` with its two sparse indexes,
:mod:`~tallymark.log.loading.recovery`, :mod:`~tallymark.log.producers.state`,
:mod:`~tallymark.log.leader_epochs`, :mod:`~tallymark.log.log` (one partition),
:mod:`~tallymark.log.manager` (all of a broker). Nothing here uses sockets.
"""

from tallymark.log.config import LogConfig
from tallymark.log.disk.files import Files, FileSlice, OsFiles
from tallymark.log.log import Log
from tallymark.log.manager import LogManager
from tallymark.log.results import AppendInfo, LogSlice
from tallymark.log.segments.time_search import OffsetAt
from tallymark.log.upkeep.flush import FlushJob

__all__ = [
    "AppendInfo",
    "FileSlice",
    "Files",
    "FlushJob",
    "Log",
    "LogConfig",
    "LogManager",
    "LogSlice",
    "OffsetAt",
    "OsFiles",
]
