"""The state nodes of partitions, as their leaders read and write them.

A leader changes the ISR of the topic that it knows, and no other one of the same name: the versions
of a state node begin again when a topic is deleted and created again. So a change is written under
a *guard*, which every deletion raises (:meth:`.TopicWriter.guard`), and only when the topic, read
under this guard, has the id that the leader knows::

    guard ─▶ topic ids (once for each guard) ─▶ states, by compare-and-set ─▶ guard broken? again

Reports of suspects are written here, too. It has a thread of its own. An image of ten thousand
partitions takes seconds to read; the high watermark of a leader whose follower has died waits for
its ISR that long otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import Final, TypeVar

from tallymark.broker.metadata.port import StateOutcome
from tallymark.coordination import (
    CoordinationError,
    SessionLostError,
    SessionState,
    TopicWriter,
    ZooKeeper,
)
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.replicas.picture import PictureReader
from tallymark.coordination.replicas.writing import Fate, ReplicaWriter
from tallymark.coordination.session.nodes import Check
from tallymark.coordination.topics.registry import TopicRegistry
from tallymark.errors import ClosedError, ConnectError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import UNKNOWN_EPOCH, ChangeState, PartitionState

log: Final = logging.getLogger(__name__)
T = TypeVar("T")

Ids = Mapping[str, uuid.UUID]
"""Topic -> the id under which the caller knows it."""
RETRY_SECONDS: Final = 1.0
"""Before a notice that could not be sent is tried again."""
_ATTEMPTS: Final = 5
_GONE: Final = "the topic was deleted"
_ERRORS: Final = (ConnectError, SessionLostError, ClosedError, CoordinationError)


class StateNodes:
    """Blocks; one thread at a time."""

    def __init__(self, zookeeper: ZooKeeper, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._guards = TopicWriter(zookeeper)
        self._topics = TopicRegistry(zookeeper)
        self._reader = PictureReader(zookeeper)
        self._writer = ReplicaWriter(zookeeper)
        self._guard: Check | None = None
        self._found: dict[str, uuid.UUID | None] = {}
        """Ids that were read since the guard was."""

    def write(self, changes: Sequence[ChangeState], ids: Ids) -> list[StateOutcome]:
        """See :class:`~tallymark.broker.metadata.port.StateWriter`."""
        outcomes: dict[int, StateOutcome] = {}
        left = list(changes)
        for _ in range(_ATTEMPTS):
            found, settled = self._attempt(left, ids)
            outcomes |= {id(one.change): one for one in found}
            left = [one.change for one in found if one.fate is Fate.REFUSED]
            if settled or not left:
                break  # else a topic was deleted: it may be theirs, or none of them
        return [outcomes[id(change)] for change in changes]

    def _attempt(
        self, changes: Sequence[ChangeState], ids: Ids
    ) -> tuple[Sequence[StateOutcome], bool]:
        """The outcomes, and whether those that are refused are so for good. What the nodes hold is
        only sent where these are known to be of the topic that the caller knows."""
        try:
            guard = self._guard or self._take_guard()
            same = self._same({change.partition[0] for change in changes}, ids)
        except _ERRORS as error:
            return [_refused(change, f"not sent: {error}") for change in changes], True
        left = [change for change in changes if change.partition[0] in same]
        gone = [_refused(each, _GONE) for each in changes if each.partition[0] not in same]
        written = self._writer.write(left, [guard], self._now_ms()).outcomes
        found = [
            StateOutcome(change, one.fate, one.state, one.stale, one.why)
            for change, one in zip(left, written, strict=True)
        ]
        fates = {one.fate for one in found}
        settled = True
        if Fate.UNKNOWN in fates or (Fate.REFUSED in fates and self._is_doubtful(guard)):
            settled = Fate.UNKNOWN in fates  # nothing more is sent after that
            found = [_without_state(one) for one in found]
        return [*found, *gone], settled

    def read(
        self, partitions: Sequence[TopicPartition], ids: Ids
    ) -> dict[TopicPartition, PartitionState]:
        """The states of topics that have these ids. Raises the session's errors."""
        for _ in range(_ATTEMPTS):
            guard = self._take_guard()
            same = self._same({topic for topic, _ in partitions}, ids)
            states = self._reader.states([each for each in partitions if each[0] in same])
            if self._take_guard() == guard:
                return states
        return {}

    def send_notice(self) -> None:
        """Tell others of the ISRs that are due. Raises the session's errors: call it again."""
        self._writer.send_notice(self._now_ms())

    def pause_ms(self) -> int | None:
        """Until :meth:`send_notice` is due; None: no ISR has changed."""
        due_at = self._writer.notices.due_at_ms()
        return None if due_at is None else max(0, due_at - self._now_ms())

    def _take_guard(self) -> Check:
        guard = self._guards.guard()
        if guard != self._guard:
            self._found.clear()
        self._guard = guard
        return guard

    def _is_doubtful(self, guard: Check) -> bool:
        """Whether a topic may have been deleted since the guard was read; from now on the new one
        counts."""
        try:
            return self._take_guard() != guard
        except _ERRORS:
            self._guard = None
            return True

    def _same(self, names: Iterable[str], ids: Ids) -> set[str]:
        """Those that have the id under which the caller knows them."""
        new = sorted(name for name in names if name not in self._found)
        if new:
            topics = self._topics.get_many(new)
            for name in new:
                self._found[name] = topics[name].topic_id if name in topics else None
        return {name for name in names if name in ids and self._found[name] == ids[name]}


