"""The ids and settings of the source's topics, from ZooKeeper or from the brokers.

Our brokers keep them in ZooKeeper, where a change is seen at once. Brokers of Apache Kafka return
them on request.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.configs import ConfigResource
from tallymark.coordination import TopicConfigs, TopicRegistry, ZooKeeper

NO_ID: Final = uuid.UUID(int=0)
"""The id of a topic that is gone, or that Apache Kafka before 2.8 created."""


class Catalog(Protocol):
    """The source's topics. KafkaError, ConnectError, SessionLostError: there is no answer."""

    def ids(self, topics: Iterable[str]) -> dict[str, uuid.UUID]:
        """The ids of these topics now; without those that are gone."""
        ...

    def configs(self, topic: str) -> Mapping[str, str]:
        """The settings that a topic has of its own; none when there is no such topic."""
        ...


class ZooKeeperCatalog:
    """The topics that our brokers keep in ZooKeeper."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._topics = TopicRegistry(zookeeper)
        self._configs = TopicConfigs(zookeeper)

    def ids(self, topics: Iterable[str]) -> dict[str, uuid.UUID]:
        found = self._topics.get_many(sorted(set(topics)))
        return {name: topic.topic_id for name, topic in found.items()}

    def configs(self, topic: str) -> Mapping[str, str]:
        return self._configs.get(topic)


class BrokerCatalog:
    """The topics that brokers return."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def ids(self, topics: Iterable[str]) -> dict[str, uuid.UUID]:
        wanted = set(topics)
        found = self._admin.topics() if wanted else {}
        return {name: found[name].topic_id for name in wanted & found.keys()}

    def configs(self, topic: str) -> Mapping[str, str]:
        resource = ConfigResource("topic", topic)
        found = self._admin.describe_configs([resource]).done.get(resource, {})
        return {
            name: entry.value
            for name, entry in found.items()
            if not entry.is_default and entry.value is not None
        }
