"""One term of a controller: from its picture of the cluster to the nodes, round after round.

::

    guard ─▶ what has changed ─▶ picture ─▶ plan ─▶ ask for tails ─▶ plan ─▶ transactions
      ▲      (and what was refused                   (brokers, only          under guard and fence
      │       or is unknown)                          where needed)               │
      └──────────────────────── the next round ◀── done: into the picture ────────┘

A term belongs to one session, and to one thread that has nothing else to do: opening logs holds it
up as little as it holds up them. It ends at the first transaction that the fence refuses. What was
decided then, or is still on its way, is refused too: the next controller has raised the fence
before it decides anything.

The picture may be old, since nothing is decided from it alone: every change names the versions of
its nodes. A change that was refused shows that it is old. One whose outcome is unknown may still be
executed: both partitions are read again before anything is decided about them (KAFKA-2729).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from tallymark.coordination.cluster.brokers import BrokerInfo
from tallymark.coordination.cluster.controller import Controller
from tallymark.coordination.cluster.suspicion import Suspicions
from tallymark.coordination.replicas.picture import PictureReader
from tallymark.coordination.replicas.writing import Fate, Outcome, ReplicaWriter
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics.changes import ChangeReader
from tallymark.coordination.topics.writer import TopicWriter
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.balance import MOST_MOVES, Balancing, preferred_leaders
from tallymark.replication.changes import settled
from tallymark.replication.election import Tails
from tallymark.replication.isr_notices import IsrNotices
from tallymark.replication.model import (
    DEFAULTS,
    Change,
    ChangeState,
    PartitionView,
    Picture,
    TopicSettings,
)
from tallymark.replication.planner import plan

log: Final = logging.getLogger(__name__)

Asking: TypeAlias = Callable[
    [Mapping[TopicPartition, PartitionView], Mapping[TopicPartition, tuple[int, ...]]],
    Mapping[TopicPartition, Tails],
]
"""Asks brokers where their logs end: (views, partition -> brokers) -> partition -> tails. Every
partition has an entry in the result; a broker that does not answer in time, or that does not follow
the leader epoch of the view yet, is not in it."""
IsRefused: TypeAlias = Callable[[BrokerInfo], bool]
"""Tries a connection to a broker that was reported: True where that is refused."""

PAUSE_MS: Final = 200
"""After changes that were refused, or are unknown."""
OFF: Final = Balancing(is_on=False)
SUSPECTS_MS: Final = 1_000
"""While brokers are suspected they are tried so often: one may listen again."""


class Round(NamedTuple):
    """``outcomes`` has one for each change that was planned. ``deposed``: the term is over.
    ``wait_ms``: when the next round is due if nothing changes before; None where nothing is
    left."""

    outcomes: Sequence[Outcome]
    deposed: bool
    wait_ms: int | None


class Term:
    """``controller`` is the result of the election that this session has won."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        controller: Controller,
        ask: Asking,
        is_refused: IsRefused,
        now_ms: Callable[[], int],
        defaults: TopicSettings = DEFAULTS,
        balancing: Balancing = OFF,
    ) -> None:
        assert controller.fence is not None, "another session is the controller"
        self._fence = controller.fence
        self._ask = ask
        self._is_refused = is_refused
        self._now_ms = now_ms
        self._reader = PictureReader(zookeeper, defaults)
        self._changes = ChangeReader(zookeeper)
        self._guards = TopicWriter(zookeeper)
        # Told in the transaction: a leader does not know whom the controller takes out of its ISR,
        # and waits for them until it does.
        self._writer = ReplicaWriter(zookeeper, IsrNotices(every_ms=0))
        self._picture = Picture({}, {}, controller.epoch)
        self._suspicions = Suspicions()
        self._doubted: set[TopicPartition] = set()
        """What the picture has of these may be wrong: they are read again first."""
        self._balancing = balancing
        self._balance_at = now_ms() + balancing.every_ms
        """When leads may go back to preferred leaders, by the clock of ``now_ms``."""

    def round(self) -> Round:
        """Read what has changed, decide, write. Call it again after ``wait_ms``, and when a notice
        of a change arrives, or a broker or a note of one comes or goes. ConnectError,
        SessionLostError: nothing was decided; call it again."""
        guard = self._guards.guard()
        self._writer.send_notice(self._now_ms())
        self._read()
        changes = self._decide()
        written = self._writer.write(changes, [guard, self._fence], self._now_ms())
        done = [one.change for one in written.outcomes if one.fate is Fate.DONE]
        self._doubted |= {
            one.change.partition for one in written.outcomes if one.fate is not Fate.DONE
        }
        states = [change for change in done if isinstance(change, ChangeState)]
        self._suspicions.written(states, self._picture)
        self._picture = settled(done, self._picture)
        return Round(written.outcomes, written.broken == self._fence, self._wait_ms(len(done)))

    def _read(self) -> None:
        """Bring the picture up to date."""
        changed = self._changes.unseen_changes()
        if changed is None:
            partitions = self._reader.views()
        else:
            partitions = dict(self._picture.partitions)
            states = changed.partitions & partitions.keys()
            # A partition that is not in the picture yet, or no longer, needs more than its state.
            whole = {*changed.topics, *(key[0] for key in changed.partitions - states)}
            whole |= {key[0] for key in self._doubted}
            self._replace(partitions, whole)
            self._refresh(partitions, {key for key in states if key[0] not in whole})
        brokers, refused = self._reader.brokers(self._is_refused)
        picture = replace(self._picture, brokers=brokers, suspects=refused, partitions=partitions)
        suspects = self._suspicions.standing(picture, self._now_ms())
        self._report(refused, suspects)
        self._picture = replace(picture, suspects=suspects)
        self._doubted.clear()
        self._changes.done()

    def _replace(self, partitions: dict[TopicPartition, PartitionView], topics: set[str]) -> None:
        if topics:
            for key in [key for key in partitions if key[0] in topics]:
                del partitions[key]
            partitions |= self._reader.views(topics)

    def _refresh(
        self, partitions: dict[TopicPartition, PartitionView], keys: set[TopicPartition]
    ) -> None:
        states = self._reader.states(keys)
        for key in keys:
            view = partitions.pop(key)
            if key in states:
                partitions[key] = replace(view, state=states[key])

    def _report(self, refused: Set[int], suspects: Set[int]) -> None:
        """To the log, and away with the reports of those that live."""
        for broker in sorted(suspects - self._picture.suspects):
            log.warning("broker %d refuses connections: its process is taken for gone", broker)
        for broker in sorted(self._picture.suspects - refused):
            log.info("broker %d is suspected no more: it answers, or is not registered", broker)
        for broker in sorted(refused - suspects):
            log.info("broker %d is not suspected: it refuses connections, and copies", broker)
            self._reader.forget_reports(broker)

    def _decide(self) -> Sequence[Change]:
        wanted = plan(self._picture)
        if wanted.ask:
            views = {key: self._picture.partitions[key] for key in wanted.ask}
            wanted = plan(self._picture, tails=self._ask(views, wanted.ask))
        return [
            *wanted.changes,
            *self._back(self._doubted | {one.partition for one in wanted.changes}),
        ]

    def _back(self, busy: Set[TopicPartition]) -> Sequence[Change]:
        """Leads that go back to preferred leaders. More than fit into a round go in the next."""
        every_ms, now_ms = self._balancing.every_ms, self._now_ms()
        self._balance_at = min(self._balance_at, now_ms + every_ms)  # the clock may be set back
        if not self._balancing.is_on or now_ms < self._balance_at:
            return ()
        moves = preferred_leaders(self._picture, unknown=busy, tolerated=self._balancing.tolerated)
        if len(moves) < MOST_MOVES:
            self._balance_at = now_ms + every_ms
        return moves

    def _wait_ms(self, done: int) -> int | None:
        """A partition gets one change a round: after one that was done there may be another."""
        if self._doubted:
            return PAUSE_MS
        if done:
            return 0
        due = [
            self._writer.notices.due_at_ms(),
            self._balance_at if self._balancing.is_on else None,
        ]
        times = [one for one in due if one is not None]
        waits = [max(0, one - self._now_ms()) for one in times]
        waits += [SUSPECTS_MS] if self._picture.suspects else []
        return min(waits, default=None)
