"""What a broker gives up between two registrations: the steps of
:mod:`tallymark.replication.registration`, carried out in ZooKeeper.

A cluster that is not at level 1 of ``replication.version`` has no partition with several replicas:
there a start reads no state, and only remembers the boot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from tallymark.coordination import paths
from tallymark.coordination.cluster.broker_epochs import check_epoch
from tallymark.coordination.replicas.picture import PictureReader
from tallymark.coordination.replicas.writing import Fate, ReplicaWriter
from tallymark.coordination.session.errors import BadVersionError, CoordinationError
from tallymark.coordination.session.nodes import Check
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics.writer import TopicWriter
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.features import REPLICATION, Finalized
from tallymark.replication.isr_notices import IsrNotices
from tallymark.replication.model import PartitionView
from tallymark.replication.registration import GiveUp, LocalLog, RememberBoot, Start, next_step

log: Final = logging.getLogger(__name__)
_ROUNDS: Final = 100


class LocalReplicas(Protocol):
    """The logs of this broker, as a start needs them. Called in the thread that registers."""

    def logs(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LocalLog]:
        """Where they end, and whether they are intact; one that is not here is left out."""
        ...

    def remember_boot(self) -> None:
        """Write the boot id into every log directory, durably."""
        ...


class Starting:
    """Gives up what one broker may not claim any more."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        broker_id: int,
        local: LocalReplicas,
        now_ms: Callable[[], int],
    ) -> None:
        self._zookeeper = zookeeper
        self._broker_id = broker_id
        self._local = local
        self._now_ms = now_ms
        self._reader = PictureReader(zookeeper)
        self._guards = TopicWriter(zookeeper)
        self._writer = ReplicaWriter(zookeeper, IsrNotices(every_ms=0))  # it has no later

    def give_up(self, epoch: int, features: Finalized) -> None:
        """Until no state names this broker in a way that it may not claim. BadVersionError when the
        epoch is not ``epoch`` any more; ConnectError, SessionLostError."""
        start, why = Start(self._broker_id, epoch), ""
        for _ in range(_ROUNDS):
            guard = self._guards.guard()
            views = self._views() if features.level(REPLICATION) > 0 else {}
            step = next_step(start, views, self._local.logs(views))
            if isinstance(step, GiveUp):
                why = self._write(step, epoch, guard)
            elif isinstance(step, RememberBoot):
                self._local.remember_boot()
                start = replace(start, boot_remembered=True)
            else:
                return
        raise CoordinationError(paths.TOPICS, f"this broker cannot give up what it led: {why}")

    def _views(self) -> dict[TopicPartition, PartitionView]:
        """The partitions that this broker is assigned to."""
        return {
            partition: view
            for partition, view in self._reader.views().items()
            if self._broker_id in view.assignment.replicas
        }

    def _write(self, step: GiveUp, epoch: int, guard: Check) -> str:
        """What is refused, or not known, is decided again from what is read next. Returns why the
        last change was not done."""
        mine = check_epoch(self._broker_id, epoch)
        written = self._writer.write(step.changes, [mine, guard], self._now_ms())
        if written.broken == mine:
            raise BadVersionError(mine.path)
        left = ""
        for outcome in written.outcomes:
            left = left if outcome.fate is Fate.DONE else outcome.why
            log.info(
                "given up %s-%d: %s [%s]",
                *outcome.change.partition,
                outcome.why,
                outcome.fate.value,
            )
        return left
