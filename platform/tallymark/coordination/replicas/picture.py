"""The controller's picture, read from the nodes: brokers, assignments, states, settings.

A node that cannot be read leaves its partition out, or its topic: nothing is decided about it, and
it is reported once. Everything else goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from tallymark.coordination import paths
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.cluster.brokers import BrokerInfo, BrokerRegistry
from tallymark.coordination.session.errors import MalformedNodeError
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics import configs
from tallymark.coordination.topics.registry import TopicRegistry
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import (
    DEFAULTS,
    BrokerView,
    PartitionState,
    PartitionView,
    TopicSettings,
    settings_of,
)


class PictureReader:
    """Reads the parts of a picture. Raises the session's errors only."""

    def __init__(self, zookeeper: ZooKeeper, defaults: TopicSettings = DEFAULTS) -> None:
        self._zookeeper = zookeeper
        self._defaults = defaults
        self._topics = TopicRegistry(zookeeper)
        self._registry = BrokerRegistry(zookeeper)
        self._notes = BrokerNotes(zookeeper)
        self._malformed = self._topics.malformed

    def views(self, names: Iterable[str] | None = None) -> dict[TopicPartition, PartitionView]:
        """The partitions of these topics, default: of all, that have an assignment and a state."""
        wanted = list(self._topics.names() if names is None else names)
        topics = self._topics.get_many(wanted)
        settings = self._settings(list(topics))
        topics = {name: topic for name, topic in topics.items() if name in settings}
        keys = [(name, index) for name, topic in topics.items() for index in topic.assignment]
        states = self.states(keys)
        found: dict[TopicPartition, PartitionView] = {}
        for name, index in keys:
            state = states.get((name, index))
            assignment = topics[name].of(index)
            if state is not None and assignment.replicas:
                view = PartitionView(assignment, state)
                found[name, index] = replace(
                    view,
                    min_insync=settings[name].min_insync,
                    unclean_allowed=settings[name].unclean_allowed,
                )
        return found

    def states(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """The states of partitions; those without one that can be read are left out."""
        return self._topics.readable_states(list(keys))[0]

    def brokers(
        self, is_refused: Callable[[BrokerInfo], bool]
    ) -> tuple[Mapping[int, BrokerView], frozenset[int]]:
        """The live brokers, and those of them that are suspected: another broker reported the
        present process of it, and ``is_refused``, which tries a connection, confirms that. A report
        that is not confirmed is removed."""
        live = self._registry.brokers(malformed=self._malformed)
        leaving, reported = self._notes.leaving(), self._notes.suspects()
        views = {
            info.id: BrokerView(info.id, info.epoch, info.rack, leaving.get(info.id) == info.epoch)
            for info in live.values()
        }
        suspects: set[int] = set()
        for broker, epoch in reported.items():
            info = live.get(broker)
            if info is not None and info.epoch == epoch >= 0 and is_refused(info):
                suspects.add(broker)
            else:
                self._notes.clear(broker)
        return views, frozenset(suspects)

    def forget_reports(self, broker: int) -> None:
        """Remove what other brokers reported of it."""
        self._notes.clear(broker)

    def _settings(self, names: list[str]) -> Mapping[str, TopicSettings]:
        """Of each topic. One whose node cannot be read is left out: its ISRs could shrink below its
        own minimum."""
        places = [paths.topic_config(name) for name in names]
        found = dict.fromkeys(names, self._defaults)
        for name, path, node in zip(names, places, self._zookeeper.read_many(places), strict=True):
            if node is None:
                continue
            try:
                found[name] = settings_of(configs.decode(path, node.data), self._defaults)
            except MalformedNodeError as error:
                del found[name]
                self._malformed.left_out(path, error)
            else:
                self._malformed.fine(path)
        return found
