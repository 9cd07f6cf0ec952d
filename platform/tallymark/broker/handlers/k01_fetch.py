"""k01 Fetch: read record batches, waiting until there are enough bytes.

Served 4-16.

* v4 isolation levels (KIP-98): a reader of committed records gets those below the last stable
  offset, and with them the transactions that were aborted
* v5 the log start offset
* v7 fetch sessions (KIP-227): :mod:`tallymark.broker.fetch_sessions`
* v9 leader epochs fence stale readers (KIP-320)
* v10 zstd; below it a batch of zstd is UNSUPPORTED_COMPRESSION_TYPE (KIP-110)
* v11 the reader's rack (KIP-392): :mod:`tallymark.broker.requests.fetch_near`
* v12 flexible; a reader that sends the epoch of its last record gets the offset at which that
  epoch diverges from the log (KIP-595)
* v13 topic ids (KIP-516)
* v15 followers tell their registration (KIP-903): :mod:`tallymark.broker.requests.fetch_follower`.
  Below it a request with a replica id is UNSUPPORTED_VERSION in every partition
* v16 the new leader's address (KIP-951)

Kept: READ on the topic is required, of a follower CLUSTER_ACTION on the cluster. Consumers read
below the high watermark, those of committed records below the last stable offset; between it and
the end of the log a fetch waits. A long poll is parked without cost and woken by appends, one for
committed records by moves of the last stable offset. Whole batches are returned, from the one with
the offset on; the first batch of an answer is returned even if it is larger than the limit
(KIP-74). Large pieces are sent as slices of the segment file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from secrets import randbelow
from typing import Final, TypeAlias

from tallymark.broker.fetch_sessions import FetchSession, ReplicaSession, grouped
from tallymark.broker.partitions.lead import READ_COMMITTED, Lead
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.partitions.stable_readers import StableReaders
from tallymark.broker.requests.cluster_action import require_cluster_action
from tallymark.broker.requests.fetch_follower import FIRST_VERSION, FollowerAsk, FollowerRound
from tallymark.broker.requests.fetch_near import NearRound, with_followed
from tallymark.broker.requests.fetch_response import (
    error_response,
    refused_response,
    response_of,
)
from tallymark.broker.requests.fetch_round import FetchPartition, FetchRound, length_of, resolve
from tallymark.broker.requests.registry import register_raw
from tallymark.broker.security.quota_charge import charge_quota
from tallymark.broker.state import BrokerState
from tallymark.errors import CODES, KafkaError
from tallymark.net.server.handler import Answer, Connection
from tallymark.net.server.responses import Payload
from tallymark.protocol.api import ApiKey
from tallymark.protocol.frames import RequestHeader
from tallymark.protocol.messages import FetchRequest
from tallymark.protocol.wire.fetch import Ask, PlainFetch, Topic, read_fetch

Watched: TypeAlias = Partition | StableReaders | Lead | ReplicaSession
"""Tells of changes: see their ``watch`` and ``unwatch``."""
_LAST_ID: Final = 2**31 - 1
_MOST_WAIT_MS: Final = 300_000
"""The longest wait: a reader that requests a longer one is answered after this time, and sends
another request."""


def handle(
    state: BrokerState, body: memoryview, header: RequestHeader, connection: Connection
) -> Answer | Awaitable[Answer]:
    """Answer at once if there is enough, an error or nothing to wait for; else park."""
    request = read_fetch(body, header.api_version)
    if request.replica.id < 0:
        kind = _Near if request.rack else _Fetching
        fetching = kind(state, header, connection, request)
    elif header.api_version < FIRST_VERSION:
        return refused_response(header, request, CODES["UNSUPPORTED_VERSION"])
    else:
        fetching = _Following(state, header, connection, request)
    try:
        fetching.continue_session()
    except KafkaError as error:
        return fetching.refused(error.code)
    found = fetching.look(wait=False)
    if found.cold:
        return _warmed(fetching, found)
    return fetching.answer(found) if fetching.is_enough(found) else _Parked(fetching).future


async def _warmed(fetching: _Fetching, found: FetchRound) -> Answer:
    """Read an old segment's indexes in a thread, since they are megabytes, then answer."""
    await asyncio.to_thread(found.warm)
    found = fetching.look()
    return fetching.answer(found) if fetching.is_enough(found) else await _Parked(fetching).future


