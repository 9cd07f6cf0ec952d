"""The leader's side of one partition in one leader epoch: who follows how far, the high watermark,
and whom the ISR should lose or gain (Kafka's ``Partition``; KIP-497, KIP-903, KIP-966).

Inputs are calls: :meth:`Leader.fetched`, :meth:`~Leader.appended`, :meth:`~Leader.seen`,
:meth:`~Leader.answered`, :meth:`~Leader.refused`, :meth:`~Leader.brokers_changed`,
:meth:`~Leader.configured`, :meth:`~Leader.tick`. After each of them the owner looks at what is
decided: ``high_watermark`` (release what waits), ``in_sync`` (fail what waits for more), and
:meth:`~Leader.wish` (a change of the ISR to write).

The **high watermark** is the least end over the *maximal ISR*: the members of the last state node
seen, and those of each change that may have been written since (one whose outcome is unknown,
too). Who is caught up and may join is waited for as well, or it could never reach it. It never
falls, it does not pass a member whose end is unknown, and it stands still while the ISR is below
its least size.

The **ISR** never shrinks below that size: the members that are away keep their place, so each
record below the high watermark is on that many brokers that may be elected. Whether acks=all
is accepted is decided by who is in sync *now*, which is another number.

An object ends with its leader epoch: nothing that was learnt in one is used in another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from tallymark.errors import CODES, KafkaError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.isr_change import IsrChange, lag_of, next_isr, resignation
from tallymark.replication.model import (
    Assignment,
    BrokerView,
    ChangeState,
    PartitionState,
    PartitionView,
    Tail,
    least_isr,
)
from tallymark.replication.progress import (
    NEVER,
    NEVER_STALE,
    FollowerFetch,
    Lag,
    LogAtElection,
    Progress,
    least_log_start,
)
from tallymark.replication.truncation import EpochEnd, Epochs, diverging

LAG_TIME_MAX_MS: Final = 30_000
"""replica.lag.time.max.ms"""


class Leader:
    """One partition, led by broker ``me`` in the leader epoch of ``view.state``.

    ``high_watermark``, ``end`` (of the own log) and ``in_sync`` (brokers in sync now, the leader
    among them) are read by all. ``is_lost``: a newer state node has another leader or epoch; from
    then on nothing moves.
    """

    __slots__ = (
        *("_asked", "_assignment", "_brokers", "_followers", "_in_flight", "_lag_ms", "_least"),
        *("_look", "_now_ms", "_own", "_partition", "_unsettled", "end", "epoch", "epoch_start"),
        *("_tail", "high_watermark", "in_sync", "is_lost", "me", "state"),
    )

    def __init__(
        self,
        me: int,
        partition: TopicPartition,
        view: PartitionView,
        log: LogAtElection,
        brokers: Mapping[int, BrokerView],
        now_ms: int,
        lag_ms: int = LAG_TIME_MAX_MS,
    ) -> None:
        self.me = me
        self.state = view.state
        self.epoch = view.state.leader_epoch
        self.epoch_start = self.end = self._own = log.end
        self.high_watermark = min(log.high_watermark, log.end)
        self.in_sync = 1
        self.is_lost = False
        self._partition = partition
        self._lag_ms = lag_ms
        self._now_ms = now_ms
        self._followers: dict[int, Progress] = {}
        self._brokers = brokers
        self._asked: frozenset[int] = frozenset()
        self._unsettled: frozenset[int] = frozenset()
        self._in_flight = False
        self._look = False
        self._tail: Tail | None = None
        self.configured(view.assignment, view.min_insync, now_ms)

    @property
    def is_enough(self) -> bool:
        """acks=all is accepted: as many are in sync now as min.insync.replicas asks for, or as
        there are replicas. Otherwise NOT_ENOUGH_REPLICAS before an append."""
        return self.in_sync >= self._least

    @property
    def is_epoch_committed(self) -> bool:
        """Clients may be told offsets: before that they could run backwards (KIP-207)."""
        return self.high_watermark >= self.epoch_start

    @property
    def least_log_start(self) -> int | None:
        """DeleteRecords waits until it has passed; None while it is not known."""
        return least_log_start(self._followers.values())

    def fetched(self, fetch: FollowerFetch, epochs: Epochs, now_ms: int) -> EpochEnd | None:
        """A follower asks. Returns where the logs part if its log is not a prefix of this one; such
        a fetch counts for nothing. ``epochs`` are the leader's, with its own epoch at the end.

        Raises KafkaError: STALE_BROKER_EPOCH for an earlier registration of the broker,
        UNKNOWN_LEADER_EPOCH for a broker that is not known as a replica (the assignment may be on
        its way), OFFSET_OUT_OF_RANGE for an offset behind the end.
        """
        follower = self._followers.get(fetch.broker)
        if follower is None:
            self._refuse("UNKNOWN_LEADER_EPOCH", f"broker {fetch.broker} is not a replica of it")
        if fetch.broker_epoch != follower.broker_epoch:
            self._registered_again(follower, fetch.broker_epoch)
        if fetch.last_epoch != self.epoch or fetch.offset > self.end:
            parted = diverging(epochs, self.end, fetch.last_epoch, fetch.offset)
            if parted is not None and parted.epoch >= 0:
                return parted
            if parted is not None or fetch.offset > self.end:
                asked = f"{fetch.offset} after epoch {fetch.last_epoch}"
                told = f"broker {fetch.broker} asks for {asked}, the log ends at {self.end}"
                self._refuse("OFFSET_OUT_OF_RANGE", told)
        self._now_ms = now_ms
        follower.fetched(fetch, self.end, now_ms)
        if follower.behind and follower.live:
            self._count_in_sync()
        if fetch.offset >= self.high_watermark:
            if not follower.member:
                self._look = True
            self._advance()
        return None

    def copies(self, offset: int) -> Mapping[int, int]:
        """Followers in the ISR that have ``offset``, and where their logs end."""
        return {one.broker: one.end for one in self._followers.values() if one.has(offset)}

    def appended(self, end: int, exposed: int | None = None) -> None:
        """The own log ends at ``end``. With flush.before.expose ``exposed`` is the end of what is
        flushed: no more of it counts for the high watermark."""
        self.end = end
        self._own = end if exposed is None else min(exposed, end)
        self._advance()

    def tick(self, now_ms: int) -> None:
        """Time passed; once a second is often enough: followers may have fallen behind."""
        self._now_ms = max(now_ms, self._now_ms)
        self._count_in_sync()
        self._look = True
        self._advance()

    def brokers_changed(self, brokers: Mapping[int, BrokerView], now_ms: int) -> None:
        """Brokers came, went, registered again or announced that they leave."""
        self._brokers = brokers
        for follower in self._followers.values():
            self._look_up(follower)
        self.tick(now_ms)

    def configured(self, assignment: Assignment, min_insync: int, now_ms: int) -> None:
        """The assignment or min.insync.replicas, as they are now. Who was refused may join."""
        self._assignment = assignment
        self._least = least_isr(min_insync, len(assignment.replicas))
        self._members_changed()
        for one in self._followers.values():
            one.stale_epoch = NEVER_STALE
        self.tick(now_ms)

    def wish(self) -> ChangeState | None:
        """The change of the ISR that is due now. It is taken for sent: the next one is returned
        after :meth:`answered`."""
        if not self._look or self._in_flight or self.is_lost:
            return None
        self._look = False
        if self._tail is not None and self._has_successor():
            return self._sent(resignation(self._partition, self.state, self.me, self._tail))
        change = self._change()
        if change is None:
            if not self._unsettled:
                return None
            change = IsrChange(self.state.isr, (), "settles a change whose outcome is unknown")
        return self._sent(change.of(self._partition, self.state, self._least))

    def resign(self, tail: Tail | None) -> None:
        """The own log is bad behind ``tail``; None: it is not any more. The next wish gives up the
        lead and the place in the ISR, as soon as another member could lead; until then this broker
        leads on."""
        self._tail = tail
        self._look = True

    @property
    def resigns(self) -> bool:
        """Whether it gives up the lead when it can."""
        return self._tail is not None

    def answered(self, state: PartitionState | None, now_ms: int) -> None:
        """The wish was written, as ``state``. None: its outcome is unknown; the owner reads the
        node and calls this again with what it found, and until then there is no other wish
        (KAFKA-2729).

        If the node still is as it was, the write may be on its way all the same: what it proposed
        stays in the maximal ISR until the version has risen, by a write of the same if need be."""
        if state is None:
            self._unsettled |= self._asked
            return
        self._in_flight = False
        self._look = True
        self.seen(state, now_ms)

    def refused(
        self, state: PartitionState, now_ms: int, stale: Mapping[int, int] | None = None
    ) -> None:
        """The wish was not written and never will be: the version had risen, or of ``stale``, of
        those that were to join, the broker epochs are over. ``state`` is what the node holds."""
        self._asked = frozenset()
        self._members_changed()
        for broker, epoch in (stale or {}).items():
            if broker in self._followers:
                self._followers[broker].stale_epoch = epoch
        self.answered(state, now_ms)

    def seen(self, state: PartitionState, now_ms: int) -> None:
        """The node holds ``state``, or held it: news older than what is known are ignored."""
        if state.version <= self.state.version or self.is_lost:
            return
        if (state.leader, state.leader_epoch) != (self.me, self.epoch):
            self.is_lost = True
            return
        self.state = state
        self._now_ms = max(now_ms, self._now_ms)
        self._asked = self._unsettled = frozenset()  # of older versions: too late to be written
        self._members_changed()
        self.tick(now_ms)

    def lagging(self) -> list[Lag]:
        """The replicas that are not in sync now, or not in the ISR."""
        return [lag_of(x, self.end) for x in self._followers.values() if x.behind or not x.member]

    # --- inside

    def _sent(self, change: ChangeState) -> ChangeState:
        self._in_flight = True
        self._asked = frozenset(change.state.isr)
        self._members_changed()
        return change

    def _has_successor(self) -> bool:
        since = self._now_ms - self._lag_ms
        able = (x for x in self._followers.values() if x.could_lead(self.high_watermark, since))
        return any(one.broker not in self.state.incomplete for one in able)

    def _advance(self) -> None:
        """Raise the high watermark to what the maximal ISR has."""
        if self.is_lost or len(self.state.isr) < self._least:
            return
        least = self._own
        for one in self._followers.values():
            if one.end < least and (one.counted or self._is_awaited(one)):
                least = one.end
        if least > self.high_watermark:
            self.high_watermark = least

    def _change(self) -> IsrChange | None:
        followers = self._followers.values()
        joining = [one for one in followers if self._may_join(one)]
        members = [one for one in followers if one.member]
        # Who is dead leaves at once if others come, else when its time is over.
        overdue = [
            one for one in members if not self._is_caught_up(one) or (joining and not one.live)
        ]
        order = self._assignment.replicas
        return next_isr(self.state.isr, order, self._least, joining, overdue, self.end)

    def _may_join(self, one: Progress) -> bool:
        """It has what is committed in earlier epochs and in this one, as the broker that it is
        now. While fewer are in sync than the least ISR, it must be caught up as well: the high
        watermark would wait until it is (KAFKA-19996)."""
        if one.member or not self._could_join(one):
            return False
        return self.is_enough or self._is_caught_up(one)

    def _is_awaited(self, one: Progress) -> bool:
        """Not in the ISR, but about to join it: it never could if the high watermark went on."""
        return self._is_caught_up(one) and self._could_join(one)

    def _could_join(self, one: Progress) -> bool:
        """Who is leaving could not, and is not waited for: it would hold up all others until it
        is gone (KAFKA-15021)."""
        if not (one.live and one.assigned) or one.leaving or one.broker_epoch <= one.stale_epoch:
            return False
        if one.has_to_fetch:
            return False
        return one.end >= self.high_watermark and one.end >= self.epoch_start

    def _is_caught_up(self, one: Progress) -> bool:
        return one.is_caught_up(self.end, self._now_ms, self._lag_ms)

    def _count_in_sync(self) -> None:
        count = 1
        for one in self._followers.values():
            one.behind = not (one.live and self._is_caught_up(one))
            if one.member and not one.behind:
                count += 1
        self.in_sync = count

    def _members_changed(self) -> None:
        """A new leader gives members of the ISR the whole lag time, or it would remove them
        before they have found it."""
        counted = self._asked.union(self._unsettled, self.state.isr)
        replicas = self._assignment.replicas
        for broker in counted.union(replicas) - self._followers.keys() - {self.me}:
            grace = self._now_ms if broker in counted else NEVER
            self._followers[broker] = one = Progress(broker, grace)
            self._look_up(one)
        for broker, one in list(self._followers.items()):
            one.counted = broker in counted
            member = broker in self.state.isr
            if one.member and not member:
                one.left_ms = self._now_ms
            one.member = member
            one.assigned = broker in replicas
            if not (one.counted or one.assigned):
                del self._followers[broker]

    def _look_up(self, one: Progress) -> None:
        """Compare a follower with its broker's registration."""
        one.look_up(self._brokers.get(one.broker))

    def _registered_again(self, one: Progress, broker_epoch: int) -> None:
        """A fetch in another broker epoch. One that is newer than what this broker has heard of
        counts, but does not make its sender live."""
        if broker_epoch < one.broker_epoch:
            told = f"{broker_epoch} of broker {one.broker}, its current one is {one.broker_epoch}"
            self._refuse("STALE_BROKER_EPOCH", f"a fetch as of registration {told}")
        one.is_another(broker_epoch)
        self._look_up(one)
        self._count_in_sync()

    def _refuse(self, name: str, why: str) -> NoReturn:
        raise KafkaError(CODES[name], f"{self._partition[0]}-{self._partition[1]}: {why}")
