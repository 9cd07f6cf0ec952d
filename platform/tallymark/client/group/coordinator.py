"""The shell around :mod:`tallymark.client.group.state_machine.machine`: it asks the brokers, and
keeps the clock.

Decisions are made in the loop of the group's I/O thread, which never waits for the application:
what does (releasing, storing and reading offsets) goes to one worker thread, in order. So the heart
beats on while ``before_release`` finishes, and partitions that are lost stop at once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tallymark.client.consuming.poll_watchdog import PollState, PollWatchdog
from tallymark.client.consuming.settings import ConsumerSettings
from tallymark.client.group.coordinator_connection import CoordinatorConnection
from tallymark.client.group.coordinator_requests import CoordinatorRequests, GroupRequest
from tallymark.client.group.offsets import BrokerOffsets, Term
from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.machine import decide
from tallymark.client.group.state_machine.state import Phase, Setup, State
from tallymark.client.group.state_machine.timers import next_due_ms
from tallymark.client.group.stream_control import StreamControl
from tallymark.client.group.worker import Worker
from tallymark.clock import monotonic_ms
from tallymark.errors import (
    AuthenticationError,
    ClientFailedError,
    ClosedError,
    ConnectError,
    KafkaError,
    TallymarkError,
    TimedOutError,
)

if TYPE_CHECKING:
    from tallymark.client.consuming.coordination import Parts

LOG: Final = logging.getLogger("tallymark.client.connector.connector")
_JOINING: Final = (
    *(Phase.FINDING, Phase.READING, Phase.JOINING),
    *(Phase.ASSIGNING, Phase.SYNCING),
)


class GroupCoordinator:
    """See the module. ``start``, ``stop`` and ``join`` are for any thread; ``_work`` runs in the
    worker; all else runs in the loop. ``problem`` is what keeps it from the coordinator."""

    def __init__(
        self,
        connection: CoordinatorConnection,
        offsets: BrokerOffsets,
        settings: ConsumerSettings,
        member: str,
        parts: Parts,
    ) -> None:
        self._connection = connection
        self._requests = CoordinatorRequests(connection, settings)
        connection.io.on_failure = self._fail
        self._offsets = offsets
        self._settings = settings
        self._member = member
        self._on_error = parts.on_error
        self._stream_control = StreamControl(
            parts.subscription,
            parts.streams,
            parts.first_stream,
            gate=parts.gate,
            fetcher=parts.fetcher,
            positions=parts.positions,
            committer=parts.committer,
            auto_commit=settings.enable_auto_commit,
            before_release=parts.before_release,
        )
        self._watchdog = PollWatchdog(parts.streams, settings.poll_interval_ms)
        offsets.why_slow = self._watchdog.numbers
        self._state = State(
            Setup(
                parts.subscription,
                settings.strategies,
                settings.session_ms,
                settings.poll_interval_ms,
                settings.heartbeat_ms,
                settings.retry_backoff_ms,
                settings.metadata_max_age_ms,
                static=settings.group_instance_id is not None,
            )
        )
        self.settled = threading.Event()
        self.problem: TallymarkError | None = None
        self._said: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed = False
        self._committing = False
        self._next_commit_ms = 0
        self._next_look_ms = 0
        self._worker = Worker(lambda error: connection.io.call(self._fail, error))

    def start(self) -> None:
        """Begin to join."""
        self._worker.start()
        self._stream_control.resume()
        self._connection.io.call(self._tell, ev.Tick())

    def stop(self) -> None:
        """Leave the group in order, soon."""
        self._connection.io.call(self._tell, ev.Stop())

    def join(self, timeout: float) -> bool:
        """Wait for the end; whether it has come."""
        if self._connection.io.stopped:
            self._worker.end()
        return self._worker.join(timeout)

    # -- the loop -----------------------------------------------------------------------------

    def _tell(self, event: ev.Event) -> None:
        """One event and everything that follows from it at once."""
        if self._state.phase is Phase.CLOSED:
            return
        try:
            before = self._state
            self._state, actions = decide(before, event, monotonic_ms())
            state = self._state
            if state.phase is not before.phase:
                LOG.debug("%s: %s", self._member, state.phase.value)
            self._offsets.term = Term(
                state.member_id, state.generation, state.phase in _JOINING, state.owned
            )
            for action in actions:
                self._perform(action)
            if state.phase is Phase.STABLE:
                self.problem = None
                self.settled.set()
                if before.phase is not Phase.STABLE or isinstance(event, ev.Beaten):
                    self._said.clear()  # the brokers answer: the next trouble is a new one
            self._keep_time()
        except TallymarkError as error:
            self._fail(error)
        except Exception as error:
            LOG.exception("consumer %s: %s", self._member, event)
            self._fail(ClientFailedError(self._member, "its place in the group", error))

    def _keep_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._state.phase is Phase.CLOSED:
            return
        due = next_due_ms(self._state)
        soonest = min(at for at in (due, self._next_look_ms) if at is not None)
        seconds = max(0.0, (soonest - monotonic_ms()) / 1000)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self._state.phase is Phase.CLOSED:
            return
        now_ms = monotonic_ms()
        if now_ms >= self._next_look_ms:
            self._next_look_ms = now_ms + min(self._watchdog.every_ms, 200)
            self._look_at_application(now_ms)
            self._commit_if_due(now_ms)
        self._tell(ev.Tick())

    def _look_at_application(self, now_ms: int) -> None:
        match self._watchdog.look(now_ms):
            case PollState.WARN:
                LOG.warning(
                    "consumer %s is slow: %s; after that its partitions go to others. It works on "
                    "%s",
                    self._member,
                    self._watchdog.numbers(),
                    self._watchdog.culprit(),
                )
            case PollState.SLOW if self._state.phase is Phase.STABLE and self._state.owned:
                LOG.error(
                    "consumer %s gives up its partitions: %s. It works on %s",
                    self._member,
                    self._watchdog.numbers(),
                    self._watchdog.culprit(),
                )
                self._tell(ev.Slow())
            case PollState.BACK:
                self._tell(ev.Asked())
            case _:
                pass

    def _commit_if_due(self, now_ms: int) -> None:
        every = self._settings.auto_commit_ms
        due = every and now_ms >= self._next_commit_ms
        if due and not self._committing and self._state.phase is Phase.STABLE:
            self._next_commit_ms = now_ms + every
            self._committing = True
            self._worker.put(self._commit)

    # -- actions ------------------------------------------------------------------------------

    def _perform(self, action: act.Action) -> None:
        match action:
            case act.StopFetchers(places):
                self._stream_control.stop(places)
            case act.StartFetchers(places):
                self._next_commit_ms = monotonic_ms() + self._settings.auto_commit_ms
                self._stream_control.start(places)
                LOG.info("consumer %s owns %d partitions", self._member, len(self._state.owned))
            case act.Pause():
                LOG.warning("consumer %s pauses: its coordinator is silent", self._member)
                self._stream_control.pause()
            case act.Resume():
                self._stream_control.resume()
            case act.Forget(places):
                self._worker.put(lambda: self._stream_control.forget(places))
            case act.Release(ticket, _):
                self._worker.put(lambda: self._release(ticket))
            case act.Load(ticket, places):
                self._worker.put(lambda: self._load(ticket, places))
            case act.Fail(code):
                self._fail(KafkaError(code, self._refusal()))
            case act.Close():
                self._end()
            case _:
                self._begin(*self._requests.of(action))

    def _begin(self, question: GroupRequest, otherwise: ev.Event) -> None:
        """Ask the brokers, in a task, whose answer comes back as an event."""
        task = asyncio.get_running_loop().create_task(self._answered(question, otherwise))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answered(self, question: GroupRequest, otherwise: ev.Event) -> None:
        try:
            event = await question
        except ClosedError:
            return  # by us, meanwhile
        except (ConnectError, TimedOutError, KafkaError) as error:
            lasting = isinstance(error, KafkaError) and not error.retriable
            if isinstance(error, AuthenticationError) or lasting:
                self._fail(error)
                return
            if str(error) not in self._said:  # once, not ten times a second
                self._said.add(str(error))
                LOG.warning("consumer %s: %s", self._member, error)
            self.problem = error
            event = otherwise
        except TallymarkError as error:
            self._fail(error)
            return
        except Exception as error:
            self._fail(ClientFailedError(self._member, "asking the brokers", error))
            return
        self._tell(event)

    # -- the worker ---------------------------------------------------------------------------

    def _release(self, ticket: int) -> None:
        try:
            self._stream_control.release()
        finally:
            self._connection.io.call(self._tell, ev.Done(ticket))

    def _load(self, ticket: int, places: tuple[tuple[str, int], ...]) -> None:
        done = self._stream_control.load(places)
        self._connection.io.call(self._tell, ev.Done(ticket) if done else ev.Failed(ticket))

    def _commit(self) -> None:
        try:
            self._stream_control.commit()
        finally:
            self._committing = False

    # -- the end ------------------------------------------------------------------------------

    def _fail(self, error: Exception) -> None:
        """What no waiting will mend. The group hears of it when the session runs out."""
        self._stream_control.pause()
        first, self._failed = not self._failed, True
        if first:
            self._on_error(error)  # which asks us to stop
        if not first or self._state.phase is Phase.CLOSED:
            self._state = replace(self._state, phase=Phase.CLOSED)
            self._end()

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._worker.end()

    def _refusal(self) -> str:
        offered = ", ".join(self._settings.strategies)
        named = self._settings.group_instance_id
        return f"group {self._settings.group}, {offered}" + (f", as {named}" if named else "")
