"""The scratch buffer: the records of a fetch's compressed batches, one after the other.

::

    data      │ header │ records │ header │ zstd ... │ header │ lz4 ... │
    scratch                      │ records          │ records │
                                  START       END     START  END          SCRATCH = 1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.compiled.layout import ATTRIBUTES, END, SCRATCH, START
from tallymark.protocol.records.compression import CODECS, decompress, usual_max_size
from tallymark.protocol.schema import Buffer

if TYPE_CHECKING:
    from tallymark.protocol.records.compiled.kernel import IntArray

_CODEC_MASK: Final = 0x07
_HEADER_SIZE: Final = 61
_NOWHERE: Final = -1


def unpack_batches(data: Buffer, batches: IntArray, at_most: int) -> tuple[Buffer, int]:
    """Decompress the records of the ``batches`` that ``find_batches`` found in ``data``, and set
    START, END and SCRATCH to where they are: (the scratch buffer, how many of the batches may be
    read). Those after the one with which the buffer reached ``at_most`` bytes are left as they are,
    for another call with ``batches[number:]``.

    A batch that does not decompress, or to more bytes than
    :func:`~tallymark.protocol.records.compression.usual_max_size`, is OUTSIDE when it is read; the
    pure path says why.
    """
    codecs = batches[:, ATTRIBUTES] & _CODEC_MASK
    if not codecs.any():
        return b"", len(batches)
    view, scratch = memoryview(data), bytearray()
    for number in codecs.nonzero()[0].tolist():
        if len(scratch) >= at_most:
            return scratch, number
        batch = batches[number]
        payload = view[batch[START] : batch[END]]
        size = usual_max_size(_HEADER_SIZE + len(payload))
        try:
            records = decompress(CODECS[codecs[number]], payload, size)
        except CorruptRecordError:
            batch[START] = _NOWHERE
        else:
            batch[START] = len(scratch)
            scratch += records
            batch[END] = len(scratch)
        batch[SCRATCH] = 1
    return scratch, len(batches)
