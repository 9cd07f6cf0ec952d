"""Drives the state machine of a group member: events in, actions out, its timer, its requests.

A driver does what every member needs; its owner does what the actions mean for the application::

    event ──► feed() ──► decide() ──► owner.entered()
                           │ actions    owner.perform(), else a request to the brokers
                           ▼                     │ answer
                    owner.handled() ◄── feed() ◄─┘

Everything but :meth:`GroupDriver.submit` runs in the loop of the connection's I/O thread.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final, Protocol

from tallymark.client.consuming.settings import ConsumerSettings
from tallymark.client.group.coordinator_connection import CoordinatorConnection
from tallymark.client.group.coordinator_requests import CoordinatorRequests, GroupRequest
from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.machine import decide
from tallymark.client.group.state_machine.state import Phase, State
from tallymark.client.group.state_machine.timers import next_due_ms
from tallymark.clock import monotonic_ms
from tallymark.errors import (
    ClientFailedError,
    ClosedError,
    ConnectError,
    KafkaError,
    TallymarkError,
    TimedOutError,
)

LOG: Final = logging.getLogger("tallymark.client.connector.connector")


class DriverOwner(Protocol):
    """What a driver asks of the member that it drives."""

    look_at_ms: int | None
    """When :meth:`on_time` is due (monotonic ms), besides what the machine waits for; None: not."""

    def entered(self, before: State) -> None:
        """The state has changed; its actions follow."""

    def perform(self, action: act.Action) -> bool:
        """Do what the action says; False for a request to the brokers, which is the driver's."""
        ...

    def handled(self, before: State, event: ev.Event) -> None:
        """The actions of the event are done, or under way."""

    def on_time(self, now_ms: int) -> None:
        """The timer has run out; the machine gets its tick after this."""

    def may_pass(self, error: TallymarkError) -> bool:
        """A request failed with a retriable error; whether to go on."""
        ...

    def failed(self, error: TallymarkError) -> None:
        """Something failed that does not pass by waiting."""


class GroupDriver:
    """``state`` is the machine's; ``name`` is the member's in logs and errors."""

    def __init__(
        self,
        owner: DriverOwner,
        connection: CoordinatorConnection,
        settings: ConsumerSettings,
        first: State,
        name: str,
    ) -> None:
        self.state = first
        self._first = first
        self._owner = owner
        self._connection = connection
        self._requests = CoordinatorRequests(connection, settings)
        self._name = name
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, event: ev.Event) -> None:
        """Have the event handled soon. From any thread."""
        self._connection.io.call(self.feed, event)

    def feed(self, event: ev.Event) -> None:
        """Handle one event and everything that follows from it at once."""
        before = self.state
        if before.phase is Phase.CLOSED:
            return
        try:
            self.state, actions = decide(before, event, monotonic_ms())
            self._owner.entered(before)
            for action in actions:
                if not self._owner.perform(action):
                    self._ask(*self._requests.of(action))
            self._owner.handled(before, event)
            self._set_timer()
        except TallymarkError as error:
            self._owner.failed(error)
        except Exception as error:
            LOG.exception("consumer %s: %s", self._name, event)
            self._owner.failed(ClientFailedError(self._name, "its place in the group", error))

    def close(self) -> None:
        """Handle no more events, unless :meth:`begin_again` follows."""
        self.state = replace(self.state, phase=Phase.CLOSED)

    def cancel_requests(self) -> None:
        """Wait for no answer any more."""
        for task in self._tasks:
            task.cancel()

    def begin_again(self) -> None:
        """After :meth:`close`: join as a new member."""
        self.state = replace(self._first, ticket=self.state.ticket + 1)
        self.feed(ev.Tick())

    # -- time ---------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.state.phase is Phase.CLOSED:
            return
        due = [at for at in (next_due_ms(self.state), self._owner.look_at_ms) if at is not None]
        if due:
            seconds = max(0.0, (min(due) - monotonic_ms()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self.state.phase is not Phase.CLOSED:
            self._owner.on_time(monotonic_ms())
            self.feed(ev.Tick())

    # -- requests -----------------------------------------------------------------------------

    def _ask(self, request: GroupRequest, otherwise: ev.Event) -> None:
        """Send the request, in a task; its answer comes back as an event, ``otherwise`` if there
        is none."""
        task = asyncio.get_running_loop().create_task(self._answer(request, otherwise))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: GroupRequest, otherwise: ev.Event) -> None:
        try:
            event = await request
        except ClosedError:
            return  # the member itself was closed meanwhile
        except (ConnectError, TimedOutError, KafkaError) as error:
            if isinstance(error, KafkaError) and not error.retriable:
                self._owner.failed(error)
                return
            if not self._owner.may_pass(error):
                return
            event = otherwise
        except TallymarkError as error:
            self._owner.failed(error)
            return
        except Exception as error:
            self._owner.failed(ClientFailedError(self._name, "asking the brokers", error))
            return
        self.feed(event)
