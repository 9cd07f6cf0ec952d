"""A follower's Fetch (KIP-903): what it says of the follower is reported to the leader's side of
each partition, once; then its partitions are read to the end of the log.

Checked for each partition, in this order::

    the topic's id, and that it is led here   UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER ...
    the leader epoch in which it asks         FENCED_LEADER_EPOCH (older, or none is sent),
                                              UNKNOWN_LEADER_EPOCH (newer)
    that the broker has a replica             UNKNOWN_LEADER_EPOCH: the assignment may be on its way
    its registration (broker epoch)           STALE_BROKER_EPOCH
    its log is a prefix of the leader's       the epoch and offset at which it diverges (KIP-595)
    its offset                                OFFSET_OUT_OF_RANGE: before the start, behind the end

Only a fetch that passes all but the last counts as progress. Followers are outside of the sessions
and quotas of clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tallymark.broker.fetch_sessions import ReplicaSession
from tallymark.broker.partitions.lead import ReadUntil
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.replicas.throttles import ReplicaThrottles
from tallymark.broker.requests.fetch_round import FetchPartition, FetchRound, length_of
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.messages import FetchResponseEpochEndOffset
from tallymark.protocol.wire.fetch import Ask, Found, PlainFetch, Replica, Topic
from tallymark.replication.progress import FollowerFetch
from tallymark.replication.truncation import EpochEnd

FIRST_VERSION: Final = 15
"""The first one with the broker epoch: an older one does not say which registration asks."""


class FollowerAsk:
    """One request of a follower. ``parted``: where its log diverges from the one here."""

    def __init__(self, state: BrokerState, replica: Replica) -> None:
        self.parted: dict[tuple[Topic, int], EpochEnd] = {}
        self.replica = replica
        self.session: ReplicaSession | None = None
        """The session that the request continues."""
        self._partitions = state.partitions
        self._refused: dict[tuple[Topic, int], KafkaError] = {}
        self._topic: Topic | None = None
        self._topic_name = ""

    def take(self, asked: Iterable[tuple[Topic, Ask]]) -> None:
        """Report to the leads of these partitions, once; those of a session that are not among them
        are as they were at its last request."""
        for topic, ask in asked:
            try:
                parted = self._take(topic, ask)
            except KafkaError as error:
                self._refused[topic, ask.partition] = error
            else:
                if parted is not None:
                    self.parted[topic, ask.partition] = parted

    def resolve(self, asked: Iterable[tuple[Topic, Ask]]) -> list[FetchPartition]:
        """The partitions as they are now; those that were refused stay so."""
        self._topic = None
        return [FetchPartition(topic, *self._look(topic, ask)) for topic, ask in asked]

    def _take(self, topic: Topic, ask: Ask) -> EpochEnd | None:
        partition = self._partitions.find(self._name(topic), ask.partition)
        if ask.current_leader_epoch < 0:
            code = CODES["FENCED_LEADER_EPOCH"]
            raise KafkaError(code, f"{partition}: a follower has to name its leader epoch")
        partition.check_epoch(ask.current_leader_epoch)
        if partition.lead is None:
            told = f"{partition} has no replica on broker {self.replica.id}"
            raise KafkaError(CODES["UNKNOWN_LEADER_EPOCH"], told)
        heard = None
        if self.session is not None:
            heard = self.session.seat((topic, ask.partition), partition.lead)
        return partition.lead.fetched(
            FollowerFetch(
                self.replica.id,
                self.replica.epoch,
                ask.fetch_offset,
                ask.last_fetched_epoch,
                ask.log_start_offset,
                heard,
                ask.corrupt,
            )
        )

    def _look(self, topic: Topic, ask: Ask) -> tuple[str, Ask, Partition | KafkaError]:
        refused = self._refused.get((topic, ask.partition)) if self._refused else None
        name = ""
        try:
            name = self._name(topic)
            return name, ask, refused or self._partitions.find(name, ask.partition)
        except KafkaError as error:
            return name, ask, refused or error

    def _name(self, topic: Topic) -> str:
        if topic is not self._topic:  # a UUID is slow to look up, and partitions come by topic
            known = topic if isinstance(topic, str) else self._partitions.name_of(topic)
            self._topic, self._topic_name = topic, known
        return self._topic_name


class FollowerRound(FetchRound):
    """A round for a follower: to the end of the logs, and where they diverge, that. ``wait_ms``:
    for replicas that are held back it is worth to wait so long only (KIP-73), None without any.
    Those that have all of their partition rest in the session from then on."""

    bound = ReadUntil.END

    def __init__(
        self,
        follower: FollowerAsk,
        state: BrokerState,
        request: PlainFetch,
        version: int,
        wanted: list[FetchPartition],
        listener: str,
        wait: bool,
    ) -> None:
        self.wait_ms: int | None = None
        self.held_back = 0
        """Bytes of records for replicas that count for the limit."""
        self._follower = follower
        throttles = state.throttles
        self._throttles = throttles if throttles is not None and throttles.is_on else None
        super().__init__(state, request, version, wanted, listener, wait)
        if not wanted and follower.session is not None:
            self.complete = request.min_bytes <= 0

    def _read(self, item: FetchPartition, room: int, *, first: bool) -> Found:
        follower, partition = self._follower, item.found
        parted = None
        if follower.parted:
            parted = follower.parted.get((item.topic, item.ask.partition))
        if parted is not None and isinstance(partition, Partition):
            return self._parted(item, partition, parted)
        if self._throttles is not None and isinstance(partition, Partition):
            found = self._throttled(self._throttles, item, partition, room, first=first)
        else:
            found = super()._read(item, room, first=first)
        if not found.records:
            self._has_all(item, found)
        return found

    def _throttled(
        self,
        throttles: ReplicaThrottles,
        item: FetchPartition,
        partition: Partition,
        room: int,
        *,
        first: bool,
    ) -> Found:
        key = partition.topic, partition.index
        if not throttles.holds_back(key, self._follower.replica.id):
            return super()._read(item, room, first=first)
        if self.held_back < throttles.left():
            found = super()._read(item, room, first=first)
            self.held_back += length_of(found)
            return found
        found = super()._read(item, 0, first=False)  # with its errors
        if item.ask.fetch_offset < partition.log.end_offset:
            self.wait_ms = throttles.wait_ms()
        return found

    def _has_all(self, item: FetchPartition, found: Found) -> None:
        """Answer what the follower waits for (a log start that moved, KIP-1166's high watermark);
        look at the partition again when it has changed."""
        session, partition = self._follower.session, item.found
        if session is None or not isinstance(partition, Partition) or partition.lead is None:
            return
        key = item.topic, item.ask.partition
        known = session.partitions[key]
        is_start_told = found.log_start_offset == known.log_start_offset
        told = is_start_told and found.high_watermark == known.high_watermark
        if not is_start_told or (not told and partition.lead.is_read_elsewhere):
            self.complete = True
        if item.ask.fetch_offset == partition.log.end_offset:
            session.rest(key, told=told)

    def _parted(self, item: FetchPartition, partition: Partition, parted: EpochEnd) -> Found:
        index = item.ask.partition
        self.diverging[item.topic, index] = FetchResponseEpochEndOffset(*parted)
        self.complete = True
        high, stable = partition.high_watermark, partition.last_stable_offset
        return Found(index, 0, high, stable, partition.log.start_offset, b"")
