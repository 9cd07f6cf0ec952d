"""What a partition with several replicas asks of its leader's side, and where a read ends.

The leader's side is :mod:`tallymark.broker.replicas.lead`, a room above this one. A partition with
one replica has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Protocol

from tallymark.replication.progress import FollowerFetch
from tallymark.replication.truncation import EpochEnd

READ_COMMITTED: Final = 1
"""The isolation level of a request."""


class Watcher(Protocol):
    """Waits for a change of a partition."""

    def set(self) -> None:
        """The partition has changed. Must return at once."""
        ...


class Copier(Watcher, Protocol):
    """A follower's session that has all of a partition. The first :meth:`set` is the last."""

    def moved(self) -> None:
        """The high watermark has moved, or what is known of the replicas: to be looked at with the
        next request. Must return at once."""
        ...


class ReadUntil(Enum):
    """How far a read goes (Kafka's ``FetchIsolation``)."""

    END = "the end of the log: a follower"
    HIGH_WATERMARK = "what is committed: a consumer"
    LAST_STABLE_OFFSET = "below every open transaction: a consumer with read_committed"

    @classmethod
    def of(cls, replica_id: int, isolation_level: int) -> ReadUntil:
        """That of a request. Ids below 0 are no brokers."""
        if replica_id >= 0:
            return cls.END
        return cls.LAST_STABLE_OFFSET if isolation_level == READ_COMMITTED else cls.HIGH_WATERMARK


class Lead(Protocol):
    """The leader's side of one partition in one leader epoch."""

    @property
    def is_epoch_committed(self) -> bool:
        """Whether the high watermark has reached the start of the leader epoch: before that clients
        get no offsets, since these could run backwards (KIP-207)."""
        ...

    @property
    def is_enough(self) -> bool:
        """Whether as many replicas are in sync now as ``acks=all`` asks for."""
        ...

    @property
    def is_under_replicated(self) -> bool:
        """Whether some replica is not in sync now."""
        ...

    @property
    def is_read_elsewhere(self) -> bool:
        """Whether consumers read from followers, as far as is known: these get each high
        watermark at once (KIP-1166)."""
        ...

    def read_elsewhere(self) -> None:
        """A consumer was sent to a follower."""
        ...

    def copies(self, offset: int) -> Mapping[int, int]:
        """As :meth:`tallymark.replication.leading.Leader.copies`."""
        ...

    def check_enough(self) -> None:
        """Before an append with ``acks=all``. Raises NOT_ENOUGH_REPLICAS, or NOT_LEADER_OR_FOLLOWER
        where a newer state of the partition was seen."""
        ...

    def grown(self) -> None:
        """The log has records more, or more of it is flushed."""
        ...

    def fetched(self, fetch: FollowerFetch) -> EpochEnd | None:
        """As :meth:`tallymark.replication.leading.Leader.fetched`, once for each request of a
        follower."""
        ...

    def watch(self, event: Watcher) -> None:
        """Set ``event`` whenever the log has grown: a follower waits."""
        ...

    def unwatch(self, event: Watcher) -> None:
        """The end of :meth:`watch`."""
        ...

    def rest(self, copier: Copier) -> None:
        """A follower has all: tell ``copier`` once when the log has grown, and of each move before
        that."""
        ...

    def forget(self, copier: Copier) -> None:
        """The end of :meth:`rest`."""
        ...

    def wake(self) -> None:
        """Let every waiting follower look again."""
        ...

    async def started_at(self, offset: int) -> int:
        """Return when no log of a live replica begins before ``offset``: the least of their starts.
        Raises NOT_LEADER_OR_FOLLOWER where the lead is lost before."""
        ...