class _Fetching:
    """One request that is being handled. ``watched``: what the last :meth:`look` found on this
    broker, and a change of which may be more to answer."""

    def __init__(
        self,
        state: BrokerState,
        header: RequestHeader,
        connection: Connection,
        request: PlainFetch,
    ) -> None:
        self.watched: Sequence[Watched] = ()
        self.wait_ms = min(request.max_wait_ms, _MOST_WAIT_MS)
        self._state = state
        self._header = header
        self._connection = connection
        self._request = request
        self._session: FetchSession | None = None
        self._new_id = 0
        """Id of the new session for the reader, 0 for none."""
        self._asked: list[tuple[Topic, Ask]] = []
        self._wanted: list[FetchPartition] = []
        self._sessions = state.fetch_sessions

    def continue_session(self) -> None:
        """Take the requested partitions from the session that the request continues, or from the
        request. KafkaError where the session does not exist, or the request is not its next one."""
        request, state = self._request, self._state
        session = self._session = self._sessions.continued(
            request, self._header.api_version, state.now_ms()
        )
        if session is not None:
            self._asked = self._asks_of(session)
            return
        self._asked = [(topic, ask) for topic, asks in request.topics for ask in asks]
        if request.session_epoch == 0:
            self._new_id = randbelow(_LAST_ID) + 1

    def _asks_of(self, session: FetchSession) -> list[tuple[Topic, Ask]]:
        """The partitions of the session to read."""
        return [(key[0], each.ask) for key, each in session.partitions.items()]

    def look(self, *, wait: bool = True) -> FetchRound:
        """Read the partitions. They are looked up again each time: one may have been deleted, or
        its topic created again. ``wait`` is that of :class:`FetchRound`."""
        wanted = self._wanted = resolve(self._state, self._connection, self._asked)
        self.watched = self._watched_in(wanted)
        version, listener = self._header.api_version, self._connection.listener
        return FetchRound(self._state, self._request, version, wanted, listener, wait)

    def _watched_in(self, wanted: Sequence[FetchPartition]) -> Sequence[Watched]:
        there = [each.found for each in wanted if isinstance(each.found, Partition)]
        if self._request.isolation_level == READ_COMMITTED:
            return [partition.stable_readers for partition in there]
        return there

    def is_enough(self, found: FetchRound, *, time_is_up: bool = False) -> bool:
        """Whether ``found`` is the answer; otherwise the fetch waits for more."""
        return found.complete or time_is_up or self.wait_ms <= 0 or self._state.stopping.is_set()

    def answer(self, found: FetchRound) -> Answer:
        """The whole frame of a response with ``found``."""
        self._count(found)
        session, changed = self._session, found.found
        if session is not None:
            changed = session.changes(changed, found.to_tell)
        elif self._new_id:
            state, version = self._state, self._header.api_version
            session = self._sessions.open(self._request, version, state.now_ms(), self._new_id)
            if session is not None:
                session.changes(changed)
        session_id = 0 if session is None else session.session_id
        return self._charged(
            partial(response_of, self._header, self._request, session_id, grouped(changed), found)
        )

    def refused(self, error_code: int) -> Answer:
        """The whole frame of a response to a request that fails as a whole."""
        return self._charged(partial(error_response, self._header, error_code))

    def _charged(self, write: Callable[[int], bytes | Payload]) -> Answer:
        """The response of ``write(throttle_ms)``. A quota counts its bytes, so the response for a
        client that must be throttled is written twice."""
        response = write(0)
        throttle_ms = charge_quota(
            self._state.security, self._header, self._connection, len(response)
        )
        return write(throttle_ms) if throttle_ms else response

    def _sent(self, partition: Partition, size: int) -> None:
        partition.traffic.sent_bytes += size

    def _count(self, found: FetchRound) -> None:
        for wanted, (_, each) in zip(self._wanted, found.found, strict=True):
            if isinstance(wanted.found, Partition):
                self._sent(wanted.found, length_of(each))
            if each.error_code:
                self._state.metrics.api(ApiKey.FETCH).failed(each.error_code)


