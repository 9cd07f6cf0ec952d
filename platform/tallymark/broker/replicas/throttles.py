"""Which replicas the two limits of KIP-73 hold back now, and the limit of what is led here.

::

    topic   leader.replication.throttled.replicas = 0:1     what broker 1 sends of partition 0
            follower.replication.throttled.replicas = 0:3   what broker 3 copies of partition 0
    broker  leader., follower.replication.throttled.rate    bytes per second, over all of them

Only a replica that is out of sync is held back: one in sync would leave the ISR.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from tallymark.broker.partitions.table import Partitions
from tallymark.errors import UserError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.throttle import ReplicationThrottle, ThrottledReplicas

LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
_NO_LIMIT: Final = 2**63 - 1
"""The default of both rates."""


class ReplicaThrottles:
    """Those of broker ``me``. Belongs to the event loop; ``clock_ms`` is a monotonic clock. The
    limit of followers is :attr:`tallymark.broker.replicas.fetching.Followers.throttle`."""

    def __init__(self, me: int, partitions: Partitions, clock_ms: Callable[[], int]) -> None:
        self._me = me
        self._partitions = partitions
        self._clock_ms = clock_ms
        self.leading = ReplicationThrottle(None, clock_ms())
        """``leader.replication.throttled.rate``; see :meth:`set_rate`."""

    @property
    def is_on(self) -> bool:
        """Whether ``leader.replication.throttled.rate`` is set."""
        return self.leading.rate is not None

    def set_rate(self, rate: int | None) -> None:
        """``leader.replication.throttled.rate`` from now on."""
        self.leading.set_rate(rate, self._clock_ms())

    def holds_back(self, key: TopicPartition, follower: int) -> bool:
        """Whether what this broker sends of a partition to broker ``follower`` counts for the
        limit."""
        return self._is_listed(key, LEADERS, follower)

    def is_held_back(self, key: TopicPartition) -> bool:
        """Whether what this broker copies of a partition counts for its own limit."""
        return self._is_listed(key, FOLLOWERS, self._me)

    def left(self) -> int:
        """Bytes that may be sent now for replicas that are held back."""
        return self.leading.left(self._clock_ms())

    def charge(self, size: int) -> None:
        """So many bytes are sent for them."""
        self.leading.charge(size, self._clock_ms())

    def wait_ms(self) -> int:
        """How long it is until something may be sent for them."""
        return self.leading.wait_ms(self._clock_ms())

    def _is_listed(self, key: TopicPartition, config: str, follower: int) -> bool:
        topic = self._partitions.image.topics.get(key[0])
        text = "" if topic is None else topic.configs.get(config, "")
        if topic is None or not text or key[1] >= len(topic.partitions):
            return False
        in_sync = follower in topic.partitions[key[1]].isr
        return _listed(text).applies(key[1], self._me, in_sync=in_sync)


def rate_of(setting: int) -> int | None:
    """The limit that a broker's setting says; None for its default, no limit."""
    return None if setting >= _NO_LIMIT else setting


@lru_cache(maxsize=1024)
def _listed(text: str) -> ThrottledReplicas:
    """What another program has stored may be no list: then nothing is held back."""
    try:
        return ThrottledReplicas(text)
    except UserError:
        return ThrottledReplicas("")
