"""The runs of many batches at once: as :func:`~tallymark_audit.model.record_runs.runs_of_columns`
cuts them, with objects for runs only.

::

    data, scratch ── read_batches ──> columns ── cut_runs ──> runs ──> SeenRun ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tallymark.protocol.records.compiled import kernel as records
from tallymark.protocol.records.compiled.layout import SCRATCH
from tallymark.protocol.schema import Buffer
from tallymark_audit.model.cells import Block, CellKey
from tallymark_audit.model.compiled_runs import kernel
from tallymark_audit.model.compiled_runs.layout import BATCH, COUNT
from tallymark_audit.model.hashing import MASK
from tallymark_audit.model.record_runs import MAX_TIMESTAMP, Rules, SeenRun

if TYPE_CHECKING:
    from tallymark.protocol.records.compiled.kernel import IntArray

RECORDS: Final = 1 << 15
"""So many records are read at once; a batch of more is for the pure path."""
_LONGEST_WINDOW: Final = 1 << 62
_INSTANCE: Final = slice(1, 9)


def warm() -> bool:
    """Load or compile what a :class:`RunCutter` needs, which takes seconds; returns whether it is
    there. One log line says why not: the second kernel is of no use without the first."""
    records.warm()
    if records.KERNEL.wait():
        kernel.KERNEL.warm()
        kernel.KERNEL.wait()
    return ready()


def ready() -> bool:
    """Whether a :class:`RunCutter` can work; false for good where nothing is compiled."""
    return records.ready() and kernel.KERNEL.ready()


def has_room(rules: Rules) -> bool:
    """Whether the loops can work by these rules, whose numbers have 64 bits there."""
    return 0 < rules.window_ms < _LONGEST_WINDOW and -1 <= rules.seen_at <= MAX_TIMESTAMP


@dataclass(frozen=True, slots=True)
class ReadBatches:
    """``first`` to ``end``, excluded, of the ``batches`` of a fetch are in a cutter's columns."""

    data: Buffer
    scratch: Buffer
    batches: IntArray
    first: int
    end: int


class RunCutter:
    """The tables, which are used again for every fetch: ``columns`` for the records, 3 MB, and 6
    more where each record is a run of its own. Not thread-safe."""

    def __init__(self, room: int = RECORDS) -> None:
        self.columns: Final = records.column_table(room)
        room = self.columns.shape[1]
        self._runs: Final = kernel.run_table(room)
        self._sketches: Final = kernel.sketch_table(room)
        self._blocks: Final = kernel.block_table(room)

    def runs(
        self, read: ReadBatches, topic: str, partition: int, rules: Rules, join: bool
    ) -> tuple[list[SeenRun], Sequence[int]]:
        """The runs, and the number of each one's first batch. ``join``: runs that continue over the
        ends of batches are one, where that makes no difference to what is counted."""
        data, scratch, batches = read.data, read.scratch, read.batches
        tables = (self.columns, self._runs)
        found = kernel.cut_runs(data, scratch, batches, read.first, read.end, *tables, rules)
        if join and found > 1:
            found = kernel.join_runs(data, scratch, batches, self._runs, found, rules.seen_at)
        runs = self._runs[:found]
        sketches = list[tuple[int, int]]()
        blocks = list[list[int]]()
        if rules.seen_at >= 0:
            used = kernel.sketch_runs(runs, self.columns, rules.seen_at, self._sketches)
            buckets, times = self._sketches[:used].T.tolist()
            sketches = list(zip(buckets, times, strict=True))
        if rules.content_check:
            used = kernel.hash_runs(data, scratch, batches, runs, self.columns, self._blocks)
            blocks = self._blocks[:used].tolist()
        return self._seen(read, runs, sketches, blocks, (topic, partition), rules)

    def _seen(
        self,
        read: ReadBatches,
        runs: IntArray,
        sketches: Sequence[tuple[int, int]],
        blocks: Sequence[Sequence[int]],
        place: tuple[str, int],
        rules: Rules,
    ) -> tuple[list[SeenRun], Sequence[int]]:
        (topic, partition), exempt, made = place, rules.exempt, list[SeenRun]()
        sources = _sliceable(read.data), _sliceable(read.scratch)
        numbers: list[int] = runs[:, BATCH].tolist()
        scratches = read.batches[numbers, SCRATCH].tolist()
        columns: list[list[int]] = runs[:, COUNT:].T.tolist()
        for (
            scratch, count, offset, window, stamp, size, server, number, origin, sequence,
            total, earliest, latest, skewed, sketch, some, block, several,
        ) in zip(scratches, *columns, strict=True):  # fmt: skip
            source, raw = sources[scratch], None
            if server >= 0:
                identity = source[stamp:number], source[server : stamp + size]
                key = _stamped(topic, origin, window, *identity)
            else:
                key = CellKey(topic, partition, window, "", "")
                if size >= 0:
                    raw = bytes(source[stamp : stamp + size])
            run = SeenRun(key, sequence, offset, raw, count, total)
            run.min_timestamp, run.max_timestamp = max(-1, earliest), max(-1, latest)
            if raw is not None:
                run.malformed = count
            if skewed and key.instance not in exempt:
                run.skewed = skewed
            if sketches and some:
                run.latency = dict(sketches[sketch : sketch + some])
            if blocks and several:
                run.blocks = tuple(
                    Block(at, records, hashed & MASK)
                    for at, records, hashed in blocks[block : block + several]
                )
            made.append(run)
        return made, numbers


def _sliceable(data: Buffer) -> bytes | memoryview:
    """A buffer whose slices can be keys of a dict, and cost little."""
    return data if isinstance(data, bytes) else memoryview(data).toreadonly()


def _stamped(topic: str, partition: int, window: int, head: Buffer, server: Buffer) -> CellKey:
    """``head``: the stamp up to the sequence."""
    return _cell(topic, partition, window, bytes(head), bytes(server))


@lru_cache(maxsize=8192)
def _cell(topic: str, partition: int, window: int, head: bytes, server: bytes) -> CellKey:
    return CellKey(topic, partition, window, server.decode(), head[_INSTANCE].hex())