class _Near(_Fetching):
    """A request of a consumer that names its rack: it may be sent to a follower, and may read from
    this broker where that is one."""

    def look(self, *, wait: bool = True) -> NearRound:
        """As that of others."""
        found = resolve(self._state, self._connection, self._asked)
        wanted = self._wanted = with_followed(self._state.partitions, found)
        self.watched = self._watched_in(wanted)
        version, listener = self._header.api_version, self._connection.listener
        return NearRound(self._state, self._request, version, wanted, listener, wait)


class _Following(_Fetching):
    """A request of a follower: it reads to the end of the logs, and waits for them to grow; it is
    outside of the sessions and quotas of clients. Of a session only the partitions that are stirred
    are looked at."""

    def __init__(
        self,
        state: BrokerState,
        header: RequestHeader,
        connection: Connection,
        request: PlainFetch,
    ) -> None:
        super().__init__(state, header, connection, request)
        self._sessions = state.replica_sessions
        self._follower = FollowerAsk(state, request.replica)

    def continue_session(self) -> None:
        """As that of others; then tell the leads of the follower's progress. KafkaError
        CLUSTER_AUTHORIZATION_FAILED, too."""
        require_cluster_action(self._state, self._connection)
        self._state.follower_connections.fetched(self._connection, self._request.replica.id)
        super().continue_session()
        self._follower.take(self._asked)
        session = self._follower.session
        if session is not None:
            session.heard_ms = int(asyncio.get_running_loop().time() * 1000)

    def look(self, *, wait: bool = True) -> FollowerRound:
        """As that of others."""
        follower, session = self._follower, self._follower.session
        if session is not None:
            self._asked = session.asked()
        wanted = self._wanted = follower.resolve(self._asked)
        version, listener = self._header.api_version, self._connection.listener
        found = FollowerRound(follower, self._state, self._request, version, wanted, listener, wait)
        if session is not None:
            self.watched = (session,)
        else:
            there = [each.found for each in wanted if isinstance(each.found, Partition)]
            self.watched = [each.lead for each in there if each.lead is not None]
        if found.wait_ms is not None:
            self.wait_ms = min(self.wait_ms, found.wait_ms)
        return found

    def _asks_of(self, session: FetchSession) -> list[tuple[Topic, Ask]]:
        assert isinstance(session, ReplicaSession)
        self._follower.session = session
        return session.asked()

    def _charged(self, write: Callable[[int], bytes | Payload]) -> Answer:
        return write(0)

    def _count(self, found: FetchRound) -> None:
        super()._count(found)
        throttles = self._state.throttles
        if throttles is not None and isinstance(found, FollowerRound) and found.held_back:
            throttles.charge(found.held_back)

    def _sent(self, partition: Partition, size: int) -> None:
        self._state.metrics.replication.sent_bytes += size


class _Parked:
    """Waits until there are enough bytes, something fails, the time is over or the broker stops;
    ``future`` then has the answer. Cancelling it ends the fetch.

    A parked fetch is no task: it is a future, a timer and a place among the watchers of its
    partitions. (Measured: 15 us instead of 20 to park and wake one; a consumer at the end of a log
    is woken by every append.)
    """

    def __init__(self, fetching: _Fetching) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._fetching = fetching
        self._watched = fetching.watched
        self._woken = False
        self.future: asyncio.Future[Answer] = loop.create_future()
        self.future.add_done_callback(self._end)
        self._timer = loop.call_later(fetching.wait_ms / 1000, self._look, True)
        for each in self._watched:
            each.watch(self)

    def set(self) -> None:
        """Something changed (:meth:`tallymark.broker.partitions.partition.Partition.watch`).
        Appends of one turn of the event loop wake once."""
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self._look)

    def _look(self, time_is_up: bool = False) -> None:
        self._woken = False
        if self.future.done():
            return
        fetching = self._fetching
        try:
            found = fetching.look()
            if fetching.is_enough(found, time_is_up=time_is_up):
                self.future.set_result(fetching.answer(found))
                return
        except Exception as error:  # the connection logs it and closes
            self.future.set_exception(error)
            return
        if fetching.watched != self._watched:
            self._unwatch()
            self._watched = fetching.watched
            for each in self._watched:
                each.watch(self)

    def _unwatch(self) -> None:
        for each in self._watched:
            each.unwatch(self)

    def _end(self, _: asyncio.Future[Answer]) -> None:
        self._timer.cancel()
        self._unwatch()


register_raw(FetchRequest, handle)
