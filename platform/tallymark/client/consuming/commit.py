"""Storing how far the application has come, from whichever thread asks for it.

::

                              at_least_once                      at_most_once
    auto-commit, release      what was handed out, without       what was handed out
                              what is still in hand
    before a chunk is         (nothing)                          the end of the chunk
    handed out
    commit_offsets()          all that was handed out            all that was handed out

A message is *in hand* from the moment it is handed out until its stream is asked for the next
one. With at least once a consumer that dies, or loses its partitions, leaves what was in hand to
the next owner: it comes again, unless it is dealt with in the half second that a consumer waits
before it gives partitions up. With at most once it never does; a crash loses what was left of the
chunk (one fetch of one partition). A chunk that is not handed out to its end by a consumer that
leaves in order is not lost: its release stores what was handed out indeed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from tallymark.client.consuming.hooks import Hooks
from tallymark.client.consuming.stream import Chunk, Stream
from tallymark.client.consuming.subscription_state import (
    Handed,
    PartitionProgress,
    SubscriptionState,
)
from tallymark.coordination.consumers.offsets import UNKNOWN_EPOCH, OffsetRegistry, Position
from tallymark.coordination.session.errors import CoordinationError, SessionLostError
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import (
    CODES,
    CommitFailedError,
    ConnectError,
    KafkaError,
    TimedOutError,
    UserError,
)
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger("tallymark.client.connector.connector")
IN_HAND_SECONDS: Final = 0.5
"""How long a consumer that gives partitions up waits for what the application has in hand."""
_LOOK_SECONDS: Final = 0.002


class OffsetStore(Protocol):
    """Where a group's offsets are: in ZooKeeper or with the brokers."""

    def read(
        self, partitions: Sequence[TopicPartition], session: int
    ) -> dict[TopicPartition, Position]:
        """The stored positions; partitions without one are left out. What was claimed in
        ``session`` may be stored in it only (0: whatever session there is)."""
        ...

    def commit(self, positions: Mapping[TopicPartition, Position], metadata: str) -> None:
        """Store them. CommitFailedError where the group went on without us."""
        ...


class ZooKeeperOffsets:
    """The store of groups that coordinate in ZooKeeper."""

    def __init__(self, zookeeper: ZooKeeper, group: str) -> None:
        self._registry = OffsetRegistry(zookeeper, group)
        self._session = 0

    def read(
        self, partitions: Sequence[TopicPartition], session: int
    ) -> dict[TopicPartition, Position]:
        """See :class:`OffsetStore`."""
        self._session = session
        return self._registry.read(partitions)

    def commit(self, positions: Mapping[TopicPartition, Position], metadata: str) -> None:
        """See :class:`OffsetStore`. There is no place for metadata."""
        if metadata:
            raise UserError(
                "offsets in ZooKeeper carry no metadata", 'give none, or use coordinator="brokers"'
            )
        self._registry.commit(positions, self._session)


