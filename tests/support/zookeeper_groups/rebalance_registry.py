"""What ZooKeeper holds for a group, in memory, with one-shot watches: the simulation's registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.protocol.topic_partition import TopicPartition

MEMBERS = "members"
BROKERS = "brokers"
TOPICS = "topics"


def topic_watch(topic: str) -> str:
    """The name of the watch on one topic's node, there or not."""
    return f"topic {topic}"


@dataclass
class Registry:
    """Members and owners are ephemeral: their value holds the session they live with.

    ``tell(consumer)`` is called once for each watch of a consumer that fires.
    """

    tell: Callable[[str], None]
    members: dict[str, tuple[int, Subscription]] = field(default_factory=dict)
    owners: dict[TopicPartition, int] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    topics: dict[str, list[int]] = field(default_factory=dict)
    brokers: set[int] = field(default_factory=set)
    live: set[int] = field(default_factory=set)
    _sessions: int = 0
    _watches: dict[tuple[str, str], None] = field(default_factory=dict)

    # -- sessions and watches -----------------------------------------------------------------

    def new_session(self) -> int:
        """Open a session."""
        self._sessions += 1
        self.live.add(self._sessions)
        return self._sessions

    def expire(self, session: int) -> None:
        """Give a session up: all that is ephemeral of it goes at once."""
        self.live.discard(session)
        self.owners = {place: s for place, s in self.owners.items() if s != session}
        for name in [name for name, (s, _) in self.members.items() if s == session]:
            self.leave(name)

    def watch(self, node: str, consumer: str) -> None:
        """Tell the consumer once when the node changes; twice asked is once told."""
        self._watches[node, consumer] = None

    def drop_watches(self, consumer: str) -> int:
        """The consumer's connection is gone, and its watches; how many there were."""
        mine = [key for key in self._watches if key[1] == consumer]
        for key in mine:
            del self._watches[key]
        return len(mine)

    def _fire(self, node: str) -> None:
        for key in [key for key in self._watches if key[0] == node]:
            del self._watches[key]
            self.tell(key[1])

    # -- changes ------------------------------------------------------------------------------

    def join(self, name: str, session: int, subscription: Subscription) -> None:
        """Make a member's node, unless it stands."""
        if self.members.get(name, (0, None))[0] != session:
            self.members[name] = (session, subscription)
            self._fire(MEMBERS)

    def leave(self, name: str) -> None:
        """Delete a member's node."""
        if self.members.pop(name, None) is not None:
            self._fire(MEMBERS)

    def put_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, or let it grow."""
        new = topic not in self.topics
        self.topics[topic] = list(range(partitions))
        self._fire(topic_watch(topic))
        if new:
            self._fire(TOPICS)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        del self.topics[topic]
        self._fire(topic_watch(topic))
        self._fire(TOPICS)

    def set_broker(self, broker: int, alive: bool) -> None:
        """A broker comes or goes."""
        (self.brokers.add if alive else self.brokers.discard)(broker)
        self._fire(BROKERS)
