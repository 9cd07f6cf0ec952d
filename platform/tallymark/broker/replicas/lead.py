"""A partition with several replicas that this broker leads: what happens to it, reported to its
:class:`~tallymark.replication.leading.Leader`, and what that decides, done.

::

    append, flush       grown()        settle()   commit: consumers see more, acks=all is answered
    a follower's fetch  fetched()      -------->  too few are in sync: acks=all fails (20)
    time, brokers       looked_over()             the lead is lost: all that wait fail (6)
    the state node      seen()                    a wish: the ISR should change

One object is one partition in one leader epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from tallymark.broker.partitions.lead import Copier, Watcher
from tallymark.broker.partitions.partition import Partition
from tallymark.errors import CODES, KafkaError
from tallymark.replication.acks import LEAD_LOST, TOO_FEW
from tallymark.replication.leading import Leader
from tallymark.replication.model import Assignment, BrokerView, ChangeState, PartitionState, Tail
from tallymark.replication.progress import NEVER, FollowerFetch
from tallymark.replication.truncation import EpochEnd, last_epoch_of

log = logging.getLogger(__name__)

_LOOKS_WITHOUT_ROOM: Final = 3
"""A look is a second. Where the disks of all replicas are full the lead goes around, slowly."""
_ELSEWHERE_MS: Final = 15 * 60 * 1000
"""A consumer comes back from a follower after 5 minutes (``metadata.max.age.ms``)."""


class ReplicatedLead:
    """The :class:`~tallymark.broker.partitions.lead.Lead` of ``partition``. Belongs to the event
    loop. ``now_ms`` is a monotonic clock. ``wished`` is called with each change of the ISR
    that is due; the next one follows after :meth:`answered`. ``named`` is called with each batch
    that came corrupt to a follower: broker, offset."""

    __slots__ = (
        "_brokers",
        "_elsewhere_until_ms",
        "_is_ended",
        "_looks_without_room",
        "_named",
        "_now_ms",
        "_resting",
        "_starts",
        "_was_enough",
        "_wished",
        "copying",
        "leader",
        "partition",
    )

    def __init__(
        self,
        partition: Partition,
        leader: Leader,
        now_ms: Callable[[], int],
        wished: Callable[[ReplicatedLead, ChangeState], None],
        brokers: Mapping[int, BrokerView],
        named: Callable[[ReplicatedLead, int, int], None] = lambda lead, broker, offset: None,
    ) -> None:
        self.partition = partition
        self.leader = leader
        self._now_ms = now_ms
        self._wished = wished
        self._brokers = brokers
        self._named = named
        self.copying: set[Watcher] = set()
        """The followers' fetches that wait for records."""
        self._resting: dict[Copier, None] = {}
        """The followers' sessions that have all, in an order: a simulation replays equal."""
        self._starts: list[tuple[int, asyncio.Future[None]]] = []
        self._elsewhere_until_ms = NEVER
        self._was_enough = True
        self._is_ended = False
        self._looks_without_room = 0
        partition.log.lacks_room = False  # an append of this lead decides

    # --- what handlers ask

    @property
    def is_epoch_committed(self) -> bool:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        return self.leader.is_epoch_committed

    @property
    def is_enough(self) -> bool:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        return self.leader.is_enough

    @property
    def is_under_replicated(self) -> bool:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        return bool(self.leader.lagging())

    @property
    def is_read_elsewhere(self) -> bool:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        return self._now_ms() < self._elsewhere_until_ms

    @property
    def is_over(self) -> bool:
        """Whether this broker has lost the lead, or given it up."""
        return self._is_ended or self.leader.is_lost

    def check_enough(self) -> None:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        if self.is_over:
            raise KafkaError(LEAD_LOST, f"{self.partition} has another leader")
        if not self.leader.is_enough:
            raise KafkaError(CODES["NOT_ENOUGH_REPLICAS"], f"{self.partition}: {self._lag()}")

    def read_elsewhere(self) -> None:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        self._elsewhere_until_ms = self._now_ms() + _ELSEWHERE_MS

    def copies(self, offset: int) -> Mapping[int, int]:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        return self.leader.copies(offset)

    def fetched(self, fetch: FollowerFetch) -> EpochEnd | None:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        if self.is_over:
            raise KafkaError(LEAD_LOST, f"{self.partition} has another leader")
        parted = self.leader.fetched(fetch, self.partition.log.epochs, self._now_ms())
        if fetch.corrupt and parted is None:
            self._named(self, fetch.broker, fetch.offset)
        self.settle()
        return parted

    async def started_at(self, offset: int) -> int:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        while not self._has_started(offset):
            if self.is_over:
                raise KafkaError(LEAD_LOST, f"{self.partition} has another leader")
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._starts.append((offset, future))
            await future
        return min(self.leader.least_log_start or offset, self.partition.log.start_offset)

    # --- followers that wait

    def watch(self, event: Watcher) -> None:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        self.copying.add(event)

    def unwatch(self, event: Watcher) -> None:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        self.copying.discard(event)

    def rest(self, copier: Copier) -> None:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        self._resting[copier] = None

    def forget(self, copier: Copier) -> None:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        self._resting.pop(copier, None)

    def wake(self) -> None:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        for event in self.copying:
            event.set()
        if self._resting:
            resting, self._resting = self._resting, {}
            for copier in resting:
                copier.set()

    def moved(self, *, wake: bool = False) -> None:
        """Something that followers with all records have to get, too; ``wake``: at once."""
        for copier in self._resting:
            if wake:
                copier.set()
            else:
                copier.moved()

    # --- what happens

    def grown(self) -> None:
        """See :class:`~tallymark.broker.partitions.lead.Lead`."""
        log_ = self.partition.log
        flushed = log_.recovery_point if log_.config.flush_before_expose else None
        self.leader.appended(log_.end_offset, flushed)
        self.wake()
        self.settle()

    def looked_over(self, brokers: Mapping[int, BrokerView]) -> None:
        """Time has passed, and these brokers are registered."""
        self.look_at_own_log()
        if brokers is self._brokers:
            self.leader.tick(self._now_ms())
        else:
            self._brokers = brokers
            self.leader.brokers_changed(brokers, self._now_ms())
            self.moved()
        self.settle()
        if not (self.leader.is_enough or self.is_over):
            self._fail_for_all()  # what has been appended without the check

    def configured(self, assignment: Assignment, min_insync: int) -> None:
        """The partition's assignment, and the minimum, as they are now."""
        self.leader.configured(assignment, min_insync, self._now_ms())
        self.moved()
        self.settle()

    def seen(self, state: PartitionState) -> None:
        """The state node holds ``state``, or held it."""
        self.leader.seen(state, self._now_ms())
        self.moved()
        self.settle()

    def answered(self, state: PartitionState | None) -> None:
        """As :meth:`tallymark.replication.leading.Leader.answered`."""
        self.leader.answered(state, self._now_ms())
        self.settle()

    def refused(self, state: PartitionState | None, stale: Mapping[int, int]) -> None:
        """As :meth:`tallymark.replication.leading.Leader.refused`; None: what the node holds is not
        known."""
        self.leader.refused(state or self.leader.state, self._now_ms(), stale)
        self.settle()

    def found_corrupt(self, offset: int) -> None:
        """The batch at ``offset`` is corrupt on this disk: give up the lead, and copy the log again
        from there, see :mod:`.bad_batches`."""
        log_ = self.partition.log
        log_.corrupt_from = offset if log_.corrupt_from < 0 else min(offset, log_.corrupt_from)
        self.look_at_own_log()
        self.settle()

    def look_at_own_log(self) -> None:
        """Give up the lead where the disk has failed, stays full, or a batch is corrupt, and
        another member of the ISR can lead; not any more when retention has deleted that batch, or
        there is room."""
        log_ = self.partition.log
        self._looks_without_room = self._looks_without_room + 1 if log_.lacks_room else 0
        if log_.is_offline:
            bad_from = log_.recovery_point
        elif log_.is_corrupt:
            bad_from = log_.corrupt_from
        elif self._looks_without_room >= _LOOKS_WITHOUT_ROOM:
            bad_from = log_.end_offset  # what is there is good
        else:
            if self.leader.resigns:
                self.leader.resign(None)
            return
        if not self.leader.resigns:
            log.error(
                "gives up the lead when another broker can lead partition=%s epoch=%d: the log "
                "cannot be used from offset %d on; high_watermark=%d end=%d",
                self.partition,
                self.leader.epoch,
                bad_from,
                self.partition.high_watermark,
                log_.end_offset,
            )
        self.leader.resign(Tail(last_epoch_of(log_.epochs, bad_from), bad_from))

    def end(self, *, deleted: bool = False) -> None:
        """This broker does not lead the partition any more; ``deleted``: no broker does."""
        self._is_ended = True
        self.partition.withdraw(deleted=deleted)
        self._release_starts()

    # --- what is decided

    def settle(self) -> None:
        """Do what the leader's rules have decided."""
        leader, partition = self.leader, self.partition
        if self.is_over:
            if not self._is_ended:
                log.info("lead lost partition=%s epoch=%d", partition, leader.epoch)
                self.end()
            return
        if leader.high_watermark > partition.high_watermark:
            partition.commit(leader.high_watermark)
            if self._resting:
                self.moved(wake=self.is_read_elsewhere)
        if leader.is_enough is not self._was_enough:
            self._was_enough = leader.is_enough
            self._tell_enough()
        if self._starts:
            self._release_starts()
        change = leader.wish()
        if change is not None:
            self._wished(self, change)

    def _has_started(self, offset: int) -> bool:
        least = self.leader.least_log_start
        return least is not None and least >= offset

    def _release_starts(self) -> None:
        waiting, self._starts = self._starts, []
        for offset, future in waiting:
            if future.done():
                continue
            if self.is_over or self._has_started(offset):
                future.set_result(None)
            else:
                self._starts.append((offset, future))

    def _tell_enough(self) -> None:
        if self.leader.is_enough:
            log.info("enough replicas for acks=all partition=%s: %s", self.partition, self._lag())
        else:
            log.warning(
                "too few replicas for acks=all partition=%s: %s", self.partition, self._lag()
            )
            self._fail_for_all()

    def _fail_for_all(self) -> None:
        self.partition.fail_waits(KafkaError(TOO_FEW, f"{self.partition}: {self._lag()}"))

    def _lag(self) -> str:
        """How many are in sync, and of the others, how far behind they are."""
        leader = self.leader
        behind = "; ".join(str(each) for each in leader.lagging())
        return f"{leader.in_sync} in sync" + (f"; {behind}" if behind else "")
