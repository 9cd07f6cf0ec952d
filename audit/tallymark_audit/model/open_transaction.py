"""A transaction that is open in a partition: what stands behind its first record is not counted."""

from __future__ import annotations

from typing import NamedTuple

from tallymark_audit.model.time_format import utc

CHECK_MS = 30_000
"""How much longer than its timeout a transaction may be open: its coordinator looks every 10 s, and
writes its markers then."""


class OpenTransaction(NamedTuple):
    """Counting a partition has come to ``offset``, where a transaction of ``producer`` (its id; -1:
    not known) begins that is open. Times in ms: ``since`` when the collector first found it so,
    ``through``: up to when all of the partition was counted, ``timeout``: after which its
    coordinator ends it, 0 where that is not known."""

    cluster: str
    topic: str
    partition: int
    offset: int
    producer: int
    since: int
    through: int = 0
    timeout: int = 0

    def hangs(self, now: int, after_ms: int) -> bool:
        """Whether it is open for longer than its coordinator leaves it open; where its timeout is
        not known, for longer than ``after_ms``, which is longer than any does."""
        limit = self.timeout + CHECK_MS if self.timeout else after_ms
        return now - self.since > limit

    @property
    def reason(self) -> str:
        """For a verdict. It has no age, which would be another one each time."""
        who = f"producer {self.producer}" if self.producer >= 0 else "a producer"
        return (
            f"{self.topic}-{self.partition} of {self.cluster} waits at offset {self.offset} for a "
            f"transaction of {who}, open since {utc(self.since)}"
        )
