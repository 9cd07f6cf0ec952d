"""The marker of a transaction: a control batch of one record, written by its coordinator (KIP-98).

::

    key    version i16 = 0 | type i16            0 abort, 1 commit; others are not of transactions
    value  version i16 = 0 | coordinator epoch i32

The batch has the producer's id and epoch, and no sequence.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tallymark.errors import CorruptRecordError
from tallymark.protocol.records.batch import Batch
from tallymark.protocol.records.writer import BatchBuilder

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


class Marker(NamedTuple):
    """The end of a transaction in one partition."""

    commit: bool
    coordinator_epoch: int
    """-1 where the marker does not say."""


def marker_batch(
    marker: Marker, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytearray:
    """The batch of a marker, to be placed in a log."""
    builder = BatchBuilder()
    builder.append(
        _KEY.pack(0, _COMMIT if marker.commit else _ABORT),
        _VALUE.pack(0, marker.coordinator_epoch),
        (),
        timestamp_ms,
    )
    return bytearray(
        builder.build(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=True,
            control=True,
        )
    )


def marker_of(batch: Batch) -> Marker | None:
    """The marker in a control batch; None for a control batch of another kind (a leader change, a
    snapshot). Raises CorruptRecordError where it is none at all."""
    columns = batch.columns()
    key = next(iter(columns.keys()), None)
    if key is None or len(key) < _KEY.size:
        raise CorruptRecordError(f"a marker of a transaction has the key {key!r}")
    kind = _KEY.unpack_from(key)[1]
    if kind not in (_ABORT, _COMMIT):
        return None
    value = next(iter(columns.values()), None)
    known = value is not None and len(value) >= _VALUE.size
    return Marker(kind == _COMMIT, _VALUE.unpack_from(value)[1] if known and value else -1)
