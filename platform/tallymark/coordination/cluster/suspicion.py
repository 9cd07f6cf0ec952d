"""Which brokers are suspected: their process is gone, though their session in ZooKeeper has not
ended yet. Pure.

::

    a connection is refused ── Reports.is_due ─▶ note ─▶ the controller tries, too ─▶ Suspicions
    by broker 2                (a broker's part)         and is refused                │
                     ┌──────────────────────────────────────────────────────────────┘
                     ▼
    Picture.suspects ── planner ─▶ other leaders; ISRs without broker 2, as far as their minimum
                                   allows

Refused means that the machine answered: no process listens there. A connection that breaks or that
is not answered says nothing of the kind.

A suspicion can be wrong all the same, where something between the brokers refuses. It costs
an election each, never a record: the suspect's log stays as it is, and a leader that hears of its
successor late can commit nothing more. It must not cost an election a second, so proof to the
contrary counts. A suspect that was taken out of an ISR comes back only when a leader has got its
fetches: it lives, and reports of that registration are not believed for a while.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import ChangeState, Picture

_Registration: TypeAlias = tuple[int, int]
"""Broker id, broker epoch."""
AGAIN_MS: Final = 5_000
"""A broker reports the same process again after this time only."""
NOT_BELIEVED_MS: Final = 60_000
"""For so long after proof to the contrary reports of a registration do not count."""
MOST_REPORTS: Final = 10_000
"""More registrations are not remembered; those that were reported first are forgotten first."""


class Reports:
    """Which registrations of other brokers one broker has reported, and when."""

    def __init__(self) -> None:
        self._reported: dict[_Registration, int] = {}

    def is_due(self, broker: int, epoch: int, now_ms: int) -> bool:
        """Whether to report this registration now. True counts as reported."""
        key = (broker, epoch)
        before = self._reported.get(key)
        if before is not None and now_ms - before < AGAIN_MS:
            return False
        self._reported.pop(key, None)
        self._reported[key] = now_ms
        if len(self._reported) > MOST_REPORTS:
            del self._reported[next(iter(self._reported))]
        return True


class Suspicions:
    """What a controller makes of suspicions in one term."""

    def __init__(self) -> None:
        self._taken_out: dict[_Registration, set[TopicPartition]] = {}
        """Suspect -> the partitions whose ISR it was taken out of."""
        self._lives: dict[_Registration, int] = {}
        """Until when reports of it do not count (ms)."""

    def written(self, done: Iterable[ChangeState], before: Picture) -> None:
        """These changes of states were done; they were decided from ``before``."""
        for change in done:
            gone = set(before.partitions[change.partition].state.isr) - set(change.state.isr)
            for broker in gone & before.suspects:
                key = (broker, before.brokers[broker].epoch)
                self._taken_out.setdefault(key, set()).add(change.partition)

    def standing(self, picture: Picture, now_ms: int) -> frozenset[int]:
        """Of ``picture.suspects`` those that are suspected still, by the states as they are now."""
        refused = {one: (one, picture.brokers[one].epoch) for one in picture.suspects}
        for key in self._taken_out.keys() - refused.values():
            del self._taken_out[key]
        self._lives = {key: until for key, until in self._lives.items() if until > now_ms}
        for key in refused.values():
            if self._is_back(key, picture):
                del self._taken_out[key]
                self._lives[key] = now_ms + NOT_BELIEVED_MS
        return frozenset(one for one, key in refused.items() if key not in self._lives)

    def _is_back(self, key: _Registration, picture: Picture) -> bool:
        """It is in an ISR again that it was taken out of."""
        views = (picture.partitions.get(each) for each in self._taken_out.get(key, ()))
        return any(view is not None and key[0] in view.state.isr for view in views)
