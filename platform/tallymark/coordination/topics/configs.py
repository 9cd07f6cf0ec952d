"""Settings of topics: ``/config/topics/[topic]`` holds ``{"version":1,"config":{name: text}}``.

They are written by :mod:`~tallymark.coordination.topics.writer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tallymark.coordination import paths
from tallymark.coordination.session import documents
from tallymark.coordination.session.client import WatchCallback
from tallymark.coordination.session.errors import MalformedNodeError
from tallymark.coordination.session.watches import Watch, watch_node
from tallymark.coordination.session.zookeeper import ZooKeeper


class TopicConfigs:
    """Reads the settings that topics of a cluster have of their own."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper

    def get(self, topic: str, watch: WatchCallback | None = None) -> dict[str, str]:
        """The topic's own settings, none when it has no node; ``watch`` fires once on a change."""
        path = paths.topic_config(topic)
        node = self._zookeeper.find(path, watch)
        return decode(path, node.data) if node else {}

    def get_many(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """topic -> settings, in one round trip's time."""
        places = [paths.topic_config(topic) for topic in topics]
        nodes = self._zookeeper.read_many(places)
        return {
            topic: decode(path, node.data) if node else {}
            for topic, path, node in zip(topics, places, nodes, strict=True)
        }

    def watch(self, topic: str, callback: Callable[[], None]) -> Watch:
        """Call back at changes of one topic's settings until the watch is cancelled."""
        return watch_node(self._zookeeper, paths.topic_config(topic), callback)


def encode(config: Mapping[str, str]) -> bytes:
    """The content of a settings node."""
    return documents.dump({"version": 1, "config": dict(sorted(config.items()))})


def decode(path: str, data: bytes) -> dict[str, str]:
    """A settings node; every value is text."""
    config = documents.field(path, documents.load(path, data), "config", dict)
    if not all(isinstance(value, str) for value in config.values()):
        raise MalformedNodeError(path, "a setting is not text")
    return dict(config)