class ZooKeeperStates:
    """:class:`StateNodes` for the event loop; see :class:`~.port.StateWriter`."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        me: int,
        now_ms: Callable[[], int],
        threads: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self._zookeeper = zookeeper
        self._me = me
        self._nodes = StateNodes(zookeeper, now_ms)
        self._notes = BrokerNotes(zookeeper)
        self._thread = threads(1, "tallymark-states")
        self._notices: asyncio.Task[None] | None = None
        self._closed = False

    async def write(self, changes: Sequence[ChangeState], ids: Ids) -> Sequence[StateOutcome]:
        """Never raises."""
        if not changes:
            return []
        try:
            outcomes = await self._run(lambda: self._nodes.write(changes, ids))
        except ClosedError as error:
            return [_refused(each, f"not sent: {error}") for each in changes]
        for each in outcomes:
            log.log(
                logging.INFO if each.fate is Fate.DONE else logging.WARNING,
                "isr change %s partition=%s-%d isr=%s: %s",
                each.fate.value,
                *each.change.partition,
                list(each.change.state.isr),
                each.why,
            )
        self._notify_later()
        return outcomes

    async def read(
        self, partitions: Sequence[TopicPartition], ids: Ids
    ) -> Mapping[TopicPartition, PartitionState]:
        """Never raises."""
        try:
            return await self._run(lambda: self._nodes.read(partitions, ids))
        except _ERRORS as error:
            log.warning("states of %d partitions cannot be read: %s", len(partitions), error)
            return {}

    async def announce_leaving(self, epoch: int) -> bool:
        """A note that this broker, registered under ``epoch``, wants to stop. Whether it is
        written; not without a connection. Never raises."""
        if self._zookeeper.state is not SessionState.CONNECTED or epoch == UNKNOWN_EPOCH:
            return False
        try:
            await self._run(lambda: self._notes.leave(self._me, epoch))
        except _ERRORS as error:
            log.warning("no note that this broker leaves: %s", error)
            return False
        return True

    async def report_suspect(self, broker: int, epoch: int) -> None:
        """A note in ``/brokers/suspects``, see :class:`~.port.Cluster`."""
        try:
            await self._run(lambda: self._notes.suspect(broker, epoch, self._me))
        except _ERRORS as error:
            log.warning("broker %d is not reported: %s", broker, error)

    async def close(self) -> None:
        """Ends when what is being written is done. Idempotent."""
        self._closed = True
        task, self._notices = self._notices, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._thread.shutdown(wait=False)

    def _notify_later(self) -> None:
        if self._closed or self._nodes.pause_ms() is None:
            return
        if self._notices is None or self._notices.done():
            self._notices = asyncio.create_task(self._send_notices(), name="notices of ISRs")

    async def _send_notices(self) -> None:
        while (pause_ms := self._nodes.pause_ms()) is not None:
            await asyncio.sleep(pause_ms / 1000)
            try:
                if self._zookeeper.state is SessionState.CONNECTED:
                    await self._run(self._nodes.send_notice)
                    continue
            except _ERRORS as error:
                log.warning("other brokers are not notified of changed ISRs yet: %s", error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _run(self, command: Callable[[], T]) -> T:
        if self._closed:
            raise ClosedError("this broker stops")
        return await asyncio.get_running_loop().run_in_executor(self._thread, command)


def _refused(change: ChangeState, why: str) -> StateOutcome:
    return StateOutcome(change, Fate.REFUSED, None, {}, why)


def _without_state(outcome: StateOutcome) -> StateOutcome:
    return replace(outcome, state=None) if outcome.fate is Fate.REFUSED else outcome
