"""The topics that were deleted, for brokers that were away at that time.

::

    /brokers/deleted_topics/[broker id]-[topic id, 32 hex digits]

When a starting broker finds partitions of unknown topics on its disks, either the topics were
deleted, or ZooKeeper has lost its data. So the transaction that deletes a topic adds one node for
every broker that has partitions of it, and the broker removes its node once they are gone from its
disks. A log whose topic id is in the list is deleted; others are left alone. Topics that Apache
Kafka before 2.8 created have no id and are not in the list.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterable
from typing import Final

from tallymark.coordination import paths
from tallymark.coordination.session.errors import NoNodeError
from tallymark.coordination.session.nodes import Create, Delete
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics.registry import TopicAssignment

_ID: Final = re.compile(r"[0-9a-f]{32}")
_NO_ID: Final = uuid.UUID(int=0)
"""The id of all topics without one: it does not identify a topic."""
_STEPS: Final = 500
"""Nodes in one transaction."""


def notes_of(topic: TopicAssignment) -> list[Create]:
    """The steps for the transaction that deletes the topic."""
    if topic.topic_id == _NO_ID:
        return []
    brokers = {broker for replicas in topic.assignment.values() for broker in replicas}
    return [Create(_path(broker, topic.topic_id)) for broker in sorted(brokers)]


class DeletedTopics:
    """One broker's part of the list."""

    def __init__(self, zookeeper: ZooKeeper, broker_id: int) -> None:
        self._zookeeper = zookeeper
        self._broker_id = broker_id

    def here(self) -> set[uuid.UUID]:
        """Ids of deleted topics of which this broker may still have partitions."""
        self._zookeeper.ensure(paths.DELETED_TOPICS)
        found: set[uuid.UUID] = set()
        for name in self._zookeeper.children(paths.DELETED_TOPICS):
            broker, _, digits = name.partition("-")
            if broker == str(self._broker_id) and _ID.fullmatch(digits):
                found.add(uuid.UUID(hex=digits))
        return found - {_NO_ID}

    def forget(self, topic_ids: Iterable[uuid.UUID]) -> None:
        """This broker has no partitions of these any more. No error where they are not in the
        list."""
        doomed = [Delete(_path(self._broker_id, each)) for each in self.here() & set(topic_ids)]
        for at in range(0, len(doomed), _STEPS):
            try:
                self._zookeeper.commit(doomed[at : at + _STEPS])
            except NoNodeError:  # an earlier process of this broker is just doing the same
                for step in doomed[at : at + _STEPS]:
                    with contextlib.suppress(NoNodeError):
                        self._zookeeper.commit([step])


def _path(broker_id: int, topic_id: uuid.UUID) -> str:
    return f"{paths.DELETED_TOPICS}/{broker_id}-{topic_id.hex}"
