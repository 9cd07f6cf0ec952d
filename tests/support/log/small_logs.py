"""A log in memory with small segments, and batches to fill it with."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tallymark.errors import CODES, KafkaError
from tallymark.log import Log, LogConfig
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.memory_files import MemoryFiles

SMALL: Final = LogConfig(segment_bytes=2000, index_interval_bytes=100, retention_ms=-1)


def batch(
    *timestamps: int, size: int = 10, compression: str = "none", **producer: Any
) -> bytearray:
    """A batch with a record of ``size`` bytes at each of the ``timestamps``."""
    records = [(None, b"v" * size, (), timestamp) for timestamp in timestamps]
    return bytearray(encode_batch(records, compression=compression, **producer))


def new_log(config: LogConfig = SMALL, files: MemoryFiles | None = None) -> Log:
    """An empty log of the partition orders-0."""
    files = files or MemoryFiles()
    files.make_dirs("/d/orders-0")
    files.sync_dir("/")
    files.sync_dir("/d")
    return Log.open(files, "/d/orders-0", config, clean=False, now_ms=0)


def fill(log: Log, batches: int, per_batch: int = 3) -> None:
    """Append batches whose records have the timestamps 0 and on."""
    for number in range(batches):
        first = number * per_batch
        log.append(batch(*range(first, first + per_batch)), now_ms=0, leader_epoch=-1)


def refusal(code: str) -> pytest.RaisesExc[KafkaError]:
    """Expects the KafkaError with this name."""
    return pytest.RaisesExc(KafkaError, check=lambda error: error.code == CODES[code])
