"""The controller's part of a broker: elections, and the rounds of its term.

::

    /controller changed, or first time ──▶ elect ──▶ another broker: wait for the next change
                                             │
                                             ▼ this session
          ┌────────────── round ◀── a watch fired, wait_ms is over, or 30 s
          │                 │
          └─ next round ◀───┴──▶ deposed, or the session is another one: elect again

While another broker is the controller each report of a suspect makes this one look whether that is
the controller, and whether its process is gone (:mod:`tallymark.coordination.cluster.deposing`).

It has a thread and a picture of its own: a round waits for no log that is opened, and holds up no
image. While a round runs, a watch that fires is remembered: the next round begins at once. The term
ends with the session, at the fence, and at :meth:`ControllerTask.stop`. Below level 1 of
``replication.version`` no partition has several replicas: nothing is read.

Deletions of topics are no part of a term; they are done when an image is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from tallymark.broker.metadata.port import Membership
from tallymark.broker.metadata.zookeeper_membership import NoLogs
from tallymark.coordination import (
    BrokerInfo,
    Controller,
    ControllerElection,
    CoordinationError,
    SessionLostError,
    SessionState,
    ZooKeeper,
)
from tallymark.coordination.cluster.deposing import Deposing
from tallymark.coordination.replicas.term import PAUSE_MS, SUSPECTS_MS, Round, Term
from tallymark.coordination.replicas.writing import Fate, Outcome
from tallymark.errors import ClosedError, ConnectError, TallymarkError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.election import Tails
from tallymark.replication.model import PartitionView, TopicSettings

log: Final = logging.getLogger(__name__)
T = TypeVar("T")

IDLE_SECONDS: Final = 30.0
"""A round is due at least so often: a broker that did not answer is asked again."""
ASK_SECONDS: Final = 10.0
"""How long a round waits for answers of brokers."""
STOP_SECONDS: Final = 3.0
_LINES: Final = 20
"""More changes of one round are one line in the log."""
_NO_CONNECTION: Final = (ConnectError, SessionLostError, ClosedError)


class ControllerTask:
    """Stands for election and serves. Belongs to the loop, but :meth:`wake` and
    :meth:`office_changed` may be called on any thread."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        election: ControllerElection,
        now_ms: Callable[[], int],
        threads: Callable[[int, str], Executor] = ThreadPoolExecutor,
    ) -> None:
        self._zookeeper = zookeeper
        self._election = election
        self._deposing = Deposing(zookeeper, election, self._is_refused)
        self._member = Membership(NoLogs())
        self._now_ms = now_ms
        self._thread = threads(1, "tallymark-controller")
        self._loop = asyncio.get_running_loop()
        self._due = asyncio.Event()
        """A watch has fired since the last round began."""
        self._office = asyncio.Event()
        """The controller may have changed since the last election began."""
        self._task: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Future[Any]] = set()
        self._stopping = False

    def start(self, member: Membership) -> None:
        """Take part from now on: level 1 is in force. Idempotent."""
        self._member = member
        if self._task is None and not self._stopping:
            self._task = asyncio.create_task(self._run(), name="controller")
            self._task.add_done_callback(_ended)

    def wake(self) -> None:
        """Something that the controller decides from may have changed."""
        self._call_soon(self._due.set)

    def office_changed(self) -> None:
        """The controller's node has changed, or this session is another one."""
        self._call_soon(self._office.set)
        self.wake()

    async def stop(self) -> None:
        """End the term, after the round that runs, or after :data:`STOP_SECONDS`. Idempotent."""
        self._stopping = True
        self._due.set()
        self._office.set()
        for each in self._asking:
            each.cancel()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait([task], timeout=STOP_SECONDS)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._thread.shutdown(wait=False)

    # --- the office

    async def _run(self) -> None:
        while not self._stopping:
            self._office.clear()
            controller = await self._elected()
            if controller is not None and controller.fence is not None:
                await self._serve(controller)
            else:
                await self._watch_another()

    async def _watch_another(self) -> None:
        """Until the controller may be another one."""
        ends_at = self._loop.time() + IDLE_SECONDS
        while not self._office.is_set() and self._loop.time() < ends_at:
            self._due.clear()
            is_reported = await self._look_at_it()
            if not self._office.is_set():
                await _wait(self._due, SUSPECTS_MS / 1000 if is_reported else IDLE_SECONDS)

    async def _look_at_it(self) -> bool:
        """Whether the controller is reported."""
        if self._stopping or self._zookeeper.state is not SessionState.CONNECTED:
            return False
        try:
            return await self._in_thread(self._deposing.look)
        except _NO_CONNECTION as error:
            log.warning("reports of the controller are not read: %s", error)
        except TallymarkError as error:
            log.error("reports of the controller cannot be read: %s", error)
        return False

    async def _elected(self) -> Controller | None:
        """None: it is not known. The next CONNECTED reports the office as changed."""
        if self._zookeeper.state is not SessionState.CONNECTED:
            return None
        try:
            return await self._in_thread(self._election.elect)
        except _NO_CONNECTION as error:
            log.warning("no election: %s", error)
        except CoordinationError as error:
            log.error("no election: %s", error)
        return None

    async def _serve(self, controller: Controller) -> None:
        """The term of this session. Returns when it is over."""
        session = self._zookeeper.session
        log.info("the term begins epoch=%d", controller.epoch)
        defaults: TopicSettings | None = None
        term: Term | None = None
        while not self._stopping and session == self._zookeeper.session != 0:
            self._due.clear()
            if term is None or defaults != self._member.defaults():
                defaults = self._member.defaults()
                term = self._term(controller, defaults)
            done = await self._round(term)
            if done is not None and done.deposed:
                log.info("deposed epoch=%d", controller.epoch)
                break
            wait_ms = PAUSE_MS if done is None else done.wait_ms
            if self._office.is_set() and not await self._is_ours(controller):
                break
            await _wait(self._due, IDLE_SECONDS if wait_ms is None else wait_ms / 1000)
        log.info("the term is over epoch=%d", controller.epoch)

    def _term(self, controller: Controller, defaults: TopicSettings) -> Term:
        return Term(
            self._zookeeper,
            controller,
            self._ask,
            self._is_refused,
            self._now_ms,
            defaults,
            self._member.balancing,
        )

    async def _round(self, term: Term) -> Round | None:
        """None: nothing was decided, or it is not known; the next round reads again."""
        try:
            done = await self._in_thread(term.round)
        except _NO_CONNECTION as error:
            log.warning("no round of the controller: %s", error)
            return None
        except TallymarkError as error:
            log.error("no round of the controller: %s", error)
            return None
        for partition in _report(done.outcomes):
            self._member.unclean(partition)
        return done

    async def _is_ours(self, controller: Controller) -> bool:
        """Whether this session still is the controller, in the same term."""
        self._office.clear()
        now = await self._elected()
        return now is None or (now.is_ours and now.epoch == controller.epoch)

    # --- questions of a round, which runs in its thread

    def _ask(
        self,
        views: Mapping[TopicPartition, PartitionView],
        asked: Mapping[TopicPartition, tuple[int, ...]],
    ) -> Mapping[TopicPartition, Tails]:
        unanswered: Mapping[TopicPartition, Tails] = {key: {} for key in asked}
        return {
            **unanswered,
            **self._answer(lambda: self._member.asker.tails(views, asked), unanswered),
        }

    def _is_refused(self, broker: BrokerInfo) -> bool:
        return self._answer(lambda: self._member.asker.is_refused(broker.id), False)

    def _answer(self, question: Callable[[], Awaitable[T]], otherwise: T) -> T:
        """What the loop finds out, ``otherwise`` where that takes too long or fails."""
        answered, found = self._zookeeper.waiting.signal(), list[T]()

        def begin() -> None:
            if self._stopping:
                return answered.set()
            task = asyncio.ensure_future(question())
            self._asking.add(task)
            task.add_done_callback(end)
            return None

        def end(task: asyncio.Future[T]) -> None:
            self._asking.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("brokers cannot be asked", exc_info=error)
            elif not task.cancelled():
                found.append(task.result())
            answered.set()

        self._call_soon(begin)
        answered.wait(ASK_SECONDS)
        return found[0] if found else otherwise

    def _call_soon(self, function: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function)

    async def _in_thread(self, command: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._thread, command)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _report(outcomes: Sequence[Outcome]) -> list[TopicPartition]:
    """To the log. An election that may have lost records is an error; the partitions with one are
    returned."""
    quiet, lossy = len(outcomes) > _LINES, list[TopicPartition]()
    for each in outcomes:
        state, unclean = each.change.state, False
        if each.fate is Fate.DONE and state is not None:
            unclean = state.is_elected_unclean
        if unclean:
            lossy.append(each.change.partition)
        level = logging.DEBUG if quiet else logging.INFO
        log.log(
            logging.ERROR if unclean else level,
            "%s %s partition=%s-%d state=%s: %s",
            "unclean election" if unclean else "change",
            each.fate.value,
            *each.change.partition,
            "as it was" if state is None else (state.leader, state.leader_epoch, state.isr),
            each.why,
        )
    if quiet:
        done = sum(each.fate is Fate.DONE for each in outcomes)
        log.info("changes done=%d of=%d, the first: %s", done, len(outcomes), outcomes[0].why)
    return lossy


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("this broker is the controller no more", exc_info=error)
