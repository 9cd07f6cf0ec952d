"""The groups of one partition of ``__consumer_offsets``: carries out the decisions about them.

One turn of the event loop for each input: decide, append, replay, then apply and answer. Every
answer leaves when what it was decided from is committed
(:mod:`tallymark.broker.coordinators.replayed`): with one replica in the same turn. Joins and syncs
that are not decided yet are parked here, under their ticket; each group has one timer, for its next
deadline. A client that disconnects is not noticed here: its member stays until its session
ends, as in Kafka, and the connection drops the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from tallymark.broker.coordinators.refusals import NOT_COORDINATOR, refusal_of
from tallymark.broker.coordinators.replayed import ReplayedState
from tallymark.broker.coordinators.settled import Settled
from tallymark.broker.coordinators.state_log import TransactionOf
from tallymark.broker.groups.parked import Parked, log_change
from tallymark.broker.partitions.partition import ACKS_ALL, Partition
from tallymark.errors import CODES, KafkaError
from tallymark.groups.deletion import (
    decide_delete_group,
    decide_delete_offsets,
    decide_expire,
    decide_forget_topic,
)
from tallymark.groups.group import Group, GroupConfig, Now, from_metadata
from tallymark.groups.inputs import Decision, Join, JoinReply, Leaver, Reply, Sync, SyncReply
from tallymark.groups.joining import decide_join
from tallymark.groups.membership import (
    decide_expiry,
    decide_heartbeat,
    decide_leave,
    decide_take_over,
)
from tallymark.groups.offsets import (
    Commit,
    Committer,
    decide_commit,
    decide_commit_in_transaction,
)
from tallymark.groups.records import GroupRecord
from tallymark.groups.state import GroupsState
from tallymark.groups.syncing import decide_sync
from tallymark.protocol.records.markers import Marker

log = logging.getLogger(__name__)

_GROUPS_A_TURN: Final = 50
_NO_GROUP: Final = CODES["ILLEGAL_GENERATION"]

A = TypeVar("A")
Decide = Callable[[Group, Now], Decision]

NO_ANSWER: Final = 1
"""``acks`` for what the coordinator decides by itself: no client gets an answer, so it is appended
also while fewer replicas than ``min.insync.replicas`` are in sync."""


class GroupShard:
    """Groups and their offsets, in one leader epoch.

    Methods raise KafkaError where nothing could be appended; then nothing has changed.
    """

    def __init__(
        self,
        replayed: ReplayedState[GroupsState],
        config: GroupConfig,
        now: Callable[[], Now],
    ) -> None:
        self._replayed = replayed
        self._config = config
        self._now = now
        self._groups: dict[str, Group] = {}
        self._parked = Parked()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def partition(self) -> Partition:
        """The partition of ``__consumer_offsets``."""
        return self._replayed.partition

    @property
    def state(self) -> GroupsState:
        """The stored part; only replay changes it."""
        return self._replayed.state

    @property
    def closed(self) -> bool:
        """Whether another broker coordinates the groups now."""
        return self._replayed.closed

    async def take_over(self) -> None:
        """Activate the groups of ``state``; their members' sessions begin now."""
        for done, (group_id, kept) in enumerate(list(self.state.metadata.items())):
            if done % _GROUPS_A_TURN == 0:
                await asyncio.sleep(0)
            self._groups[group_id] = from_metadata(group_id, kept, self._now().ms)
            self._run(
                group_id,
                lambda group, now: decide_take_over(group, self._config, now),
                acks=NO_ANSWER,
            )

    def close(self) -> None:
        """Another broker coordinates the groups now: answer everything that waits with
        NOT_COORDINATOR."""
        self._replayed.close()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._parked.refuse_all(NOT_COORDINATOR)

    # --- reading: what is read here goes to a client only through settled()

    def settled(self, answer: A, refuse: Callable[[int], A]) -> Settled[A]:
        """See :meth:`~tallymark.broker.coordinators.replayed.ReplayedState.settled`."""
        return self._replayed.settled(answer, refuse)

    def group(self, group_id: str) -> Group | None:
        """The group, or None where there is none. A group that has only offsets is empty."""
        found = self._groups.get(group_id)
        if found is None and self.state.knows(group_id):
            return Group(group_id)
        return found

    def groups(self) -> Iterator[Group]:
        """All groups; a caller that iterates over several turns misses those deleted meanwhile."""
        for group_id in sorted({*self._groups, *self.state.groups()}):
            group = self.group(group_id)
            if group is not None:
                yield group

    @property
    def parked(self) -> int:
        """How many joins and syncs are not decided yet."""
        return len(self._parked)

    # --- members

    def join(self, group_id: str, join: Join) -> asyncio.Future[JoinReply]:
        """Join a group. The answer comes when the rebalance has completed its join phase.
        ``join.ticket`` is set here."""
        ticket, answer = self._parked.park(JoinReply)
        join = replace(join, ticket=ticket)
        self._run(group_id, lambda group, now: decide_join(group, join, self._config, now))
        return answer

    def sync(self, group_id: str, sync: Sync) -> asyncio.Future[SyncReply]:
        """Request the assignment. The answer comes when the leader has sent it. ``sync.ticket`` is
        set here."""
        ticket, answer = self._parked.park(SyncReply)
        sync = replace(sync, ticket=ticket)
        self._run(group_id, lambda group, now: decide_sync(group, sync, self._config, now))
        return answer

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> Settled[int]:
        """0, or the error code by which the member knows what to do."""

        def decide(group: Group, now: Now) -> Decision:
            return decide_heartbeat(group, member_id, instance_id, generation, self._config, now)

        return self._told(self._run(group_id, decide, only_later=True), _first)

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> Settled[tuple[int, ...]]:
        """An error code for each member that leaves."""
        decided = self._run(
            group_id, lambda group, now: decide_leave(group, leavers, self._config, now)
        )
        return self._told(decided, _same)

    # --- offsets

    def commit(
        self,
        group_id: str,
        committer: Committer,
        commits: Sequence[Commit],
        max_metadata: int,
        no_group: int,
    ) -> Settled[tuple[int, ...]]:
        """An error code for each commit; ``no_group``: the code for members of an unknown group."""
        if committer.generation >= 0 and self.group(group_id) is None:
            return self._told(Decision(Group(group_id), codes=(no_group,) * len(commits)), _same)

        def decide(group: Group, now: Now) -> Decision:
            return decide_commit(group, committer, commits, self._config, now, max_metadata)

        decided = self._run(
            group_id, decide, only_later=True, too_large="INVALID_COMMIT_OFFSET_SIZE"
        )
        return self._told(decided, _same)

    def commit_in_transaction(
        self,
        group_id: str,
        committer: Committer,
        commits: Sequence[Commit],
        max_metadata: int,
        transaction: TransactionOf,
    ) -> Settled[tuple[int, ...]]:
        """An error code for each commit; those without one are pending until the marker. A group
        that does not exist begins, unless the client says that it is a member."""
        if committer.generation >= 0 and self.group(group_id) is None:
            return self._told(Decision(Group(group_id), codes=(_NO_GROUP,) * len(commits)), _same)
        group, now = self._groups.get(group_id) or Group(group_id), self._now()
        records, codes = decide_commit_in_transaction(group, committer, commits, now, max_metadata)
        if records:
            self._replayed.append(records, now.wall_ms, transaction=transaction)
        return self._told(Decision(group, codes=tuple(codes)), _same)

    def end_transaction(
        self, producer_id: int, epoch: int, marker: Marker, version: int
    ) -> Settled[int]:
        """Append the marker: what is pending in the transaction is in force, or dropped."""
        self._replayed.end_transaction(producer_id, epoch, marker, self._now().wall_ms, version)
        return self._replayed.settled(0, _same)

    def delete_offsets(
        self, group_id: str, places: Sequence[tuple[str, int]]
    ) -> Settled[tuple[int, list[int]]]:
        """Delete offsets: one error code for the request, and if that is 0 one for each (topic,
        partition)."""
        group = self._groups.get(group_id) or Group(group_id)
        records, error, codes = decide_delete_offsets(self.state, group, places)
        self._append(records)
        return self._replayed.settled((error, codes), lambda refused: (refused, []))

    def delete_group(self, group_id: str) -> Settled[int]:
        """Delete a group and its offsets; returns 0 or an error code."""
        group = self._groups.get(group_id) or Group(group_id)
        records, code = decide_delete_group(self.state, group)
        self._append(records)
        if not code:
            self._drop_if_gone(group)
            log.info("group deleted group=%.249r", group_id)
        return self._replayed.settled(code, _same)

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted: delete the offsets that groups committed on it."""
        self._append(decide_forget_topic(self.state.offsets, topic), NO_ANSWER)

    def expire(self, group_id: str, retention_ms: int) -> int:
        """Delete the expired offsets of a group; returns how many."""
        group = self._groups.get(group_id) or Group(group_id)
        records = decide_expire(self.state, group, retention_ms, self._now().wall_ms)
        self._append(records, NO_ANSWER)
        if records:
            self._drop_if_gone(group)
        return len(records)

    # --- the turn

    def _run(
        self,
        group_id: str,
        decide: Decide,
        *,
        only_later: bool = False,
        too_large: str = "UNKNOWN_SERVER_ERROR",
        acks: int = ACKS_ALL,
    ) -> Decision:
        """Decide, append, replay, apply. ``only_later``: this input moves no deadline to an earlier
        time, so the timer need not change."""
        now = self._now()
        before = self._groups.get(group_id) or Group(group_id)
        decision = decide(before, now)
        try:
            if decision.records:
                self._replayed.append(decision.records, now.wall_ms, acks=acks)
        except KafkaError as error:
            level = logging.INFO if self._replayed.is_over else logging.ERROR
            log.log(level, "group=%.249r: its records cannot be appended: %s", group_id, error)
            decision = self._without_records(decision, refusal_of(error, too_large))
        after = decision.after
        self._groups[group_id] = after
        if not after.generation:
            self._drop_if_gone(after)
        log_change(before, after)
        if not only_later or group_id not in self._timers:
            self._set_timer(after, now)
        for ticket, reply in decision.replies:
            self._reply(self._parked.take(ticket), reply, decision.refused)
        return decision

    def _without_records(self, decision: Decision, code: int) -> Decision:
        if decision.otherwise is not None:
            decision = decision.otherwise(code)
        return replace(decision, records=(), refused=True)

    def _append(self, records: Sequence[GroupRecord], acks: int = ACKS_ALL) -> None:
        if records:
            self._replayed.append(records, self._now().wall_ms, acks=acks)

    def _reply(self, answer: Callable[[Reply | int], None], reply: Reply, refused: bool) -> None:
        if refused:
            answer(reply)
        else:
            self._replayed.when_settled(lambda code: answer(code or reply))

    def _told(self, decision: Decision, of: Callable[[tuple[int, ...]], A]) -> Settled[A]:
        """The answer of codes. A refusal is sent at once: it says nothing of the group."""
        codes = decision.codes
        if decision.refused or self._replayed.is_settled:
            return of(codes)
        return self._replayed.settled(of(codes), lambda refused: of((refused,) * len(codes)))

    def _drop_if_gone(self, group: Group) -> None:
        """Drop the group unless it has members, or a record in the log says that it exists."""
        if group.vacant and group.group_id not in self.state.metadata:
            self._groups.pop(group.group_id, None)

    def _set_timer(self, group: Group, now: Now) -> None:
        timer = self._timers.pop(group.group_id, None)
        if timer is not None:
            timer.cancel()
        deadline = group.next_deadline_ms
        if deadline is not None and not self.closed:
            delay = max(deadline - now.ms, 0) / 1000
            loop = asyncio.get_running_loop()
            self._timers[group.group_id] = loop.call_later(delay, self._due, group.group_id)

    def _due(self, group_id: str) -> None:
        del self._timers[group_id]
        self._run(
            group_id, lambda group, now: decide_expiry(group, self._config, now), acks=NO_ANSWER
        )


def _first(codes: tuple[int, ...]) -> int:
    return codes[0]


def _same(answer: A) -> A:
    return answer
