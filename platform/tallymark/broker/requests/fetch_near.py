"""Fetches of consumers that name their rack (KIP-392): where they read.

::

    this broker leads     replica.selector.class chooses a replica in the reader's rack that is in
                          sync and has the offset: its id, no records. None: it reads here
    it follows            up to its own high watermark. Between that and the end of its log the
                          fetch waits; outside of its log OFFSET_OUT_OF_RANGE: ask the leader

A reader without a rack reads from leaders only: it has no reason to be here, and learns of the
leader. ListOffsets and OffsetForLeaderEpoch are the leader's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from tallymark.broker.metadata.image import MetadataImage
from tallymark.broker.partitions.lead import ReadUntil
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.requests.fetch_round import FetchPartition, FetchRound
from tallymark.broker.settings.fields.replication import RACK_AWARE
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.wire.fetch import Found, PlainFetch, Topic

FIRST_WITH_RACKS: Final = 11
_NOT_HERE: Final = CODES["NOT_LEADER_OR_FOLLOWER"]


def with_followed(partitions: Partitions, wanted: Iterable[FetchPartition]) -> list[FetchPartition]:
    """The same, with the partitions that this broker has a replica of."""
    return [_held(partitions, each) for each in wanted]


def nearest(
    copies: Mapping[int, int], leader: int, rack: str, image: MetadataImage, listener: str
) -> int | None:
    """The follower for a reader in ``rack``; None: the leader. ``copies``: the followers that have
    what is asked for, and where their logs end. The one with the longest log, of equals that with
    the lowest id, as Kafka's RackAwareReplicaSelector; the reader must reach it."""
    if image.racks.get(leader) == rack:
        return None
    near = [
        one
        for one in copies
        if image.racks.get(one) == rack and image.brokers[one].at(listener) is not None
    ]
    return min(near, key=lambda one: (-copies[one], one), default=None)


class NearRound(FetchRound):
    """A round for a reader with a rack."""

    def __init__(
        self,
        state: BrokerState,
        request: PlainFetch,
        version: int,
        wanted: list[FetchPartition],
        listener: str,
        wait: bool,
    ) -> None:
        self._rack = request.rack
        self._selects = state.settings.replica_selector_class == RACK_AWARE
        self.preferred = self._sent = dict[tuple[Topic, int], int]()
        super().__init__(state, request, version, wanted, listener, wait)

    @property
    def to_tell(self) -> Collection[tuple[Topic, int]]:
        """See :class:`~tallymark.broker.requests.fetch_round.FetchRound`."""
        return {*self.diverging, *self.preferred}

    def _read(self, item: FetchPartition, room: int, *, first: bool) -> Found:
        partition = item.found
        if self._selects and isinstance(partition, Partition) and partition.lead is not None:
            partition.check_epoch(item.ask.current_leader_epoch)
            copies = partition.lead.copies(item.ask.fetch_offset)
            image, leader = self._state.image, self._state.settings.node_id
            near = nearest(copies, leader, self._rack, image, self._listener)
            if near is not None:
                return self._send_to(near, item, partition)
        return super()._read(item, room, first=first)

    def _send_to(self, broker: int, item: FetchPartition, partition: Partition) -> Found:
        assert partition.lead is not None
        partition.lead.read_elsewhere()
        self._sent[item.topic, item.ask.partition] = broker
        self.complete = True
        high, stable = partition.high_watermark, partition.until(ReadUntil.LAST_STABLE_OFFSET)
        return Found(item.ask.partition, 0, high, stable, partition.log.start_offset, b"")


def _held(partitions: Partitions, item: FetchPartition) -> FetchPartition:
    if not isinstance(item.found, KafkaError) or item.found.code != _NOT_HERE:
        return item
    held = partitions.held(item.name, item.ask.partition)
    if held is None or not held.is_replicated:
        return item
    return item._replace(found=held)
