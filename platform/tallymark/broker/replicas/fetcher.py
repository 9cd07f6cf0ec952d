"""One connection to one leader: a task that asks for all partitions that are followed through it.

::

    open ──▶ ask for all that can be asked ──▶ answer ──▶ a step of each partition, in turn
      ▲        one request at a time, in a session (KIP-227)      │
      └── failure: every partition waits, the session begins anew ◀

A leader that has nothing to send keeps a request for ``replica.fetch.wait.max.ms``. A partition
that comes meanwhile would wait as long, and with it the producers of its new leader: the connection
is given up for another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tallymark.broker.connections.port import BrokerConnection, BrokerConnections
from tallymark.broker.replicas.answers import (
    ends_a_session,
    partitions_of,
    read_answer,
    read_offset,
    what_to_do,
)
from tallymark.broker.replicas.asking import Asking
from tallymark.broker.replicas.candidates import Candidate, Candidates, longest_wait_ms
from tallymark.broker.replicas.fetch_requests import FIRST_VERSION, fetch_request, range_requests
from tallymark.broker.replicas.fetch_settings import FetchSettings
from tallymark.broker.replicas.followed import FollowedPartition
from tallymark.broker.replicas.sessions import FollowerSession, Key, NextFetch
from tallymark.broker.replicas.suspects import HearsOfConnections
from tallymark.broker.yielding import in_turns
from tallymark.errors import CODES, ConnectError, KafkaError, TallymarkError
from tallymark.protocol.messages import FetchRequest, FetchResponse
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition
from tallymark.protocol.wire.fetch import Replica
from tallymark.replication.following import Ask
from tallymark.replication.throttle import ReplicationThrottle

log: Final = logging.getLogger(__name__)

_LOOK_MS: Final = 1000
"""So often all partitions are looked at; otherwise those of which something is known to have
changed."""
_STEPS_WAIT: Final = 0.05
"""Seconds that a request waits for steps of partitions: they are asked for with it then."""
_STEPS_WAIT_MS: Final = 50
"""While steps are being done, a leader that has nothing to send keeps a request so long only."""
_TURN_BYTES: Final = 64 * 1024
_TURN_LOOKS: Final = 200
_TURN_PARTITIONS: Final = 16
"""So many are appended before the event loop gets its turn: a few ms where batches are small."""


@dataclass(slots=True)
class Copying:
    """What the fetchers of one broker share. ``me`` is its id, ``epoch`` that of its registration,
    -1 while there is none: then nothing is asked. ``clock_ms`` is a monotonic clock.
    ``is_throttled``: a partition's bytes count for ``throttle``. ``suspects`` hears of
    leaders that refuse a connection, and of connections that end."""

    me: int
    connections: BrokerConnections
    settings: FetchSettings
    clock_ms: Callable[[], int]
    throttle: ReplicationThrottle
    is_throttled: Callable[[TopicPartition], bool]
    suspects: HearsOfConnections | None = None
    epoch: int = -1


class Fetcher:
    """See the module. Belongs to the event loop."""

    def __init__(self, leader: int, copying: Copying) -> None:
        self.leader = leader
        self._copying = copying
        self._partitions: dict[Key, FollowedPartition] = {}
        self._session = FollowerSession()
        self._candidates = Candidates(self._session)
        self._touched: set[Key] = set()
        self._looked_ms = 0
        self._changed = asyncio.Event()
        """Something may be asked that could not be asked before."""
        self._asking = Asking()
        self._connection: BrokerConnection | None = None
        self._asked_as = -1
        self._misfits = 0
        self._complaint = ""
        self._task = asyncio.create_task(self._run(), name=f"fetch from broker {leader}")

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the leader."""
        return self._connection is not None

    def add(self, followed: FollowedPartition) -> None:
        """Copy this partition, too."""
        self._partitions[followed.id] = followed
        self.touch(followed.id)
        self._asking.hurry()

    def drop(self, followed: FollowedPartition) -> None:
        """Ask for it no more."""
        key = followed.id
        if self._partitions.get(key) is followed:
            del self._partitions[key]
            self._candidates.drop(key)
            self._touched.discard(key)

    def touch(self, key: Key) -> None:
        """The partition may be asked for something else than before."""
        if key in self._partitions:
            self._touched.add(key)
            self._changed.set()

    def look_again(self) -> None:
        """At all partitions, now."""
        self._touched.update(self._partitions)
        self._changed.set()
        self._asking.hurry()

    async def stop(self) -> None:
        """Close the connection, end the task."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._asking.stop()
        await self._close()

    # --- the task

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            self._asking.is_urgent = False
            if not self._partitions or self._copying.epoch < 0:
                await self._close()
                await self._changed.wait()
                continue
            try:
                await self._round()
            except (TallymarkError, OSError) as error:
                await self._failed(error)
            except Exception as error:  # nothing may end the copying of all partitions (KAFKA-8346)
                log.exception("a fetch from broker %d failed by a fault of ours", self.leader)
                await self._failed(error)

    async def _round(self) -> None:
        """One request and its answer. TallymarkError where the connection failed."""
        await self._look()
        steps = self._steps()
        if steps:
            await asyncio.wait(steps, timeout=_STEPS_WAIT)
            await self._look()
        copying, now_ms = self._copying, self._copying.clock_ms()
        again_ms = self._candidates.again_ms(copying.throttle, now_ms)
        if not self._session.wants_any:
            again = now_ms + _LOOK_MS if again_ms is None else again_ms
            await self._pause(min(_LOOK_MS, max(1, again - now_ms)))
            return
        connection = await self._connected()
        fetch = self._session.next()
        wait_ms = longest_wait_ms(again_ms, now_ms, copying.settings)
        if self._session.has_more:
            wait_ms = 0
        elif self._steps():
            wait_ms = min(wait_ms, _STEPS_WAIT_MS)
        response = await self._ask(connection, fetch, wait_ms)
        if response is not None:
            await self._answered(response, connection)

    async def _look(self) -> None:
        """Renew the candidates that may have changed, in turns."""
        now_ms = self._copying.clock_ms()
        if abs(now_ms - self._looked_ms) >= _LOOK_MS:
            self._looked_ms = now_ms
            self._touched.update(self._partitions)
        touched, self._touched = self._touched, set()
        touched.update(self._candidates.due(now_ms))
        async for key in in_turns(touched, _TURN_LOOKS):
            followed = self._partitions.get(key)
            if followed is not None:
                self._renew(key, followed)

    def _renew(self, key: Key, followed: FollowedPartition) -> None:
        copying = self._copying
        throttled = copying.throttle.rate is not None and copying.is_throttled(followed.key)
        ask = followed.ask()
        paused = 0 if followed.doing is not None else followed.following.pause_until_ms
        self._candidates.put(Candidate(key, ask, paused, throttled))

    def _steps(self) -> list[asyncio.Future[None]]:
        resting = (self._partitions[key].doing for key in self._candidates.resting)
        return [doing for doing in resting if doing is not None]

    async def _connected(self) -> BrokerConnection:
        copying = self._copying
        if self._connection is None:
            self._session.connection_closed()
            self._connection = await copying.connections.open(self.leader)
        if self._asked_as != copying.epoch:  # registered again: a session is of one registration
            self._session.begin_anew()
            self._asked_as = copying.epoch
        return self._connection

    async def _ask(
        self, connection: BrokerConnection, fetch: NextFetch, wait_ms: int
    ) -> FetchResponse | None:
        """The leader's answer; None where the request was given up."""
        settings = self._copying.settings
        version = connection.version_of(FetchRequest)
        if version < FIRST_VERSION:
            raise KafkaError(
                CODES["UNSUPPORTED_VERSION"],
                f"broker {self.leader} serves Fetch up to version {version} only: upgrade it",
            )
        me = Replica(self._copying.me, self._asked_as)
        request = fetch_request(fetch, me, settings, wait_ms)
        timeout_ms = wait_ms + settings.replica_socket_timeout_ms
        response = await self._asking.send(connection, request, timeout_ms)
        if response is None:
            await self._close()
        return response

    async def _answered(self, response: FetchResponse, connection: BrokerConnection) -> None:
        told = partitions_of(response)
        why = self._session.answered(
            response.error_code, response.session_id, [key for key, _ in told]
        )
        if why is not None:
            self._misfits += 1
            if self._misfits > 1 or not ends_a_session(response.error_code):
                raise KafkaError(response.error_code or CODES["INVALID_REQUEST"], why)
            log.debug("the session with broker %d begins anew: %s", self.leader, why)
            return
        self._misfits, self._complaint = 0, ""
        strayed: list[tuple[FollowedPartition, Ask]] = []
        size = throttled = 0
        for number, (key, one) in enumerate(told, 1):
            followed, ask = self._partitions.get(key), self._session.known.get(key)
            if followed is None or ask is None:
                continue  # it is not followed any more
            if one.error_code and self._asked_as != self._copying.epoch:
                continue  # it may be about the registration before
            fetched = read_answer(one)
            self._touched.add(key)
            if await followed.answered(ask, fetched):
                strayed.append((followed, ask))
            size += len(fetched.records)
            throttled += len(fetched.records) if self._candidates.is_throttled(key) else 0
            if size >= _TURN_BYTES or number % _TURN_PARTITIONS == 0:
                size = 0
                await asyncio.sleep(0)
        if throttled:
            self._copying.throttle.charge(throttled, self._copying.clock_ms())
        for followed, ask in strayed:
            await self._ask_range(connection, followed, ask)

    async def _ask_range(
        self, connection: BrokerConnection, followed: FollowedPartition, ask: Ask
    ) -> None:
        key, me = followed.key, Replica(self._copying.me, self._asked_as)
        timeout_ms = self._copying.settings.replica_socket_timeout_ms
        try:
            start, end = [
                read_offset(await connection.send(request, timeout_ms), key)
                for request in range_requests(key, ask.leader_epoch, me, (EARLIEST, LATEST))
            ]
        except KafkaError as error:
            followed.failed(error)
        else:
            followed.range_told(ask, start, end)
        self.touch(followed.id)

    # --- between requests

    async def _failed(self, error: Exception) -> None:
        """Log a failure of the connection once, and pause."""
        pause_ms = self._copying.settings.replica_fetch_backoff_ms
        level = logging.DEBUG if str(error) == self._complaint else logging.WARNING
        self._complaint = str(error)
        todo = what_to_do(error.code) if isinstance(error, KafkaError) else "it is tried again"
        log.log(
            level,
            "nothing is copied from broker %d (%d partitions): %s; %s every %d ms",
            self.leader,
            len(self._partitions),
            error,
            todo,
            pause_ms,
        )
        was_connected, suspects = self.is_connected, self._copying.suspects
        await self._close()
        if suspects is not None and isinstance(error, ConnectError):
            if error.is_refused:
                suspects.refused(self.leader)
            elif was_connected:
                suspects.lost(self.leader)
        await self._pause(pause_ms)

    async def _pause(self, milliseconds: int) -> None:
        """Until the time is over, or something has changed."""
        timer = asyncio.get_running_loop().call_later(milliseconds / 1000, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            timer.cancel()

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