class OffsetCommitter:
    """Stores positions. One at a time, and never after :meth:`forget`: a commit that the
    application began must not come after the partitions were given up."""

    def __init__(
        self,
        store: OffsetStore,
        positions: SubscriptionState,
        *,
        at_most_once: bool,
        hooks: Hooks | None = None,
    ) -> None:
        self._store = store
        self._positions = positions
        self._hooks = hooks or Hooks()
        self._at_most_once = at_most_once
        self._streams: Sequence[Stream] = ()
        self._lock = threading.Lock()
        self._lost: dict[TopicPartition, Position] = {}
        """How far the application had come, unstored, in partitions that were given up."""

    def watch(self, streams: Sequence[Stream]) -> None:
        """The streams that know what is in hand."""
        self._streams = streams

    def load(
        self, partitions: Sequence[TopicPartition], session: int = 0
    ) -> dict[TopicPartition, Position]:
        """The stored positions of partitions that were claimed in that session, the only one
        in which they may be stored anew."""
        with self._lock:
            return self._store.read(partitions, session)

    def commit(self, *, last: bool = False) -> None:
        """Store what the application has dealt with, as far as can be known. ``last``: nothing
        more will be handed out, so what is in hand has a moment to be dealt with."""
        if self._at_most_once and not last:
            if self._hooks:
                self._hooks.done_before(self._positions.come_to(self._dealt_with()))
            return  # all of it is stored already
        done = Handed() if self._at_most_once else self._dealt_with()
        deadline = time.monotonic() + IN_HAND_SECONDS
        while last and done.held and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
            done = self._dealt_with()
        with self._lock:
            if self._at_most_once:
                self._hooks.done_before(self._positions.come_to(done))
            self._commit(self._positions.uncommitted(done), "")

    def commit_taken(
        self, offsets: Mapping[TopicPartition, int] | None = None, metadata: str = ""
    ) -> None:
        """Store all that was handed out, or what the application says. CommitFailedError when some
        of it was in partitions that were given up since: the rest is stored by then."""
        if offsets is None:
            for stream in self._streams:
                stream.settle()
        with self._lock:
            positions = self._positions
            self._commit(
                positions.uncommitted() if offsets is None else positions.positions(offsets),
                metadata,
            )
            if offsets is None:
                self._tell_lost()

    def commit_owned(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Store these offsets, but for partitions that are not owned."""
        owned = {(item.topic, item.partition) for item in self._positions.items()}
        self.commit_taken({place: offset for place, offset in offsets.items() if place in owned})

    def clear(self, chunk: Chunk) -> bool:
        """At most once: store the end of a chunk; whether it may be handed out now."""
        item = chunk.progress
        epoch = chunk.batches[-1].header.partition_leader_epoch if chunk.batches else UNKNOWN_EPOCH
        with self._lock:
            if not item.active:
                return False
            try:
                self._commit({(item.topic, item.partition): Position(chunk.next_offset, epoch)}, "")
            except CommitFailedError as error:
                LOG.warning("nothing of %s-%d is handed out: %s", item.topic, item.partition, error)
                return False
            except PASSING as error:
                if isinstance(error, KafkaError) and not error.retriable:
                    raise
                LOG.warning("%s-%d waits: %s", item.topic, item.partition, error)
                return False
            return True

    def forget(self, places: Sequence[TopicPartition] | None = None) -> None:
        """The partitions (None: all) are no longer ours."""
        with self._lock:
            gone = {(item.topic, item.partition) for item in self._positions.items()}
            gone &= gone if places is None else set(places)
            unstored = self._positions.uncommitted()
            self._lost |= {place: at for place, at in unstored.items() if place in gone}
            self._positions.forget(places)
        self._hooks.released(gone)

    def _tell_lost(self) -> None:
        """Once: the application would take its silence for stored."""
        lost, self._lost = self._lost, {}
        if lost:
            places = ", ".join(f"{topic}-{n} up to {at.offset}" for (topic, n), at in lost.items())
            text = (
                f"not stored, since other consumers may have the partitions: {places}. What was "
                "handed out of them since the last commit is handed out again"
            )
            raise CommitFailedError(CODES["ILLEGAL_GENERATION"], text)

    def _dealt_with(self) -> Handed:
        """What was handed out, then what of it is in hand: what is handed out in between is in
        hand, and must not count as dealt with."""
        taken = self._positions.taken()
        held: dict[PartitionProgress, int] = {}
        for stream in self._streams:
            held.update(stream.held())
        return Handed(taken, held)

    def _commit(self, positions: Mapping[TopicPartition, Position], metadata: str) -> None:
        if positions:
            if self._hooks and not self._at_most_once:
                self._hooks.done_before({place: at.offset for place, at in positions.items()})
            self._store.commit(positions, metadata)
            self._positions.mark_stored(positions)


# What passes by itself or after the next reconnection.
PASSING: Final = (ConnectError, SessionLostError, CoordinationError, KafkaError, TimedOutError)
