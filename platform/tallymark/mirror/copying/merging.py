"""What goes out together: small batches that follow one another, as far as they are small when they
are unpacked, too.

A batch of few bytes may hold hundreds of megabytes, and several of them put together would be one
that no consumer reads. So nothing is merged beyond :data:`MERGED_BYTES` of records, and a batch
that is larger by itself goes out as it is, without being unpacked any further. One that has to be
taken apart, since the key decides its partition for instance, is unpacked by itself, as far as
:func:`~tallymark.protocol.records.compression.usual_max_size` allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import HEADER_SIZE, Batch, Record
from tallymark.protocol.records.reader import SMALLEST_RECORD

MERGED_BYTES: Final = 256 * 1024
"""Of records, unpacked."""
MERGED_RECORDS: Final = 2000


def gather(batches: Sequence[Batch], whole: bool) -> list[list[Record]] | None:
    """The records of the first batch, and of those behind it that go out with it; None: the first
    one goes out as it is, which it may if ``whole``. CorruptRecordError: it may not, and cannot be
    taken apart."""
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
