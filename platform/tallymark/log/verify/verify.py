"""Checks the files of a log without changing them, for ``tallymark verify-log``.

For each batch: is it whole, does its CRC hold, and does it follow from the one before
(:mod:`~tallymark.log.verify.chain`); for each segment: do its indexes say the same
(:mod:`~tallymark.log.verify.indexes`). The broker may be running: files that change meanwhile are
checked again before they are called damaged.

Batches that were never flushed are not damage: after a power failure the newest batches may be
torn. The next start cuts them, and ``notes`` say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tallymark.errors import CorruptRecordError
from tallymark.log.compaction.checkpoint import read_clean_points
from tallymark.log.disk.data_dir import clean_marker_of, recovery_points_of
from tallymark.log.disk.files import Files
from tallymark.log.disk.kept_offsets import StartOffsets
from tallymark.log.disk.partition_folder import LogKey, key_of
from tallymark.log.loading.recovery import batch_crc
from tallymark.log.segments.scan import Window, header_at
from tallymark.log.verify.chain import Chain
from tallymark.log.verify.indexes import IndexCheck
from tallymark.protocol.records.batch import HEADER_SIZE, Batch
from tallymark.protocol.records.check import check_count, check_records, greatest_delta
from tallymark.protocol.records.compiled import checking
from tallymark.protocol.records.compression import decompress
from tallymark.protocol.schema import Buffer

_CHUNK: Final = 1 << 20
_LOOKS: Final = 3
_BETWEEN_LOOKS: Final = 0.2
_MOST_PROBLEMS: Final = 100
"""At most so many are listed of a log; the rest is not counted: a broken disk has no end of
them."""


@dataclass(slots=True)
class LogReport:
    """The result for one folder. ``damage`` lists errors, ``notes`` list what is worth knowing.
    Offsets are those of the first record kept and of the next one."""

    folder: str
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    start_offset: int = 0
    end_offset: int = 0
    damage: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        return not self.damage


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The checkpoints of the data directory, read once for all of its logs: :meth:`of`."""

    clean: bool
    flushed: Mapping[LogKey, int]
    compacted: Mapping[LogKey, int]
    starts: StartOffsets

    @classmethod
    def of(cls, files: Files, folder: str) -> Surroundings:
        """Read the checkpoints of a data directory; a missing one is no error."""
        return cls(
            clean_marker_of(files, folder),
            recovery_points_of(files, folder),
            read_clean_points(files, folder),
            StartOffsets(files, folder),
        )


def verify_log(
    files: Files,
    folder: str,
    around: Surroundings,
    *,
    deep: bool = False,
    step: Callable[[int], None] = lambda _: None,
    pause: Callable[[float], None] = time.sleep,
) -> LogReport:
    """Check the log in ``folder``, in a data directory of which ``around`` is known. ``deep``: open
    every batch and check its records too. ``step`` is called with the number of bytes that were
    checked. OSError where the disk cannot be read."""
    return _Check(files, folder, around, deep, step, pause).run()


@dataclass(slots=True)
class _Found:
    """One segment after one check. ``torn``: it ends with batches that were never flushed."""

    chain: Chain
    torn: bool = False
    batches: int = 0
    records: int = 0
    bytes: int = 0
    damage: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


