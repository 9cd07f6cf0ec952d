"""Which incarnation of a topic a stored offset belongs to.

A topic that is deleted and created again has the same name, another id, and offsets that begin at
0. An offset stored for the old topic means nothing in the new one: a mirror that continued there
would leave out its beginning. So the topic id is stored beside the offset::

    /consumers/[group]/topic_ids/[topic]/[p]        32 hex digits
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping

from tallymark.coordination import OffsetRegistry, ZooKeeper, paths
from tallymark.mirror.progress import Partition
from tallymark.mirror.source.catalog import NO_ID, Catalog

_log = logging.getLogger("mirror")


class TopicIds:
    """The ids of the source's topics, and those under which a group has copied them.

    All methods raise ConnectError and SessionLostError (ZooKeeper does not answer), and what the
    ``catalog`` raises."""

    def __init__(self, zookeeper: ZooKeeper, group: str, catalog: Catalog) -> None:
        self._zookeeper = zookeeper
        self._group = group
        self._catalog = catalog
        self._offsets = OffsetRegistry(zookeeper, group)

    def current(self, topics: Iterable[str]) -> dict[str, uuid.UUID]:
        """The ids of these topics now; NO_ID for those that are gone."""
        wanted = sorted(set(topics))
        found = self._catalog.ids(wanted)
        return {name: found.get(name, NO_ID) for name in wanted}

    def exists(self, topic: str) -> bool:
        """Whether there is such a topic now."""
        return topic in self._catalog.ids([topic])

    def copied(self, partitions: Iterable[Partition]) -> dict[Partition, uuid.UUID]:
        """The ids under which the partitions were copied; without partitions that never were."""
        wanted = sorted(partitions)
        nodes = self._zookeeper.read_many([self._path(partition) for partition in wanted])
        found: dict[Partition, uuid.UUID] = {}
        for partition, node in zip(wanted, nodes, strict=True):
            try:
                if node is not None:
                    found[partition] = uuid.UUID(hex=node.data.decode("ascii"))
            except ValueError:
                _log.warning("%s holds no topic id but %r", self._path(partition), node)
        return found

    def remember(self, ids: Mapping[Partition, uuid.UUID]) -> None:
        """From now on the partitions are copied under these ids."""
        for partition, identity in ids.items():
            self._zookeeper.put(self._path(partition), identity.hex.encode())

    def stored(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offsets that the group has stored, of the partitions that have one."""
        return {key: at.offset for key, at in self._offsets.read(partitions).items()}

    def _path(self, partition: Partition) -> str:
        topic, number = partition
        name = paths.segment(topic, "a topic")
        return f"{paths.group(self._group)}/topic_ids/{name}/{number}"
