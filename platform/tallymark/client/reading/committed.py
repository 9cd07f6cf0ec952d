"""What of a log a reader of committed records may see (KIP-98).

The broker ends its answer at the *last stable offset*, where the first open transaction begins, and
says which transactions within the answer were aborted: producer and first offset each. Their
records are in the log all the same. A transaction of a producer ends at its next marker::

    producer 7:   │ a  b │      │ c │ ABORT │ d │ COMMIT │
    producer 9:          │ x  y │                          ...
    aborted: (7, offset of a)   →   x y d are left;  a b c and the markers are not

A producer may come up several times, once for each of its aborted transactions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tallymark.protocol.records.batch import Batch
from tallymark.protocol.records.markers import marker_of


class AbortedTransaction(NamedTuple):
    """As the broker reports it."""

    producer_id: int
    first_offset: int


def committed(batches: Iterable[Batch], aborted: Iterable[AbortedTransaction]) -> list[Batch]:
    """The batches without those of aborted transactions, in order; markers stay, they have no
    messages. Raises CorruptRecordError for a marker that is none."""
    waiting = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    active: set[int] = set()
    kept: list[Batch] = []
    for batch in batches:
        header = batch.header
        while waiting and waiting[-1].first_offset <= header.last_offset:
            active.add(waiting.pop().producer_id)
        if header.is_control:
            if header.producer_id in active and _is_abort(batch):
                active.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in active:
            continue
        kept.append(batch)
    return kept


def _is_abort(batch: Batch) -> bool:
    marker = marker_of(batch)
    return marker is not None and not marker.commit