class _Check:
    def __init__(
        self,
        files: Files,
        folder: str,
        around: Surroundings,
        deep: bool,
        step: Callable[[int], None],
        pause: Callable[[float], None],
    ) -> None:
        self._files = files
        self._folder = folder.rstrip("/")
        self._deep = deep
        self._step = step
        self._pause = pause
        key = key_of(self._folder.rpartition("/")[2])
        self._start = around.starts.get(key)
        self._flushed = around.flushed.get(key, 0)
        self._clean = around.clean
        self._compacted = key in around.compacted

    def run(self) -> LogReport:
        report = LogReport(self._folder)
        names = self._files.listdir(self._folder)
        bases = sorted(int(n[:-4]) for n in names if n.endswith(".log") and n[:-4].isdigit())
        if not bases:
            report.notes.append("no segments")
        chain = Chain(self._compacted)
        report.start_offset = max(self._start, bases[0] if bases else 0)
        for base in bases:
            found = self._segment(report, chain, base)
            chain = found.chain
            if found.torn:
                break  # newer segments go with the cut
        report.end_offset = max(chain.next_offset, report.start_offset)
        return report

    def _segment(self, report: LogReport, chain: Chain, base: int) -> _Found:
        found = _Found(chain)
        for look in range(_LOOKS):
            try:
                found = self._look(chain.copy(), base)
            except FileNotFoundError:
                # Its content is not known: check the next one like the first.
                again = Chain(chain.gaps, epoch=chain.epoch)
                found = _Found(again, notes=[".log was deleted meanwhile"])
            if not found.damage and not found.torn:
                break
            if look < _LOOKS - 1:
                self._pause(_BETWEEN_LOOKS)
        self._step(found.bytes)
        report.segments += 1
        report.batches += found.batches
        report.records += found.records
        report.bytes += found.bytes
        room = _MOST_PROBLEMS - len(report.damage)
        report.damage += [f"{base:020d}{text}" for text in found.damage[:room]]
        report.notes += [f"{base:020d}{text}" for text in found.notes]
        return found

    def _look(self, chain: Chain, base: int) -> _Found:
        stem = f"{self._folder}/{base:020d}"
        found = _Found(chain)
        if 0 <= chain.next_offset < base and not chain.gaps:
            found.damage.append(f".log: offsets {chain.next_offset} to {base - 1} are missing")
        if chain.next_offset > base:
            found.damage.append(f".log begins before {chain.next_offset}, where the last one ends")
        chain.next_offset = max(base, chain.next_offset)
        indexes = IndexCheck(self._files, stem, base)
        size = self._files.size(f"{stem}.log")
        end = self._walk(found, indexes, f"{stem}.log", size)
        trusted = self._clean or chain.next_offset < self._flushed
        wrong = list(indexes.end())
        if end < size:
            text = f".log: no whole batch at position {end}, {size - end} bytes follow"
            found.torn = not trusted
            (found.damage if trusted else found.notes).append(text)
        elif trusted:
            found.damage += wrong
        else:
            found.notes += [f"{text}; a start builds it again" for text in wrong]
        if size:
            missing = [f".{suffix} is missing" for suffix in indexes.missing]
            found.notes += [f"{text}; a start builds it again" for text in missing]
        found.bytes = size
        return found

    def _walk(self, found: _Found, indexes: IndexCheck, path: str, size: int) -> int:
        """Go through the batches; returns the position after the last whole one."""
        handle = self._files.reader(path)
        window, position = Window(handle, size, _CHUNK), 0
        while (header := header_at(window, position)) is not None:
            if position + header.size > size:
                break
            where = f".log: position {position}, offset {header.base_offset}: "
            torn = batch_crc(window, handle, position, header) != header.crc
            if torn:
                following = header_at(window, position + header.size)
                if following is None and position + header.size < size:
                    break
                if not self._clean and found.chain.next_offset >= self._flushed:
                    break
                found.damage.append(where + "the CRC does not hold")
            found.damage += [where + text for text in found.chain.add(header)]
            if self._deep and not torn:
                data = memoryview(handle.pread(header.size, position))
                found.damage += [where + text for text in _records(Batch(header, data))]
            indexes.note(position, header)
            found.batches += 1
            found.records += header.record_count
            position += header.size
        return position


def _records(batch: Batch) -> list[str]:
    """What is wrong with the records of a batch."""
    header = batch.header
    payload: Buffer = batch.data[HEADER_SIZE:]
    try:
        payload = decompress(header.codec, payload, batch.usual_max_size)
        greatest = _greatest_delta(payload, header.record_count, header.last_offset_delta)
    except CorruptRecordError as error:
        return [f"its records cannot be read: {error}"]
    if header.record_count and not header.is_log_append_time:
        latest = header.base_timestamp + greatest
        if latest > header.max_timestamp:
            return [f"a record has the timestamp {latest}, above {header.max_timestamp}"]
    return []


def _greatest_delta(payload: Buffer, count: int, last_delta: int) -> int:
    """The greatest timestamp delta of the records. Raises CorruptRecordError."""
    if checking.ready():
        greatest = checking.greatest_if_whole(payload, count, last_delta)
        if greatest is not None:
            return greatest
    check_count("none", len(payload), count)
    check_records(payload, count, last_delta)
    return greatest_delta(payload, count)
