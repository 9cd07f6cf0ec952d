"""Which of a fetcher's partitions the next Fetch asks for. Pure.

Left out: partitions in which a step is being done, that are set aside after a failure, or that are
throttled while their limit is used up (KIP-73). The leader waits no longer than until the next of
these may be asked for again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tallymark.broker.replicas.fetch_settings import FetchSettings
from tallymark.broker.replicas.sessions import FollowerSession, Key
from tallymark.replication.following import Ask
from tallymark.replication.throttle import ReplicationThrottle


class Candidate(NamedTuple):
    """A partition: its ask, None while it is not to be asked; when that ends (ms, 0: it is not
    known); whether its bytes count for the throttle."""

    key: Key
    ask: Ask | None
    paused_until_ms: int
    throttled: bool


class Candidates:
    """All of one fetcher. What may be asked of them is what ``session`` wants."""

    def __init__(self, session: FollowerSession) -> None:
        self._session = session
        self._resting: dict[Key, Candidate] = {}
        self._throttled: dict[Key, Candidate] = {}
        self._is_allowed = True
        """Whether those that are throttled may be asked for."""

    @property
    def resting(self) -> Collection[Key]:
        """Those that are not asked for at the moment, except for the throttle."""
        return self._resting.keys()

    def is_throttled(self, key: Key) -> bool:
        """Whether its bytes count for the throttle."""
        return key in self._throttled

    def put(self, candidate: Candidate) -> None:
        """As it is from now on."""
        key = candidate.key
        if candidate.ask is None:
            self._resting[key] = candidate
        else:
            self._resting.pop(key, None)
        if candidate.throttled:
            self._throttled[key] = candidate
        else:
            self._throttled.pop(key, None)
        self._want(candidate)

    def drop(self, key: Key) -> None:
        """It is followed no longer, or by another fetcher."""
        self._resting.pop(key, None)
        self._throttled.pop(key, None)
        self._session.want(key, None)

    def due(self, now_ms: int) -> list[Key]:
        """Those that are not asked for, and may be by now."""
        return [key for key, one in self._resting.items() if one.paused_until_ms <= now_ms]

    def again_ms(self, throttle: ReplicationThrottle, now_ms: int) -> int | None:
        """Leave out what ``throttle`` does not allow now. Returns when something that is left out
        is to be looked at again, None for never."""
        allowed = throttle.allows(now_ms)
        if allowed is not self._is_allowed:
            self._is_allowed = allowed
            for one in self._throttled.values():
                self._want(one)
        paused = (one.paused_until_ms for one in self._resting.values())
        again = [until_ms for until_ms in paused if until_ms > now_ms]
        if not allowed and any(one.ask is not None for one in self._throttled.values()):
            again.append(now_ms + throttle.wait_ms(now_ms))
        return min(again, default=None)

    def _want(self, candidate: Candidate) -> None:
        held_back = candidate.throttled and not self._is_allowed
        self._session.want(candidate.key, None if held_back else candidate.ask)


def longest_wait_ms(again_ms: int | None, now_ms: int, settings: FetchSettings) -> int:
    """How long the leader may wait for records, where something is to be looked at ``again_ms``."""
    longest = settings.replica_fetch_wait_max_ms
    return longest if again_ms is None else min(longest, max(0, again_ms - now_ms))
