"""One connection to one leader: a task that asks for all partitions that are followed through it.

::

    open ──▶ ask for all that can be asked ──▶ answer ──▶ a step of each partition, in turn
      ▲        one request at a time, in a session (KIP-227)      │
      └── failure: every partition waits, the session begins anew ◀

A partition that comes while a request is on its way is asked for with the next one; the leader
answers within ``replica.fetch.wait.max.ms``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tallymark.broker.connections.port import BrokerConnection, BrokerConnections
from tallymark.broker.replicas.answers import read_answer, read_offset
from tallymark.broker.replicas.fetch_requests import (
    FIRST_VERSION,
    Candidate,
    Choice,
    choose,
    fetch_request,
    range_requests,
)
from tallymark.broker.replicas.fetch_settings import FetchSettings
from tallymark.broker.replicas.followed import FollowedPartition
from tallymark.broker.replicas.sessions import FollowerSession, Key
from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.protocol.messages import FetchResponse
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition
from tallymark.protocol.wire.fetch import Replica
from tallymark.replication.following import Ask
from tallymark.replication.throttle import ReplicationThrottle

log: Final = logging.getLogger(__name__)
_UNSUPPORTED: Final = CODES["UNSUPPORTED_VERSION"]


class Fetcher:
    """See the module. Belongs to the event loop. ``epoch`` returns this broker's epoch, -1 while it
    is not registered: then nothing is asked. ``is_throttled`` says whether a partition's bytes
    count for ``throttle``."""

    def __init__(
        self,
        me: int,
        leader: int,
        connections: BrokerConnections,
        settings: FetchSettings,
        now_ms: Callable[[], int],
        epoch: Callable[[], int],
        throttle: ReplicationThrottle,
        is_throttled: Callable[[TopicPartition], bool],
    ) -> None:
        self.leader = leader
        self._me = me
        self._connections = connections
        self._settings = settings
        self._now_ms = now_ms
        self._epoch = epoch
        self._throttle = throttle
        self._is_throttled = is_throttled
        self._partitions: dict[Key, FollowedPartition] = {}
        self._changed = asyncio.Event()
        self._connection: BrokerConnection | None = None
        self._session = FollowerSession()
        self._asked_as = -1
        self._complaint = ""
        self._task = asyncio.create_task(self._run(), name=f"fetch from broker {leader}")
        self._task.add_done_callback(_ended)

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, followed: FollowedPartition) -> None:
        """Copy this partition, too."""
        partition = followed.partition
        self._partitions[partition.topic_id, partition.index] = followed
        self._changed.set()

    def drop(self, followed: FollowedPartition) -> None:
        """Ask for it no more."""
        key = followed.partition.topic_id, followed.partition.index
        if self._partitions.get(key) is followed:
            del self._partitions[key]

    def wake(self) -> None:
        """Look again now at what is to be asked."""
        self._changed.set()

    async def stop(self) -> None:
        """Close the connection, end the task."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._close()

    # --- the task

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            if not self._partitions or self._epoch() < 0:
                await self._close()
                await self._changed.wait()
                continue
            try:
                await self._round()
            except (TallymarkError, OSError) as error:
                self._report(error)
                await self._close()
                await self._pause(self._settings.replica_fetch_backoff_ms)

    async def _round(self) -> None:
        """One request and its answer. TallymarkError where the connection failed."""
        for followed in list(self._partitions.values()):
            if followed.needs_begin:
                await followed.begin()
        choice = choose(self._candidates(), self._throttle, self._now_ms())
        if not choice.asks:
            again = 1000 if choice.again_ms is None else choice.again_ms - self._now_ms()
            await self._pause(min(1000, max(1, again)))
            return
        connection = await self._connected()
        response = await self._ask(connection, choice)
        self._complaint = ""
        await self._answered(response, choice, connection)

    def _candidates(self) -> list[Candidate]:
        return [
            Candidate(
                key,
                followed.ask(),
                followed.following.pause_until_ms,
                self._is_throttled(followed.key),
            )
            for key, followed in self._partitions.items()
        ]

    async def _connected(self) -> BrokerConnection:
        if self._asked_as != self._epoch():  # registered again: a session is of one registration
            self._session.begin_anew()
            self._asked_as = self._epoch()
        if self._connection is None:
            self._session = FollowerSession()
            self._connection = await self._connections.open(self.leader)
        return self._connection

    async def _ask(self, connection: BrokerConnection, choice: Choice) -> FetchResponse:
        settings = self._settings
        wait_ms = choice.wait_ms(self._now_ms(), settings)
        request = fetch_request(
            self._session.next(choice.asks), Replica(self._me, self._asked_as), settings, wait_ms
        )
        version = connection.version_of(type(request))
        if version < FIRST_VERSION:
            raise KafkaError(
                _UNSUPPORTED, f"broker {self.leader} serves Fetch up to version {version} only"
            )
        return await connection.send(request, wait_ms + settings.replica_socket_timeout_ms)

    async def _answered(
        self, response: FetchResponse, choice: Choice, connection: BrokerConnection
    ) -> None:
        told = {
            (topic.topic_id, one.partition_index): one
            for topic in response.responses
            for one in topic.partitions
        }
        why = self._session.answered(response.error_code, response.session_id, told)
        if why is not None:
            log.debug("fetch from broker %d begins anew: %s", self.leader, why)
            await asyncio.sleep(0)
            return
        size = 0
        for key, one in told.items():
            followed = self._partitions.get(key)
            ask = choice.asks.get(key)
            if followed is None or ask is None:
                continue
            fetched = read_answer(one)
            if key in choice.throttled:
                size += len(fetched.records)
            await followed.answered(
                ask, fetched, lambda key, ask: self._range_of(connection, key, ask)
            )
        if size:
            self._throttle.charge(size, self._now_ms())

    async def _range_of(
        self, connection: BrokerConnection, key: TopicPartition, ask: Ask
    ) -> tuple[int, int]:
        me = Replica(self._me, self._asked_as)
        timeout_ms = self._settings.replica_socket_timeout_ms
        start, end = [
            read_offset(await connection.send(request, timeout_ms), key)
            for request in range_requests(key, ask.leader_epoch, me, (EARLIEST, LATEST))
        ]
        return start, end

    # --- between requests

    async def _pause(self, milliseconds: int) -> None:
        """Until the time is over, or something has changed."""
        try:
            async with asyncio.timeout(milliseconds / 1000):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _report(self, error: Exception) -> None:
        """Log a failure of the connection once."""
        level = logging.DEBUG if str(error) == self._complaint else logging.WARNING
        self._complaint = str(error)
        log.log(
            level,
            "nothing is copied from broker %d (%d partitions): %s; tried again every %d ms",
            self.leader,
            len(self._partitions),
            error,
            self._settings.replica_fetch_backoff_ms,
        )

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("a fetcher of replicas died", exc_info=error)
