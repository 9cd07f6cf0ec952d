"""What a group member asks the brokers, as coroutines whose result is the machine's next event."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from tallymark.client.consuming.settings import ConsumerSettings
from tallymark.client.group.coordinator_connection import CoordinatorConnection
from tallymark.client.group.requests import (
    heartbeat_request,
    join_request,
    leave_request,
    read_joined,
    read_synced,
    sync_request,
)
from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.protocol.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)
GroupRequest = Coroutine[Any, Any, ev.Event]
_SYNC_SECONDS: Final = 30.0
_LEAVE_SECONDS: Final = 2.0


class CoordinatorRequests:
    """Lives in the link's loop. Coroutines raise ConnectError, TimedOutError, KafkaError."""

    def __init__(self, connection: CoordinatorConnection, settings: ConsumerSettings) -> None:
        self._connection = connection
        self._settings = settings

    def of(self, action: act.Action) -> tuple[GroupRequest, ev.Event]:
        """The question that an action is, and the event that says that it got no answer."""
        match action:
            case act.FindCoordinator():
                return self._find(), ev.NotFound()
            case act.Join(ticket):
                return self._join(action), ev.Failed(ticket)
            case act.Sync(ticket):
                return self._sync(action), ev.Failed(ticket)
            case act.Heartbeat():
                return self._heartbeat(action), ev.BeatFailed()
            case act.ReadTopics(ticket, names):
                return self._read_topics(ticket, names), ev.Failed(ticket)
            case act.Look(names):
                return self._look(names), ev.Looked(None)
            case act.Leave(ticket):
                return self._leave(action), ev.Done(ticket)
            case _:
                raise AssertionError(f"no question: {action}")

    async def _find(self) -> ev.Event:
        await self._connection.find()
        return ev.Found()

    async def _join(self, join: act.Join) -> ev.Event:
        # Whatever an older join or sync still waits for is of no use any more, and on a connection
        # that died in silence a new one would wait, too.
        self._connection.hang_up()
        # The others have the time that a rebalance may take.
        seconds = self._settings.poll_interval_ms / 1000 + self._connection.request_timeout
        request = join_request(join, self._settings)
        answer = await self._ask_and_wait(request, JoinGroupRequest, 9, seconds)
        return read_joined(join.ticket, answer)

    async def _sync(self, sync: act.Sync) -> ev.Event:
        # And the leader that to divide; an answer that is lost must not be waited for much longer.
        seconds = max(_SYNC_SECONDS, self._connection.request_timeout)
        request = sync_request(sync, self._settings)
        answer = await self._ask_and_wait(request, SyncGroupRequest, 5, seconds)
        if not answer.error_code:
            self._connection.hang_up()  # the next rebalance, in hours maybe, opens a new one
        return read_synced(sync.ticket, answer)

    async def _ask_and_wait(
        self, request: Request[R], of: type[Request[R]], at_most: int, seconds: float
    ) -> R:
        return await self._connection.ask(
            lambda _: request, of, at_most, timeout=seconds, waits=True
        )

    async def _heartbeat(self, beat: act.Heartbeat) -> ev.Event:
        seconds = min(self._connection.request_timeout, self._settings.session_ms / 1000)
        request = heartbeat_request(beat, self._settings)
        answer = await self._connection.ask(lambda _: request, HeartbeatRequest, 4, timeout=seconds)
        return ev.Beaten(beat.generation, answer.error_code)

    async def _read_topics(self, ticket: int, names: tuple[str, ...] | None) -> ev.Event:
        return ev.Topics(ticket, await self._connection.partitions(names))

    async def _look(self, names: tuple[str, ...] | None) -> ev.Event:
        return ev.Looked(await self._connection.partitions(names))

    async def _leave(self, leave: act.Leave) -> ev.Event:
        request = leave_request(leave, self._settings)
        await self._connection.ask(lambda _: request, LeaveGroupRequest, 5, timeout=_LEAVE_SECONDS)
        return ev.Done(leave.ticket)
