"""Makes this broker's partitions with several replicas match the image of the cluster.

::

    image ── roles ─▶ over   waiters are answered, copying stops, the high watermark is noted
                      begun  logs are opened, a leader's log has its epoch before the first record;
                             then it leads, or copies from its leader
                      same   its leader hears of the new state (ISR, assignment, minimum)

One :class:`~tallymark.broker.partitions.partition.Partition` is one role in one leader epoch; what
carries over to the next one is the log and the high watermark. Leads end at once when the session
in ZooKeeper must be taken for dead (:meth:`ReplicatedPartitions.resign`): another broker may lead
by then, under a new epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.broker.leadership.open_logs import Failed, LogOpener, Opened, PartitionToOpen
from tallymark.broker.leadership.replica_parts import ReplicaParts
from tallymark.broker.leadership.roles import (
    Duty,
    Role,
    changes,
    counts_as_registered,
    roles_in,
)
from tallymark.broker.metadata.image import MetadataImage, TopicImage
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.yielding import in_turns
from tallymark.errors import TallymarkError
from tallymark.log import Log, LogManager
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import NO_LEADER, PartitionView, TopicSettings

log: Final = logging.getLogger(__name__)

NOTHING: Final = MetadataImage("")
"""Of which every image differs."""
_TURN: Final = 20
"""Partitions that begin in one turn of the event loop, some milliseconds."""


@dataclass(frozen=True, slots=True)
class Owner:
    """What the owner of all partitions does for those with several replicas. ``make`` makes
    the partition (topic, number) of a log in a leader epoch; ``led`` and ``given_up`` hear of each
    that this broker begins and ceases to lead; ``defaults`` are the settings for topics."""

    make: Callable[[TopicImage, int, Log, int], Partition]
    led: Callable[[Partition], None]
    given_up: Callable[[Partition], None]
    defaults: Callable[[], TopicSettings]


class ReplicatedPartitions:
    """Those of broker ``me``. Belongs to the event loop; :meth:`apply` is called by one caller at a
    time."""

    def __init__(
        self,
        me: int,
        parts: ReplicaParts,
        partitions: Partitions,
        manager: LogManager,
        opener: LogOpener,
        owner: Owner,
    ) -> None:
        self._me = me
        self._parts = parts
        self._leads = parts.leads
        self._followers = parts.followers
        self._connections = parts.connections
        self._suspects = parts.suspects
        self._partitions = partitions
        self._manager = manager
        self._opener = opener
        self._owner = owner
        self._roles: dict[TopicPartition, Role] = {}
        self._failed: set[str] = set()
        """Topics with a partition that could not be opened; tried again with every image."""
        self._epoch = -1
        self._led_as: dict[TopicPartition, Role] = {}
        """The last lead of each partition that this process began: its epoch is in the log."""
        self._counted = False
        """Whether leads that the last image named were this broker's."""
        self._defaults = owner.defaults()

    def registered(self, epoch: int) -> None:
        """This broker is registered under this broker epoch; what it led before was given up."""
        self.resign()
        self._epoch = epoch
        self._followers.registered(epoch)

    def resign(self) -> None:
        """The session must be taken for dead: stop leading. Partitions that are followed go on;
        logs that were led stay here, to be flushed and looked after."""
        self._epoch = -1
        self._counted = False
        for key, role in list(self._roles.items()):
            if role.duty is Duty.LEADER:
                del self._roles[key]
                gone, topic = self._stop_leading(key), self._partitions.image.topics.get(key[0])
                if gone is not None and topic is not None:
                    idle = Role(Duty.IDLE, NO_LEADER, role.epoch, role.topic_id)
                    self._hold(key, self._made(topic, key[1], gone.log, idle), idle)

    def take_defaults(self) -> None:
        """What holds for topics that do not set it themselves may have changed."""
        if (defaults := self._owner.defaults()) == self._defaults:
            return
        self._defaults, image = defaults, self._partitions.image
        here = {
            key: role
            for key, role in self._roles.items()
            if key[0] in image.topics and key[1] < len(image.topics[key[0]].partitions)
        }
        self._note_states(image, here, NOTHING)

    def grows(self, partition: Partition) -> None:
        """The partition, which this broker leads as its one replica, gets more of them: the lead
        goes on in the same leader epoch."""
        epoch, topic_id = partition.leader_epoch, partition.topic_id
        key = partition.topic, partition.index
        self._led_as[key] = Role(Duty.LEADER, self._me, epoch, topic_id)

    async def apply(self, image: MetadataImage, touched: Iterable[str]) -> Sequence[Failed]:
        """Apply ``image``, in which the topics ``touched`` have changed or are gone. Returns the
        partitions whose logs cannot be used."""
        epoch = self._epoch
        counts = counts_as_registered(image, self._me, epoch)
        names = self._failed.union(touched)
        if counts != self._counted:
            names |= set(image.topics)
        self._counted = counts
        if image.brokers != self._partitions.image.brokers:
            self._connections.brokers_changed(image.brokers)
            self._leads.brokers_changed(image.views)
            self._suspects.brokers_changed(image.views)
        before = {key: role for key, role in self._roles.items() if key[0] in names}
        topics = [image.topics[name] for name in names if name in image.topics]
        found = changes(before, dict(roles_in(topics, self._me, counts=counts)))
        self._note_states(image, found.same, self._partitions.image)
        await self._end(found.over, image)
        failed = await self._begin(found.begun, image, epoch)
        self._failed = {failure.wanted.topic.name for failure in failed}
        return failed

    def _note_states(
        self, image: MetadataImage, same: Mapping[TopicPartition, Role], before: MetadataImage
    ) -> None:
        """Of leads that go on, those that are not as ``before``: of thousands nearly all are."""
        for key, role in same.items():
            if role.duty is Duty.LEADER and not _is_as_before(key, image, before):
                view = self._view(image.topics[key[0]], key[1])
                self._leads.configured(key, view.assignment, view.min_insync)
                self._leads.state_seen(key, view.state)

    # --- roles that end

    async def _end(self, over: Mapping[TopicPartition, Role], image: MetadataImage) -> None:
        await self._followers.unfollow(
            [key for key, role in over.items() if role.duty is Duty.FOLLOWER]
        )
        for key, role in over.items():
            if self._roles.pop(key, None) is None:
                continue  # the session was lost meanwhile
            if role.duty is Duty.LEADER:
                self._stop_leading(key, deleted=role.topic_id not in image.names_by_id)
            else:
                self._remove(key, deleted=role.topic_id not in image.names_by_id)

    def _stop_leading(self, key: TopicPartition, *, deleted: bool = False) -> Partition | None:
        self._leads.end(key, deleted=deleted)
        partition = self._remove(key, deleted=deleted)
        if partition is not None:
            self._owner.given_up(partition)
        return partition

    def _remove(self, key: TopicPartition, *, deleted: bool) -> Partition | None:
        partition = self._partitions.held(*key)
        if partition is not None:
            self._manager.high_watermarks.note(*key, partition.high_watermark)
            self._partitions.remove(partition, deleted=deleted)
        return partition

    # --- roles that begin

    async def _begin(
        self, begun: Mapping[TopicPartition, Role], image: MetadataImage, epoch: int
    ) -> Sequence[Failed]:
        if not begun:
            return ()
        wanted = [PartitionToOpen(image.topics[key[0]], key[1], True) for key in begun]
        opened, failed = await asyncio.to_thread(self._opener.open, wanted)
        leads: list[Opened] = []
        others: list[Opened] = []
        for each in opened:
            role = begun[_key(each)]
            if self._is_of_before(each, role):
                self._epochs_lost(each, role)
            elif role.duty is Duty.LEADER:
                self._led_as[_key(each)] = role
                leads.append(each)
            else:
                others.append(each)
        failed += await self._lead_all(leads, begun, epoch)
        async for each in in_turns(others, _TURN):
            role = begun[_key(each)]
            topic, index = each.wanted.topic, each.wanted.index
            is_member = self._me in topic.partitions[index].isr
            made = self._made(topic, index, each.log, role)
            self._hold(_key(each), made, role, is_member=is_member)
        return failed

    async def _lead_all(
        self, leads: Sequence[Opened], begun: Mapping[TopicPartition, Role], epoch: int
    ) -> list[Failed]:
        """Lead these, each in an epoch that its log has then. Returns those that failed."""
        failed: list[Failed] = []
        later: list[tuple[Opened, int]] = []
        async for each in in_turns(leads, _TURN):
            if each.log.config.flush_before_expose:
                later.append((each, begun[_key(each)].epoch))
                continue
            try:
                each.log.note_epoch(begun[_key(each)].epoch)
            except TallymarkError as error:
                failed.append(Failed(each.wanted, error))
            else:
                self._lead_in(epoch, each, begun)
        for started in await asyncio.to_thread(self._opener.start_epochs, later):
            if isinstance(started, Failed):
                failed.append(started)
            else:
                self._lead_in(epoch, started[0], begun)
        return failed

    def _lead_in(self, epoch: int, each: Opened, begun: Mapping[TopicPartition, Role]) -> None:
        if self._epoch == epoch:  # else the session was lost meanwhile
            self._lead(each, begun[_key(each)])

    def _is_of_before(self, opened: Opened, role: Role) -> bool:
        """Whether the role's epoch has been before, as the log shows: ZooKeeper has lost states. A
        leader begins an epoch that is in no log; two leaders of one epoch would write different
        records that no replica could tell apart."""
        epoch = opened.claim.log_epoch
        if role.duty is Duty.LEADER:
            return epoch >= role.epoch and self._led_as.get(_key(opened)) != role
        return role.duty is Duty.FOLLOWER and epoch > role.epoch

    def _epochs_lost(self, opened: Opened, role: Role) -> None:
        key, topic = _key(opened), opened.wanted.topic
        idle = Role(Duty.IDLE, NO_LEADER, role.epoch, role.topic_id)
        self._hold(key, self._made(topic, key[1], opened.log, idle), idle)
        self._parts.lost_epochs.found(
            key, self._view(topic, key[1]), opened.log, opened.claim.log_epoch
        )

    def _lead(self, opened: Opened, role: Role) -> None:
        key = _key(opened)
        partition = self._made(opened.wanted.topic, key[1], opened.log, role)
        self._roles[key] = role
        self._partitions.add(partition)
        view = self._view(opened.wanted.topic, key[1])
        if view.state.leads_unclean and view.state.leader_epoch == role.epoch:
            self._parts.unclean_election(partition)
        self._leads.begin(partition, view)
        log.info(
            "leads partition=%s epoch=%d offset=%d high_watermark=%d",
            partition,
            role.epoch,
            opened.log.end_offset,
            partition.high_watermark,
        )
        self._owner.led(partition)

    def _hold(
        self, key: TopicPartition, partition: Partition, role: Role, *, is_member: bool = True
    ) -> None:
        """Follow, or keep the log as it is."""
        self._roles[key] = role
        self._partitions.hold(partition)
        if role.duty is Duty.FOLLOWER:
            self._followers.follow(partition, role.leader, is_member=is_member)
            log.info(
                "follows partition=%s leader=%d epoch=%d offset=%d high_watermark=%d",
                partition,
                role.leader,
                role.epoch,
                partition.log.end_offset,
                partition.high_watermark,
            )

    def _view(self, topic: TopicImage, index: int) -> PartitionView:
        return topic.view_of(index, self._owner.defaults())

    def _made(self, topic: TopicImage, index: int, log_: Log, role: Role) -> Partition:
        partition = self._owner.make(topic, index, log_, role.epoch)
        state = topic.partitions[index].state
        if state.unclean:
            self._parts.unclean_epochs[topic.topic_id, index] = state.unclean_epoch
        partition.begin_replicated(self._manager.high_watermarks.of(topic.name, index))
        return partition


def _is_as_before(key: TopicPartition, image: MetadataImage, before: MetadataImage) -> bool:
    """Whether nothing of the partition has changed that its leader hears of."""
    (name, index), topic = key, image.topics[key[0]]
    had = before.topics.get(name)
    return (
        had is not None
        and index < len(had.partitions)
        and topic.partitions[index] is had.partitions[index]
        and topic.configs == had.configs
    )


def _key(opened: Opened) -> TopicPartition:
    return opened.wanted.topic.name, opened.wanted.index
