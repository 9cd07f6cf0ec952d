"""The segmented log: one folder a partition, one file a segment, cut clean after any crash.

In reading order: :mod:`~tallymark.log.files` (the disk as a port), :mod:`~tallymark.log.segment`
with its two sparse indexes, :mod:`~tallymark.log.recovery`, :mod:`~tallymark.log.producer_state`,
:mod:`~tallymark.log.leader_epochs`, :mod:`~tallymark.log.log` (one partition),
:mod:`~tallymark.log.manager` (all of a broker). Nothing here knows sockets.
"""

from tallymark.log.config import LogConfig
from tallymark.log.files import Files, FileSlice, OsFiles
from tallymark.log.flush import FlushJob
from tallymark.log.log import Log
from tallymark.log.manager import LogManager
from tallymark.log.results import AppendInfo, LogSlice
from tallymark.log.time_search import OffsetAt

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
