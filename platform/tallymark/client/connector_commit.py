"""Storing how far the application has come, from whichever thread asks for it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from tallymark.client.connector_progress import ProgressBook
from tallymark.client.rebalance import TopicPartition
from tallymark.coordination.offsets import OffsetRegistry, Position
from tallymark.coordination.zookeeper import ZooKeeper


class OffsetCommitter:
    """Stores positions. One at a time, and never after :meth:`forget`: a commit that the
    application began must not come after the partitions were given up."""

    def __init__(self, zookeeper: ZooKeeper, group: str, book: ProgressBook) -> None:
        self._registry = OffsetRegistry(zookeeper, group)
        self._book = book
        self._lock = threading.Lock()
        self._session = 0

    def load(
        self, partitions: Sequence[TopicPartition], session: int
    ) -> dict[TopicPartition, Position]:
        """The stored positions of partitions that were claimed in that session, the only one
        in which they may be stored anew."""
        with self._lock:
            self._session = session
            return self._registry.read(partitions)

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Store what the application has taken, or what it says."""
        with self._lock:
            book = self._book
            positions = book.uncommitted() if offsets is None else book.positions(offsets)
            if positions:
                self._registry.commit(positions, self._session)
                book.mark_stored(positions)

    def commit_owned(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Store these offsets, but for partitions that are not owned."""
        owned = {(item.topic, item.partition) for item in self._book.items()}
        self.commit({place: offset for place, offset in offsets.items() if place in owned})

    def forget(self) -> None:
        """The partitions are no longer ours."""
        with self._lock:
            self._book.forget()
