"""What a leader knows of its log and of each follower in one leader epoch.

*Caught up* (Kafka's ``Replica.isCaughtUp``): ``caught_up_ms`` is the last time at which the
follower had everything. It is *now* when a fetch asks for the leader's end; it is the time of the
fetch before when this one asks for what was the end then: under steady writes a follower never
asks for the very end, and still is in sync.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from tallymark.replication.model import UNKNOWN_EPOCH, BrokerView

UNKNOWN_END: Final = -1
NEVER: Final = -(2**62)
"""A time in ms before all others."""
NEVER_STALE: Final = UNKNOWN_EPOCH - 1
"""A broker epoch before all others."""


class LogAtElection(NamedTuple):
    """The leader's log when it became the leader: its end then, which is where its epoch begins,
    and the high watermark that it knew."""

    end: int
    high_watermark: int


class Heard(Protocol):
    """When a follower asked for a partition last: a request of its fetch session repeats each one
    that it does not name."""

    @property
    def ms(self) -> int:
        """On the leader's clock."""
        ...


class FollowerFetch(NamedTuple):
    """What a fetch says of the follower that sent it: its broker id and broker epoch, the offset
    that it asks for, which is the end of its log, the leader epoch of its last record (-1 without
    records), and where its log begins. The leader epoch in which it asks has been checked before,
    as a consumer's is (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH). ``heard`` is that of its
    session: later requests that change nothing here only move the time there. ``corrupt``: the
    leader's batch at ``offset`` came corrupt to it before."""

    broker: int
    broker_epoch: int
    offset: int
    last_epoch: int
    log_start: int = 0
    heard: Heard | None = None
    corrupt: bool = False


@dataclass(slots=True)
class Progress:
    """One follower. ``end`` is -1 until it has fetched in this leader epoch.

    ``counted``: the high watermark waits for it, as a member of the maximal ISR. ``member``: it is
    in the ISR of the last state node seen. ``assigned``: among the replicas of the partition.
    ``live``: registered now, with ``broker_epoch``. ``leaving``: its broker wants to stop.
    ``behind``: not in sync now; true for each who is not live. ``stale_epoch``: a broker epoch that
    is known to be over, though no later one has been heard of; also where the broker was refused
    as it is no replica any more. ``left_ms``: when it left the ISR, None where it has fetched
    since: what it had says nothing of now. The controller takes out a broker whose process is gone
    while it still is registered: the leader would take the dead one in again, for ever.
    """

    broker: int
    caught_up_ms: int
    broker_epoch: int = UNKNOWN_EPOCH
    end: int = UNKNOWN_END
    log_start: int = UNKNOWN_END
    fetched_ms: int = NEVER
    leader_end: int = UNKNOWN_END
    """The leader's end at the last fetch."""
    counted: bool = False
    member: bool = False
    assigned: bool = True
    live: bool = False
    leaving: bool = False
    behind: bool = False
    stale_epoch: int = NEVER_STALE
    heard: Heard | None = None
    """See :class:`FollowerFetch`."""
    left_ms: int | None = None

    @property
    def asked_ms(self) -> int:
        """The time of the last fetch, also of one that did not name the partition."""
        return self.fetched_ms if self.heard is None else max(self.fetched_ms, self.heard.ms)

    @property
    def has_to_fetch(self) -> bool:
        """It has left the ISR, and not fetched since."""
        return self.left_ms is not None and self.asked_ms <= self.left_ms

    def fetched(self, fetch: FollowerFetch, leader_end: int, now_ms: int) -> None:
        """A fetch counts: it is of the current registration, and asks for what the leader has."""
        offset = fetch.offset
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif offset >= self.leader_end and self.asked_ms > self.caught_up_ms:
            self.caught_up_ms = self.asked_ms
        self.leader_end = leader_end
        self.fetched_ms = now_ms
        self.left_ms = None
        self.end = offset
        self.log_start = fetch.log_start
        self.heard = fetch.heard

    def is_caught_up(self, leader_end: int, now_ms: int, lag_ms: int) -> bool:
        """It has everything, or had so at most ``lag_ms`` ago (replica.lag.time.max.ms)."""
        if self.end == leader_end or now_ms - self.caught_up_ms <= lag_ms:
            return True
        # It had everything at the last fetch that was looked at, so also at those that repeat it.
        had_all = self.end >= self.leader_end > UNKNOWN_END
        return had_all and now_ms - self.asked_ms <= lag_ms

    def has(self, offset: int) -> bool:
        """A consumer can read on at ``offset`` there. Only of members of the ISR, who are live: one
        that is behind might never catch up with a reader that comes back to it."""
        return self.member and self.live and 0 <= self.log_start <= offset <= self.end

    def could_lead(self, committed: int, since_ms: int) -> bool:
        """A member that has asked since then for what comes after all that is committed. It need
        not be caught up: where the leader's next batch is corrupt, none ever is."""
        asks = self.live and self.asked_ms >= since_ms
        return self.member and asks and self.end >= committed and not self.leaving

    def look_up(self, broker: BrokerView | None) -> None:
        """Compare it with its broker's registration, None: there is none."""
        if broker is not None and broker.epoch > self.broker_epoch:
            self.is_another(broker.epoch)
        self.live = broker is not None and broker.epoch == self.broker_epoch
        self.leaving = broker is not None and broker.leaving

    def is_another(self, broker_epoch: int) -> None:
        """The broker registered again: what is known of its log is of another one (KIP-903)."""
        self.broker_epoch = broker_epoch
        self.end = self.log_start = self.leader_end = UNKNOWN_END
        self.fetched_ms = NEVER
        self.heard = None


def least_log_start(followers: Iterable[Progress]) -> int | None:
    """The least start of the logs of those that are live, None while one of them is unknown.
    Without followers there is no bound."""
    starts = [one.log_start for one in followers if one.live]
    return None if UNKNOWN_END in starts else min(starts, default=2**63 - 1)


class Lag(NamedTuple):
    """A replica that is not in sync: how many records it is behind (None: it has not fetched since
    the leader was elected), and since when, in ms (None: never in sync in this leader epoch)."""

    broker: int
    records: int | None
    since_ms: int | None
    live: bool

    def __str__(self) -> str:
        if not self.live:
            return f"broker {self.broker} is not registered"
        behind = "has not fetched yet" if self.records is None else f"is {self.records} behind"
        return f"broker {self.broker} {behind}"
