"""A connector's place in a group at the brokers: does what the state machine decides.

Decisions are made in the loop of the group's I/O thread (:mod:`.driver`), which never waits for the
application: releasing, storing and reading offsets do, and go to one worker thread, in order. So
heartbeats go on while ``before_release`` finishes, and partitions that are lost stop at once.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from tallymark.client.consuming.coordination import Parts
from tallymark.client.consuming.poll_watchdog import PollState, PollWatchdog
from tallymark.client.consuming.settings import ConsumerSettings
from tallymark.client.group.coordinator_connection import CoordinatorConnection
from tallymark.client.group.driver import GroupDriver
from tallymark.client.group.offsets import BrokerOffsets, Term
from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.state import Phase, Setup, State
from tallymark.client.group.stream_control import StreamControl
from tallymark.client.group.worker import Worker
from tallymark.clock import monotonic_ms
from tallymark.errors import AuthenticationError, KafkaError, TallymarkError

LOG: Final = logging.getLogger("tallymark.client.connector.connector")
_JOINING: Final = (
    *(Phase.FINDING, Phase.READING, Phase.JOINING),
    *(Phase.ASSIGNING, Phase.SYNCING),
)


class GroupCoordinator:
    """See the module. ``start``, ``stop`` and ``join`` are for any thread; ``_release``, ``_load``
    and ``_commit`` run in the worker; all else runs in the loop. ``problem`` is what keeps it from
    the coordinator."""

    def __init__(
        self,
        connection: CoordinatorConnection,
        offsets: BrokerOffsets,
        settings: ConsumerSettings,
        member: str,
        parts: Parts,
    ) -> None:
        self._connection = connection
        connection.io.on_failure = self.failed
        self._offsets = offsets
        self._settings = settings
        self._member = member
        self._on_error = parts.on_error
        self._stream_control = StreamControl(parts, auto_commit=settings.enable_auto_commit)
        self._watchdog = PollWatchdog(parts.streams, settings.poll_interval_ms)
        offsets.why_slow = self._watchdog.numbers
        setup = Setup(
            parts.subscription,
            settings.strategies,
            settings.session_ms,
            settings.poll_interval_ms,
            settings.heartbeat_ms,
            settings.retry_backoff_ms,
            settings.metadata_max_age_ms,
            static=settings.group_instance_id is not None,
        )
        self._driver = GroupDriver(self, connection, settings, State(setup), member)
        self.settled = threading.Event()
        self.problem: TallymarkError | None = None
        self.look_at_ms: int | None = 0
        self._logged: set[str] = set()
        self._failed = False
        self._committing = False
        self._next_commit_ms = 0
        self._worker = Worker(lambda error: connection.io.call(self.failed, error))

    def start(self) -> None:
        """Begin to join."""
        self._worker.start()
        self._stream_control.resume()
        self._driver.submit(ev.Tick())

    def stop(self) -> None:
        """Leave the group in order, soon."""
        self._driver.submit(ev.Stop())

    def join(self, timeout: float) -> bool:
        """Wait for the end; whether it has come."""
        if self._connection.io.stopped:
            self._worker.end()
        return self._worker.join(timeout)

    # -- of the driver ------------------------------------------------------------------------

    def entered(self, before: State) -> None:
        """The offsets are stored and read as a member of this generation from now on."""
        state = self._driver.state
        if state.phase is not before.phase:
            LOG.debug("%s: %s", self._member, state.phase.value)
        self._offsets.term = Term(
            state.member_id, state.generation, state.phase in _JOINING, state.owned
        )

    def perform(self, action: act.Action) -> bool:
        """See :class:`~tallymark.client.group.driver.DriverOwner`; so with the others."""
        match action:
            case act.StopFetchers(places):
                self._stream_control.stop(places)
            case act.StartFetchers(places):
                self._next_commit_ms = monotonic_ms() + self._settings.auto_commit_ms
                self._stream_control.start(places)
                owned = len(self._driver.state.owned)
                LOG.info("consumer %s owns %d partitions", self._member, owned)
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
                self.failed(KafkaError(code, self._refusal()))
            case act.Close():
                self._end()
            case _:
                return False
        return True

    def handled(self, before: State, event: ev.Event) -> None:
        if self._driver.state.phase is Phase.STABLE:
            self.problem = None
            self.settled.set()
            if before.phase is not Phase.STABLE or isinstance(event, ev.Beaten):
                self._logged.clear()  # the brokers answer: the next trouble is a new one

    def may_pass(self, error: TallymarkError) -> bool:
        if isinstance(error, AuthenticationError):
            self.failed(error)
            return False
        if str(error) not in self._logged:  # once, not ten times a second
            self._logged.add(str(error))
            LOG.warning("consumer %s: %s", self._member, error)
        self.problem = error
        return True

    def on_time(self, now_ms: int) -> None:
        if self.look_at_ms is not None and now_ms >= self.look_at_ms:
            self.look_at_ms = now_ms + min(self._watchdog.every_ms, 200)
            self._look_at_application(now_ms)
            self._commit_if_due(now_ms)

    def failed(self, error: Exception) -> None:
        """The group notices it when the session runs out."""
        self._stream_control.pause()
        first, self._failed = not self._failed, True
        if first:
            self._on_error(error)  # which asks us to stop
        if not first or self._driver.state.phase is Phase.CLOSED:
            self._driver.close()
            self._end()

    # -- the application ----------------------------------------------------------------------

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
            case PollState.SLOW if self._has_partitions():
                LOG.error(
                    "consumer %s gives up its partitions: %s. It works on %s",
                    self._member,
                    self._watchdog.numbers(),
                    self._watchdog.culprit(),
                )
                self._driver.feed(ev.Slow())
            case PollState.BACK:
                self._driver.feed(ev.Asked())
            case _:
                pass

    def _has_partitions(self) -> bool:
        state = self._driver.state
        return state.phase is Phase.STABLE and bool(state.owned)

    def _commit_if_due(self, now_ms: int) -> None:
        every = self._settings.auto_commit_ms
        due = every and now_ms >= self._next_commit_ms
        stable = self._driver.state.phase is Phase.STABLE
        if due and not self._committing and stable:
            self._next_commit_ms = now_ms + every
            self._committing = True
            self._worker.put(self._commit)

    # -- the worker ---------------------------------------------------------------------------

    def _release(self, ticket: int) -> None:
        try:
            self._stream_control.release()
        finally:
            self._driver.submit(ev.Done(ticket))

    def _load(self, ticket: int, places: tuple[tuple[str, int], ...]) -> None:
        done = self._stream_control.load(places)
        self._driver.submit(ev.Done(ticket) if done else ev.Failed(ticket))

    def _commit(self) -> None:
        try:
            self._stream_control.commit()
        finally:
            self._committing = False

    # -- the end ------------------------------------------------------------------------------

    def _end(self) -> None:
        self._driver.cancel_requests()
        self._worker.end()

    def _refusal(self) -> str:
        offered = ", ".join(self._settings.strategies)
        named = self._settings.group_instance_id
        return f"group {self._settings.group}, {offered}" + (f", as {named}" if named else "")
