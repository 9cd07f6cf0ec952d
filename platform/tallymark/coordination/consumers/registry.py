"""A group's live consumers and the owners of partitions: ``/consumers/[group]/ids`` and
``/consumers/[group]/owners``. The offsets are in :mod:`tallymark.coordination.consumers.offsets`.

An owner node holds the id of the consumer. It works as a lock: it is ephemeral, and a consumer that
wants a partition creates it or finds that another consumer still has it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.coordination import paths
from tallymark.coordination.consumers import subscriptions
from tallymark.coordination.consumers.offsets import chunks
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.coordination.session.client import WatchCallback
from tallymark.coordination.session.ephemeral import EphemeralNode
from tallymark.coordination.session.errors import BadVersionError, NodeExistsError, NoNodeError
from tallymark.coordination.session.nodes import ANY_VERSION, Check, Create, Delete
from tallymark.coordination.session.watches import Watch, watch_children
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger("tallymark.coordination")


@dataclass(frozen=True, slots=True)
class Conflict:
    """A partition that could not be claimed: ``owner`` is the consumer that has it."""

    topic: str
    partition: int
    owner: str


class ConsumerRegistry:
    """The members and owners of one group."""

    def __init__(self, zookeeper: ZooKeeper, group: str) -> None:
        self._zookeeper = zookeeper
        self._group = group
        self._folders: set[str] = set()

    # -- members ------------------------------------------------------------------------------

    def membership(self, consumer: str, subscription: Subscription) -> EphemeralNode:
        """The node that registers a consumer; call ``establish()`` in every session. No other
        consumer has the id, so an existing node is the consumer's own from before."""
        return EphemeralNode(
            self._zookeeper,
            paths.member(self._group, consumer),
            subscriptions.encode(subscription),
            is_ours=lambda content: True,
        )

    def members(self, watch: WatchCallback | None = None) -> dict[str, Subscription]:
        """The live consumers and what they subscribe to; ``watch`` fires once when one comes or
        goes. One whose node cannot be read is left out, and logged."""
        names = self._zookeeper.children(paths.members(self._group), watch)
        nodes = self._zookeeper.read_many([paths.member(self._group, name) for name in names])
        found: dict[str, Subscription] = {}
        for name, node in zip(names, nodes, strict=True):
            if node is None:
                continue
            try:
                found[name] = subscriptions.decode(node.data)
            except ValueError as error:
                LOG.warning("consumer %s of group %s is left out: %s", name, self._group, error)
        return found

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Call back when a consumer comes or goes, until the watch is cancelled."""
        return watch_children(self._zookeeper, paths.members(self._group), callback)

    # -- owners -------------------------------------------------------------------------------

    def claim(
        self, consumer: str, partitions: Iterable[TopicPartition], session: int = 0
    ) -> Conflict | None:
        """Become the owner of the partitions; with ``session`` in that one or not at all
        (SessionLostError), and only while the consumer's membership node exists (NoNodeError). At a
        conflict some may have been claimed: release them all."""
        wanted = sorted(partitions)
        try:
            return self._claim(consumer, wanted, session)
        except NoNodeError:
            # A topic's empty folder was removed between our check and our claim.
            self._folders.clear()
            return self._claim(consumer, wanted, session)

    def release(self, consumer: str, partitions: Iterable[TopicPartition]) -> None:
        """Give up those of the partitions that this session owns; others are left alone."""
        wanted = [paths.owner(self._group, *partition) for partition in sorted(partitions)]
        session = self._zookeeper.session
        ours = [
            Delete(path, node.version)
            for path, node in zip(wanted, self._zookeeper.read_many(wanted), strict=True)
            if node is not None and node.session == session and node.data == consumer.encode()
        ]
        for steps in chunks(ours):
            try:
                self._zookeeper.commit(steps)
            except (NoNodeError, BadVersionError):
                for step in steps:
                    self._zookeeper.delete(step.path)

    def owners(self, topic: str) -> dict[int, str]:
        """partition -> consumer of one topic, for those that have an owner."""
        folder = paths.owner(self._group, topic, 0).rpartition("/")[0]
        names = [name for name in self._zookeeper.children(folder) if name.isdecimal()]
        nodes = self._zookeeper.read_many([f"{folder}/{name}" for name in names])
        return {
            int(name): node.data.decode("utf-8", "replace")
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }

    def _claim(
        self, consumer: str, wanted: Sequence[TopicPartition], session: int
    ) -> Conflict | None:
        by_path = {paths.owner(self._group, *partition): partition for partition in wanted}
        for folder in sorted({path.rpartition("/")[0] for path in by_path} - self._folders):
            self._zookeeper.ensure(folder)
            self._folders.add(folder)
        # The fence: if the session ends and another begins meanwhile, the membership node is gone,
        # and the claim is not made: no one would release it.
        fence = [Check(paths.member(self._group, consumer), ANY_VERSION)] if session else []
        for some in chunks(list(by_path)):
            try:
                steps = [Create(path, consumer.encode(), ephemeral=True) for path in some]
                self._zookeeper.commit([*fence, *steps], session)
            except NodeExistsError:
                # The error has one path; which one matters only for the log line.
                return self._conflict(consumer, {path: by_path[path] for path in some})
        return None

    def _conflict(self, consumer: str, places: dict[str, TopicPartition]) -> Conflict:
        nodes = self._zookeeper.read_many(list(places))
        for (topic, partition), node in zip(places.values(), nodes, strict=True):
            if node is not None:
                return Conflict(topic, partition, node.data.decode("utf-8", "replace"))
        topic, partition = next(iter(places.values()))
        return Conflict(topic, partition, "a consumer that just left")


def groups(zookeeper: ZooKeeper) -> list[str]:
    """The groups that have ever had a consumer or an offset, sorted."""
    return zookeeper.children(paths.CONSUMERS)
