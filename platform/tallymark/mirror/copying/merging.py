"""Which small batches are merged into one: those that follow one another and are small when
decompressed, too.

A batch of few bytes may decompress to hundreds of megabytes, and no consumer could read several of
them merged. So nothing is merged beyond :data:`MERGED_BYTES` of records, and a larger batch is sent
as it is, without decompressing the rest of it. A batch that must be decoded, for instance because
the key decides its partition, is decompressed alone, as far as
:func:`~tallymark.protocol.records.compression.usual_max_size` allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import HEADER_SIZE, Batch, Record
from tallymark.protocol.records.reader import SMALLEST_RECORD

MERGED_BYTES: Final = 256 * 1024
"""Of records, decompressed."""
MERGED_RECORDS: Final = 2000


def gather(batches: Sequence[Batch], whole: bool) -> list[list[Record]] | None:
    """The records of the first batch, and of the batches behind it that are merged with it. None:
    the first one is sent as it is, which is possible if ``whole``. CorruptRecordError: it is not,
    and the batch cannot be decoded."""
    if whole and len(batches) == 1:
        return None
    found: list[list[Record]] = []
    room = MERGED_BYTES
    for batch in batches:
        alone = not found and not whole
        try:
            columns = batch.columns(batch.usual_max_size if alone else room)
        except CorruptRecordError:
            if alone:
                raise
            break
        found.append(columns.records())
        room -= columns.size
        if room <= 0:
            break
    return None if whole and len(found) <= 1 else found


def is_absurd(batch: Batch) -> bool:
    """Whether the batch claims more records than it can hold."""
    header = batch.header
    most = header.size - HEADER_SIZE if header.codec == "none" else batch.usual_max_size
    return header.record_count * SMALLEST_RECORD > most
