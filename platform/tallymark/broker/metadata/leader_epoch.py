"""When a leader epoch rises. Pure.

A reader remembers in which epoch the record before its position was written, and asks where that
epoch ended (KIP-320): a smaller answer means that records it has read are gone. This works as
long as no two different records ever have the same offset in the same epoch. So the epoch must
rise whenever the log may have been cut below what a reader has read, and it may stay whenever it
cannot have been:

* after a clean stop: everything was flushed before the marker was written, and the log's end was
  found where it was left. The next record follows the last one, in whatever epoch
* for a partition that has just been created: nothing was read

It must also never be below an epoch that the log or the cluster has seen: a cut epoch's records
may have been read, and clients drop metadata whose epoch goes back (KIP-951, librdkafka).
Staying has a price of zero: after a clean stop ten thousand partitions start without a write.
"""

from __future__ import annotations


def next_epoch(told: int, log_epoch: int, *, intact: bool) -> int:
    """The epoch to lead in. ``told`` is the epoch that the cluster's state has; ``log_epoch`` and
    ``intact`` are as in :class:`~tallymark.broker.metadata.port.LeadershipClaim`."""
    if intact and told >= log_epoch:
        return told
    return max(told, log_epoch) + 1
