"""Which small batches are merged into one: those that follow one another and are small when
decompressed, too.

A batch of few bytes may decompress to hundreds of megabytes, and no consumer could read several of
them merged. So nothing is merged beyond :data:`MERGED_BYTES` of records, and a larger batch is sent
as it is, without decompressing the rest of it. A batch that must be decoded, for instance because
the key decides its partition, is decompressed alone, as far as
:func:`~tallymark.protocol.records.compression.usual_max_size` allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from tallymark.errors import CorruptRecordError
from tallymark.mirror.copying.gathered import CopiedRecords, DecodedRecords, Gathered
from tallymark.mirror.source.source import SourceBatch
from tallymark.mirror.target.ready_batch import Origin
from tallymark.protocol.records.batch import HEADER_SIZE, Batch, Record
from tallymark.protocol.records.compiled import repartition
from tallymark.protocol.records.compiled.repartition import KeyedRecords, unpack
from tallymark.protocol.records.reader import SMALLEST_RECORD
from tallymark.protocol.schema import Buffer

MERGED_BYTES: Final = 256 * 1024
"""Of records, decompressed."""
MERGED_RECORDS: Final = 2000
_LARGEST: Final = 2**63 - 1
SMALL_RECORDS: Final = 24
SMALL_BYTES: Final = 8 * 1024
"""Below both, decoding the records and encoding them anew takes less time than sending and
acknowledging a batch of its own (about 2 us a record against 60 us a batch)."""


def mergeable(
    waiting: deque[SourceBatch],
    keeps: bool,
    room: int,
    came_from: Origin,
    origin_of: Callable[[int], Origin],
) -> list[SourceBatch]:
    """The first batch, and the small ones behind it that may be merged with it: adjacent, of the
    same partition, leader epoch and origin (``came_from`` is the first one's, ``origin_of`` finds
    it by the producer id), at most ``room`` records.

    ``keeps``: the target keeps the partition; where it does not, each batch is decoded in any case,
    so that large ones are merged, too.
    """
    pieces = [waiting[0]]
    head = waiting[0].batch.header
    size, count = head.size, head.record_count
    most = min(MERGED_RECORDS, room)
    if keeps and not is_small(waiting[0].batch):
        return pieces
    for piece in islice(waiting, 1, None):
        header, before = piece.batch.header, pieces[-1].batch.header
        size, count = size + header.size, count + header.record_count
        same = (piece.topic, piece.partition) == (pieces[0].topic, pieces[0].partition)
        follows = header.base_offset >= before.next_offset and not header.is_control
        alike = header.partition_leader_epoch == head.partition_leader_epoch
        if not (same and follows and alike and (is_small(piece.batch) or not keeps)):
            break
        if size > MERGED_BYTES or count > most:
            break
        if origin_of(header.producer_id) != came_from:
            break
        pieces.append(piece)
    return pieces


def is_small(batch: Batch) -> bool:
    """Whether it is better sent together with its neighbours."""
    return batch.header.record_count <= SMALL_RECORDS and batch.header.size <= SMALL_BYTES


def gather(
    batches: Sequence[Batch], whole: bool, first: int, *, decoded: bool = False
) -> tuple[Gathered, int] | None:
    """The records with offsets from ``first`` on, of the first batch and of those behind it that
    are merged with it, and how many batches these are. ``decoded``: they must be
    :class:`~tallymark.mirror.copying.gathered.DecodedRecords`. None: the first batch is sent as it
    is, which is possible if ``whole``. CorruptRecordError: it is not, and the batch cannot be
    decoded."""
    if whole and len(batches) == 1:
        return None
    if not decoded and repartition.ready():
        found = _located(batches, whole, first)
        if found is not None:
            return found
    return _decoded(batches, whole, first)


def _decoded(
    batches: Sequence[Batch], whole: bool, first: int
) -> tuple[DecodedRecords, int] | None:
    found: list[list[Record]] = []
    times = _Times()
    room = MERGED_BYTES
    for batch in batches:
        alone = not found and not whole
        try:
            columns = batch.columns(batch.usual_max_size if alone else room)
            times.add(*columns.timestamp_bounds())
        except CorruptRecordError:
            if alone:
                raise
            break
        found.append(columns.records())
        room -= columns.size
        if room <= 0:
            break
    if whole and len(found) <= 1:
        return None
    records = [record for some in found for record in some if record.offset >= first]
    return DecodedRecords(records), len(found)


def _located(batches: Sequence[Batch], whole: bool, first: int) -> tuple[CopiedRecords, int] | None:
    """The same by the compiled loops. None where the other must decide: a batch does not
    decompress, or is broken, or the first one is sent as it is."""
    unpacked: list[Buffer] = []
    room = MERGED_BYTES
    for batch in batches:
        alone = not unpacked and not whole
        try:
            unpacked.append(unpack(batch, batch.usual_max_size if alone else room))
        except CorruptRecordError:
            return None
        room -= len(unpacked[-1])
        if room <= 0:
            break
    if whole and len(unpacked) <= 1:
        return None
    some = batches[: len(unpacked)]
    keyed = KeyedRecords.read(some, unpacked, first)
    if keyed is None or not _Times().fit(*keyed.timestamp_bounds()):
        return None
    return CopiedRecords(keyed, some, first), len(some)


class _Times:
    """The least and the greatest timestamp of what is merged, ms. A batch holds them as a number of
    64 bits and differences of as many; what a client produced may be beyond."""

    def __init__(self) -> None:
        self._least, self._greatest = _LARGEST, -_LARGEST - 1

    def fit(self, least: int, greatest: int) -> bool:
        """Whether these can be in the batch, too."""
        low, high = min(least, self._least), max(greatest, self._greatest)
        return low >= -_LARGEST - 1 and high <= _LARGEST and high - low <= _LARGEST

    def add(self, least: int, greatest: int) -> None:
        """Raises CorruptRecordError where they do not fit."""
        if not self.fit(least, greatest):
            raise CorruptRecordError(
                f"no batch can hold records with timestamps from {least} to {greatest}"
            )
        self._least, self._greatest = min(least, self._least), max(greatest, self._greatest)


def is_absurd(batch: Batch) -> bool:
    """Whether the batch claims more records than it can hold."""
    header = batch.header
    most = header.size - HEADER_SIZE if header.codec == "none" else batch.usual_max_size
    return header.record_count * SMALLEST_RECORD > most
