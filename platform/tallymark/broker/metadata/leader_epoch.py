"""Decides when a leader epoch rises. Pure.

A reader remembers the epoch of the record before its position, and requests the end offset of that
epoch (KIP-320): a smaller offset means that records it has read are lost. This works as long as no
two different records ever have the same offset in the same epoch. So the epoch must rise whenever
the log may have been truncated below a position of a reader. It may stay when that is impossible:

* after a clean stop: everything was flushed before the marker was written, and the end of the log
  is found where it was. The next record follows the last one, in any epoch
* for a partition that has just been created: nothing was read

It must also never be below an epoch that the log or the cluster has had: records of a truncated
epoch may have been read, and clients drop metadata with an older epoch (KIP-951, librdkafka). An
epoch that stays needs no write: after a clean stop ten thousand partitions start without one.
"""

from __future__ import annotations


def next_epoch(told: int, log_epoch: int, *, intact: bool) -> int:
    """The leader epoch to use. ``told`` is the epoch in the cluster's state; ``log_epoch`` and
    ``intact`` are as in :class:`~tallymark.broker.metadata.port.LeadershipClaim`."""
    if intact and told >= log_epoch:
        return told
    return max(told, log_epoch) + 1
