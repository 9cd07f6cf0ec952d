"""Compacting a log in a test, as the broker does it but in one thread."""

from __future__ import annotations

from collections.abc import Callable

from tallymark.log import Log, LogConfig
from tallymark.log.compaction.compaction import Compaction
from tallymark.log.compaction.job import dirt_of, task_of
from tallymark.log.compaction.swap import swap
from tallymark.log.compaction.task import Cleaned, Summary
from tallymark.log.disk.files import Files
from tallymark.protocol.records.batch import Record, encode_batch, split_batches
from tallymark.testing.memory_files import MemoryFiles

MAP_BYTES = 1 << 20
FOLDER = "/d/t-0"
CONFIG = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    retention_ms=-1,
    compact=True,
    delete_retention_ms=100,
)


def open_log(files: MemoryFiles, config: LogConfig = CONFIG, *, clean: bool = True) -> Log:
    files.make_dirs(FOLDER)
    return Log.open(files, FOLDER, config, clean=clean, now_ms=0)


def put(
    log: Log, *pairs: tuple[bytes | None, bytes | None], at: int = 5, codec: str = "none"
) -> None:
    records = [(key, value, (), at + number) for number, (key, value) in enumerate(pairs)]
    log.append(encode_batch(records, compression=codec), 0, 1)


def closed(log: Log) -> None:
    """Everything so far can be cleaned."""
    log.roll()
    log.flush()


def contents(log: Log) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in read_all(log)}


def compact(
    files: Files,
    target: Log,
    *,
    clean_until: int = -1,
    now_ms: int = 0,
    until: int | None = None,
    map_bytes: int = MAP_BYTES,
    swapping: Callable[..., bool] = swap,
) -> Summary:
    """One compaction of everything that can be; the summary's ``until`` is the next clean point."""
    dirt = dirt_of(target, clean_until, now_ms, until)
    run = Compaction(files, task_of(target, dirt, now_ms, map_bytes))
    for cleaned in run:
        assert isinstance(cleaned, Cleaned)
        swapping(target, cleaned)
    return run.summary()


def read_all(target: Log, offset: int | None = None) -> list[Record]:
    """Every record from ``offset`` (default: the start) to the end, as a consumer reads: it goes on
    behind the last batch it has got, and is never answered with nothing before the end."""
    at = target.start_offset if offset is None else offset
    begin = at
    found: list[Record] = []
    while at < target.end_offset:
        data = target.read(at, 1000).read()
        batches = split_batches(data)
        assert batches, f"nothing at offset {at}, the log ends at {target.end_offset}"
        for batch in batches:
            batch.check_crc()
            assert batch.header.last_offset >= at
            found += [record for record in batch.records() if record.offset >= begin]
            at = batch.header.next_offset
    return found
