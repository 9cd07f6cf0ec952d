"""The groups of one partition of ``__consumer_offsets``: carries out the decisions about them.

One turn of the event loop for each input: decide, append, replay, then apply and answer. Joins and
syncs that are not answered yet are parked here, under their ticket; each group has one timer, for
its next deadline. A client that disconnects is not noticed here: its member stays until its session
ends, as in Kafka, and the connection drops the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Final, TypeVar

from tallymark.broker.groups.log import append_records, refusal_of
from tallymark.broker.partitions.partition import Partition
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
from tallymark.groups.offsets import Commit, Committer, decide_commit
from tallymark.groups.records import GroupRecord
from tallymark.groups.state import GroupsState
from tallymark.groups.syncing import decide_sync

log = logging.getLogger(__name__)

_GROUPS_A_TURN: Final = 50

R = TypeVar("R", JoinReply, SyncReply)
Decide = Callable[[Group, Now], Decision]


class GroupShard:
    """Groups and their offsets. ``state`` is their stored part; only replay changes it.

    Methods raise KafkaError where nothing could be appended; then nothing has changed.
    """

    def __init__(
        self,
        partition: Partition,
        state: GroupsState,
        config: GroupConfig,
        now: Callable[[], Now],
    ) -> None:
        self.partition = partition
        self.state = state
        self.closed = False
        self._config = config
        self._now = now
        self._groups: dict[str, Group] = {}
        self._tickets = count(1)
        self._parked: dict[int, Callable[[Reply | int], None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def take_over(self) -> None:
        """Activate the groups of ``state``; their members' sessions begin now."""
        for done, (group_id, kept) in enumerate(list(self.state.metadata.items())):
            if done % _GROUPS_A_TURN == 0:
                await asyncio.sleep(0)
            self._groups[group_id] = from_metadata(group_id, kept, self._now().ms)
            self._run(group_id, lambda group, now: decide_take_over(group, self._config, now))

    def close(self) -> None:
        """Another broker coordinates the groups now: answer parked requests with
        NOT_COORDINATOR."""
        self.closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        parked, self._parked = self._parked, {}
        for answer in parked.values():
            answer(CODES["NOT_COORDINATOR"])

    # --- reading

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
        """How many joins and syncs are not answered yet."""
        return len(self._parked)

    # --- members

    def join(self, group_id: str, join: Join) -> asyncio.Future[JoinReply]:
        """Join a group. The answer comes when the rebalance has completed its join phase.
        ``join.ticket`` is set here."""
        ticket, answer = self._park(JoinReply)
        join = replace(join, ticket=ticket)
        self._run(group_id, lambda group, now: decide_join(group, join, self._config, now))
        return answer

    def sync(self, group_id: str, sync: Sync) -> asyncio.Future[SyncReply]:
        """Request the assignment. The answer comes when the leader has sent it. ``sync.ticket`` is
        set here."""
        ticket, answer = self._park(SyncReply)
        sync = replace(sync, ticket=ticket)
        self._run(group_id, lambda group, now: decide_sync(group, sync, self._config, now))
        return answer

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> int:
        """0, or the error code by which the member knows what to do."""

        def decide(group: Group, now: Now) -> Decision:
            return decide_heartbeat(group, member_id, instance_id, generation, self._config, now)

        return self._run(group_id, decide, only_later=True).codes[0]

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> tuple[int, ...]:
        """An error code for each member that leaves."""
        decided = self._run(
            group_id, lambda group, now: decide_leave(group, leavers, self._config, now)
        )
        return decided.codes

    # --- offsets

    def commit(
        self,
        group_id: str,
        committer: Committer,
        commits: Sequence[Commit],
        max_metadata: int,
        no_group: int,
    ) -> tuple[int, ...]:
        """An error code for each commit; ``no_group``: the code for members of an unknown group."""
        if committer.generation >= 0 and self.group(group_id) is None:
            return (no_group,) * len(commits)

        def decide(group: Group, now: Now) -> Decision:
            return decide_commit(group, committer, commits, self._config, now, max_metadata)

        return self._run(
            group_id, decide, only_later=True, too_large="INVALID_COMMIT_OFFSET_SIZE"
        ).codes

    def unexposed(self) -> asyncio.Future[None] | None:
        """None where all that was decided here so far would survive what the settings promise;
        otherwise (``flush.before.expose``) a future that is done when it would. See
        :meth:`~tallymark.broker.partitions.partition.Partition.exposed`."""
        return self.partition.exposed(self.partition.log.end_offset - 1)

    def delete_offsets(
        self, group_id: str, places: Sequence[tuple[str, int]]
    ) -> tuple[int, list[int]]:
        """Delete offsets: one error code for the request, and if that is 0 one for each (topic,
        partition)."""
        group = self._groups.get(group_id) or Group(group_id)
        records, error, codes = decide_delete_offsets(self.state, group, places)
        self._append(records)
        return error, codes

    def delete_group(self, group_id: str) -> int:
        """Delete a group and its offsets; returns 0 or an error code."""
        group = self._groups.get(group_id) or Group(group_id)
        records, code = decide_delete_group(self.state, group)
        self._append(records)
        if not code:
            self._drop_if_gone(group)
            log.info("group deleted group=%.249r", group_id)
        return code

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted: delete the offsets that groups committed on it."""
        self._append(decide_forget_topic(self.state.offsets, topic))

    def expire(self, group_id: str, retention_ms: int) -> int:
        """Delete the expired offsets of a group; returns how many."""
        group = self._groups.get(group_id) or Group(group_id)
        records = decide_expire(self.state, group, retention_ms, self._now().wall_ms)
        self._append(records)
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
    ) -> Decision:
        """Decide, append, replay, apply. ``only_later``: this input moves no deadline to an earlier
        time, so the timer need not change."""
        now = self._now()
        before = self._groups.get(group_id) or Group(group_id)
        decision = decide(before, now)
        try:
            self._append(decision.records)
        except KafkaError as error:
            log.error("group=%.249r: its records cannot be appended: %s", group_id, error)
            decision = self._without_records(decision, refusal_of(error, too_large))
        after = decision.after
        self._groups[group_id] = after
        if not after.generation:
            self._drop_if_gone(after)
        self._tell(before, after)
        if not only_later or group_id not in self._timers:
            self._set_timer(after, now)
        for ticket, reply in decision.replies:
            self._parked.pop(ticket)(reply)
        return decision

    def _without_records(self, decision: Decision, code: int) -> Decision:
        if decision.otherwise is None:
            return replace(decision, records=())
        return replace(decision.otherwise(code), records=())

    def _append(self, records: Sequence[GroupRecord]) -> None:
        if records:
            append_records(self.partition, self.state, records, self._now().wall_ms)

    def _drop_if_gone(self, group: Group) -> None:
        """Drop the group unless it has members, or a record in the log says that it exists."""
        if group.vacant and group.group_id not in self.state.metadata:
            self._groups.pop(group.group_id, None)

    def _park(self, kind: type[R]) -> tuple[int, asyncio.Future[R]]:
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def answer(reply: Reply | int) -> None:
            if future.done():
                return  # the broker stops, and has cancelled the requests that waited
            if isinstance(reply, int):
                reply = kind(error=reply)
            assert isinstance(reply, kind)
            future.set_result(reply)

        ticket = next(self._tickets)
        self._parked[ticket] = answer
        return ticket, future

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
        self._run(group_id, lambda group, now: decide_expiry(group, self._config, now))

    def _tell(self, before: Group, after: Group) -> None:
        if before.state is not after.state or before.generation != after.generation:
            log.info(
                "group %s -> %s group=%.249r generation=%d members=%d protocol=%.99r leader=%.300r",
                before.state.value,
                after.state.value,
                after.group_id,
                after.generation,
                len(after.members),
                after.protocol,
                after.leader,
            )
