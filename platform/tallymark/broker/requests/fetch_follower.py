"""A follower's Fetch (KIP-903): what it says of the follower is told to the leader's side of each
partition, once; then its partitions are read to the end of the log.

Checked for each partition, in this order::

    the topic's id, and that it is led here   UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER ...
    the leader epoch in which it asks         FENCED_LEADER_EPOCH (older, or none is told),
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

from tallymark.broker.partitions.lead import ReadUntil
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.requests.fetch_round import FetchPartition, FetchRound
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
        self._partitions = state.partitions
        self._replica = replica
        self._refused: dict[tuple[Topic, int], KafkaError] = {}
        self._topic: Topic | None = None
        self._topic_name = ""

    def take(self, asked: Iterable[tuple[Topic, Ask]]) -> None:
        """Tell the leads of these partitions, once."""
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
            told = f"{partition} has no replica on broker {self._replica.id}"
            raise KafkaError(CODES["UNKNOWN_LEADER_EPOCH"], told)
        return partition.lead.fetched(
            FollowerFetch(
                self._replica.id,
                self._replica.epoch,
                ask.fetch_offset,
                ask.last_fetched_epoch,
                ask.log_start_offset,
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
    """A round for a follower: to the end of the logs, and where they diverge, that."""

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
        self._parted = follower.parted
        super().__init__(state, request, version, wanted, listener, wait)

    def _read(self, item: FetchPartition, room: int, *, first: bool) -> Found:
        parted = self._parted.get((item.topic, item.ask.partition)) if self._parted else None
        if parted is None or isinstance(item.found, KafkaError):
            return super()._read(item, room, first=first)
        partition, index = item.found, item.ask.partition
        self.diverging[item.topic, index] = FetchResponseEpochEndOffset(*parted)
        self.complete = True
        high, stable = partition.high_watermark, partition.last_stable_offset
        return Found(index, 0, high, stable, partition.log.start_offset, b"")
