"""Consume, transform, produce: what is committed in one partition is copied into another, and the
position goes with each transaction."""

from __future__ import annotations

from typing import Any, Final

from txn_client import GROUPS, Ask, TransactionalClient, Work

from tallymark.groups.records import OffsetKey
from tallymark.protocol.topic_partition import TopicPartition

SOURCE: Final[TopicPartition] = ("t", 0)
COPY: Final[TopicPartition] = ("out", 0)
KEY: Final = OffsetKey("copier", *SOURCE)


class Copier(TransactionalClient):
    """After an abort, and at its start, it goes on where the group stands."""

    position: int | None = None
    _following: int = 0

    def work(self) -> Work:
        if self.position is None:
            yield from self._ask_position()
        assert self.position is not None
        source = self.world.partitions[SOURCE]
        until = min(source.last_stable_offset, self.position + self.world.random.choice((3, 20)))
        self._following = until
        found = list(source.read_committed(self.position, until))
        values = tuple(value for _, value in found)
        if values:
            copies = self.world.copies_of(self.transaction, values)
            half = self.world.random.randint(0, len(copies))
            batches = [part for part in (copies[:half], copies[half:]) if part]
            yield from self.send(COPY, batches)
        if self.position < until:
            yield from self.send_offset(KEY, until)

    def over(self, *, committed: bool) -> None:
        self.position = self._following if committed else None

    def _ask_position(self) -> Work:
        while True:
            found: Any = yield Ask(
                lambda reply: self.world.partitions[GROUPS].fetch_offset(KEY, reply)
            )
            if found is not None:
                self.position = max(found, 0)
                return
            yield 50
