"""Consumer groups that coordinate themselves in ZooKeeper: their members, the partitions of each,
their offsets. Methods and results are those of :mod:`.groups`.

Nothing here joins a group; offsets are only changed while a group has no members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tallymark.client.admin.groups import GroupDescription, GroupListing, MemberDescription
from tallymark.coordination import paths
from tallymark.coordination.consumers.offsets import OffsetRegistry, Position
from tallymark.coordination.consumers.registry import ConsumerRegistry, groups
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import TopicPartition

_NO_GROUP: Final = CODES["GROUP_ID_NOT_FOUND"]
_NON_EMPTY: Final = CODES["NON_EMPTY_GROUP"]


class ZooKeeperGroups:
    """The groups below one cluster's root in ZooKeeper. Its methods block; it is thread-safe
    because its session is."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper

    @classmethod
    def open(cls, connect: str, timeout_ms: int) -> ZooKeeperGroups:
        """Of a session of its own, to be ended by :meth:`close`; ``connect`` holds the chroot.
        ConnectError after ``timeout_ms``, which bounds every request, too; UserError where there is
        no such chroot, so no group either."""
        session = ZooKeeper(connect, connect_timeout_ms=timeout_ms, command_timeout_ms=timeout_ms)
        return cls(session.start())

    def close(self) -> None:
        """End the session. Idempotent."""
        self._zookeeper.close()

    def list_groups(self) -> dict[str, GroupListing]:
        """Every group that has ever had a consumer or an offset."""
        names = groups(self._zookeeper)
        return {name: GroupListing(name, "consumer", self._state(name)) for name in names}

    def describe_group(self, group: str) -> GroupDescription:
        """State (Stable or Empty), members and their partitions. KafkaError GROUP_ID_NOT_FOUND."""
        self._check(group)
        registry = ConsumerRegistry(self._zookeeper, group)
        owned: dict[str, list[TopicPartition]] = {name: [] for name in registry.members()}
        for topic in self._topics(group, "owners"):
            for partition, consumer in sorted(registry.owners(topic).items()):
                owned.setdefault(consumer, []).append((topic, partition))
        members = (
            MemberDescription(name, partitions=tuple(parts))
            for name, parts in sorted(owned.items())
        )
        return GroupDescription(
            group, "Stable" if owned else "Empty", "consumer", "range", members=tuple(members)
        )

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """The offsets of the group: partition -> next offset. KafkaError GROUP_ID_NOT_FOUND."""
        self._check(group)
        positions = OffsetRegistry(self._zookeeper, group).read(self._stored(group))
        return {partition: position.offset for partition, position in positions.items()}

    def alter_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets from which the group continues; creates the group if there is none.
        KafkaError NON_EMPTY_GROUP while it has members."""
        self._check_empty(group)
        self._zookeeper.ensure(paths.group(group))
        positions = {partition: Position(offset) for partition, offset in offsets.items()}
        OffsetRegistry(self._zookeeper, group).commit(positions)

    def delete_group_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete the group's offsets for ``partitions``. KafkaError GROUP_ID_NOT_FOUND,
        NON_EMPTY_GROUP."""
        self._check(group)
        self._check_empty(group)
        for partition in partitions:
            self._zookeeper.delete_tree(paths.offset(group, *partition))

    def delete_group(self, group: str) -> None:
        """Remove the group with its offsets. KafkaError GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        self._check(group)
        self._check_empty(group)
        self._zookeeper.delete_tree(paths.group(group))

    def _state(self, group: str) -> str:
        return "Stable" if self._zookeeper.children(paths.members(group)) else "Empty"

    def _topics(self, group: str, folder: str) -> list[str]:
        return self._zookeeper.children(f"{paths.group(group)}/{folder}")

    def _stored(self, group: str) -> list[TopicPartition]:
        return [
            (topic, int(name))
            for topic in self._topics(group, "offsets")
            for name in self._zookeeper.children(f"{paths.group(group)}/offsets/{topic}")
            if name.isdecimal()
        ]

    def _check(self, group: str) -> None:
        if not self._zookeeper.exists(paths.group(group)):
            raise KafkaError(_NO_GROUP, f"group {group} in ZooKeeper")

    def _check_empty(self, group: str) -> None:
        if self._zookeeper.children(paths.members(group)):
            raise KafkaError(_NON_EMPTY, f"group {group} in ZooKeeper")
