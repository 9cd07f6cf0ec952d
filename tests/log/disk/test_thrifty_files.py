"""Logs that make room where the process is out of descriptors."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path

import pytest

from tallymark.errors import KafkaError
from tallymark.log import Log, LogConfig, LogManager, OsFiles
from tallymark.log.disk.files import File
from tallymark.protocol.records.batch import encode_batch

CONFIG = LogConfig(segment_bytes=200)


class FewFiles(OsFiles):
    """A disk that opens no file while ``closed``, until so many have been let go of."""

    closed = False

    def open(self, path: str, *, create: bool = True) -> File:
        if self.closed:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return super().open(path, create=create)


def opened(folder: Path, files: OsFiles) -> tuple[LogManager, Log]:
    manager = LogManager.open(files, [folder], CONFIG, broker_id=0, now_ms=0, cluster_id="c")
    return manager, manager.create("t", 0, uuid.uuid5(uuid.NAMESPACE_DNS, "t"), 0)


def append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(bytearray(encode_batch([(None, b"x" * 100, (), 0)])), 0, 0)


def segments_open(folder: Path) -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        found += target.startswith(str(folder)) and target.endswith(".log")
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux")
def test_what_is_on_the_disk_lets_go_and_what_is_not_stays_open(tmp_path: Path) -> None:
    """A sync that fails is told to those who had the file open: a segment that is not on the disk
    keeps its descriptor, whoever is short of them."""
    manager, log = opened(tmp_path, OsFiles())
    append(log, 6)
    log.flush()
    append(log, 6)
    before = segments_open(tmp_path)
    assert log.release_files() > 0
    assert segments_open(tmp_path) < before
    assert segments_open(tmp_path) >= 4  # what was appended after the flush
    log.flush()
    log.release_files()
    assert segments_open(tmp_path) == 0
    append(log, 1)  # opened again
    assert log.end_offset == 13
    first = log.read(0, 1 << 20).data
    assert not isinstance(first, bytes)
    assert b"x" * 100 in first.read()
    manager.close()


def test_out_of_descriptors_refuses_loses_nothing_and_goes_on(tmp_path: Path) -> None:
    files = FewFiles()
    manager, log = opened(tmp_path, files)
    append(log, 3)
    acknowledged = log.end_offset
    files.closed = True
    with pytest.raises(KafkaError, match="Too many open files"):
        append(log, 3)
    refused_at = log.end_offset
    assert refused_at >= acknowledged
    assert manager.take_shortage()
    assert not manager.take_shortage()
    assert manager.offline_dirs == {}
    files.closed = False
    append(log, 3)
    assert log.end_offset == refused_at + 3
    manager.close()
    again, found = opened(tmp_path, OsFiles())
    assert found.end_offset == refused_at + 3
    again.close()
