"""Fetch sessions (KIP-227): the broker remembers the partitions that a reader fetches, so that
neither requests nor responses name unchanged ones. Pure: times and new ids are arguments.

::

    request (session, epoch)                      response
    (0, 0)  all partitions                        all partitions, new session 77
    (77, 1) changes to the partitions             partitions that have changed
    (77, 2) ...                                   ...
    (77, 0) all partitions, instead of 77         all partitions, new session 78
    (77, -1) all partitions, 77 ends              all partitions, no session

Epochs count the requests of a session, so that a lost or repeated request is detected. A reader
that does not get a session (0) continues to name all partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tallymark.broker.partitions.lead import Lead, Watcher
from tallymark.errors import CODES, KafkaError
from tallymark.protocol.wire.fetch import Ask, Found, PlainFetch, Replica, Topic
from tallymark.replication.progress import Heard

NO_SESSION: Final = 0
_FULL: Final = 0
_FINAL: Final = -1
_LAST_EPOCH: Final = 2**31 - 1
_FIRST_WITH_IDS: Final = 13

Key: TypeAlias = tuple[Topic, int]


@dataclass(slots=True)
class Remembered:
    """A partition of a session: the reader's last request for it, and the last response."""

    ask: Ask
    high_watermark: int = -1
    log_start_offset: int = -1

    def has_changed(self, found: Found) -> bool:
        """Whether a response must contain ``found``; remembers it as sent."""
        length = len(found.records) if isinstance(found.records, bytes) else found.records.size
        changed = bool(
            length
            or found.error_code
            or found.high_watermark != self.high_watermark
            or found.log_start_offset != self.log_start_offset
        )
        # After an error the next response contains the partition again, changed or not.
        self.high_watermark = -1 if found.error_code else found.high_watermark
        self.log_start_offset = found.log_start_offset
        return changed


@dataclass(slots=True)
class FetchSession:
    """The partitions of one reader, in the order in which they are read."""

    session_id: int
    uses_ids: bool
    created_ms: int
    used_ms: int
    epoch: int = 1
    """The epoch that the next request must have."""
    partitions: dict[Key, Remembered] = field(default_factory=dict[Key, Remembered])

    def update(self, request: PlainFetch) -> None:
        """Apply the partitions that a request adds, changes and forgets."""
        for topic, indexes in request.forgotten:
            for index in indexes:
                self.partitions.pop((topic, index), None)
        for topic, asks in request.topics:
            for ask in asks:
                known = self.partitions.get((topic, ask.partition))
                if known is None:
                    self.partitions[topic, ask.partition] = Remembered(ask)
                else:
                    known.ask = ask

    def end(self) -> None:
        """The session is not remembered any more."""

    def changes(
        self, found: Iterable[tuple[Topic, Found]], diverging: Container[Key] = ()
    ) -> list[tuple[Topic, Found]]:
        """The partitions that a response must contain; remembers them as sent. ``diverging``: those
        of readers that are told where logs part, or where to read, changed or not. A partition
        whose records are sent moves to the end of the order, so that the next response begins with
        others."""
        changed: list[tuple[Topic, Found]] = []
        for topic, each in found:
            known = self.partitions.get((topic, each.partition))
            if known is None or known.has_changed(each) or (topic, each.partition) in diverging:
                changed.append((topic, each))
                if known is not None and each.records:
                    del self.partitions[topic, each.partition]
                    self.partitions[topic, each.partition] = known
        return changed


class ReplicaSession(FetchSession):
    """The session of a follower. Each request repeats all partitions that it does not name, so the
    broker looks only at those that are *stirred*: named by a request, or changed since the follower
    had all of them. What rests costs nothing.

    ::

        stirred --- nothing to send, all is told: rest() --> resting
                <-- the log has grown, the lead moves -----
    """

    def __init__(self, session_id: int, uses_ids: bool, created_ms: int, used_ms: int) -> None:
        super().__init__(session_id, uses_ids, created_ms, used_ms)
        self.heard_ms = 0
        """When the last request came, on the clock of the leads."""
        self.replica = Replica()
        """The follower of the last request."""
        self._stirred: dict[Key, None] = {}
        self._seats: dict[Key, _Seat] = {}
        self._waiting: set[Watcher] = set()

    def update(self, request: PlainFetch) -> None:
        """As that of others. Another registration of the follower stirs all."""
        super().update(request)
        for topic, indexes in request.forgotten:
            for index in indexes:
                self._drop((topic, index))
        for topic, asks in request.topics:
            self._stirred.update(((topic, ask.partition), None) for ask in asks)
        if request.replica != self.replica:
            self.replica = request.replica
            self._stirred.update(dict.fromkeys(self.partitions))

    def asked(self) -> list[tuple[Topic, Ask]]:
        """The partitions to look at, in the order in which they are to be read."""
        return [(key[0], self.partitions[key].ask) for key in self._stirred]

    def seat(self, key: Key, lead: Lead) -> Heard:
        """The place of a partition at ``lead``, which is told what the follower asks."""
        seat = self._seats.get(key)
        if seat is None or seat.lead is not lead:
            if seat is not None:
                seat.leave()
            seat = self._seats[key] = _Seat(self, key, lead)
        return seat

    def rest(self, key: Key, *, told: bool) -> None:
        """The partition has nothing to send; ``told``: nor to tell. Its lead stirs it."""
        seat = self._seats.get(key)
        if seat is not None:
            seat.lead.rest(seat)
            if told:
                self._stirred.pop(key, None)

    def stir(self, key: Key, *, wake: bool) -> None:
        """Look at the partition with the next request; ``wake``: with the one that waits."""
        if key not in self.partitions:
            return
        self._stirred[key] = None
        if wake:
            for each in self._waiting:
                each.set()

    def watch(self, event: Watcher) -> None:
        """Set ``event`` when a partition has something to send, until :meth:`unwatch`."""
        self._waiting.add(event)

    def unwatch(self, event: Watcher) -> None:
        """The end of :meth:`watch`."""
        self._waiting.discard(event)

    def changes(
        self, found: Iterable[tuple[Topic, Found]], diverging: Container[Key] = ()
    ) -> list[tuple[Topic, Found]]:
        """As that of others, for the order in which stirred ones are read as well."""
        changed = super().changes(found, diverging)
        for topic, each in changed:
            key = topic, each.partition
            if key in self._stirred and each.records:
                del self._stirred[key]
                self._stirred[key] = None
        return changed

    def end(self) -> None:
        """Nothing is asked for any more."""
        for key in list(self._seats):
            self._drop(key)

    def _drop(self, key: Key) -> None:
        self._stirred.pop(key, None)
        seat = self._seats.pop(key, None)
        if seat is not None:
            seat.leave()


class _Seat:
    """The place of one partition of a session at its lead: its
    :class:`~tallymark.broker.partitions.lead.Copier`, and when it was asked for last."""

    __slots__ = ("_key", "_left_ms", "_session", "lead")

    def __init__(self, session: ReplicaSession, key: Key, lead: Lead) -> None:
        self._session = session
        self._key = key
        self._left_ms: int | None = None
        self.lead = lead

    @property
    def ms(self) -> int:
        """Until it is left, each request of the session asks for the partition."""
        return self._session.heard_ms if self._left_ms is None else self._left_ms

    def leave(self) -> None:
        """The session does not ask for the partition any more."""
        self._left_ms = self._session.heard_ms
        self.lead.forget(self)

    def set(self) -> None:
        self._session.stir(self._key, wake=True)

    def moved(self) -> None:
        self._session.stir(self._key, wake=False)


class FetchSessionCache:
    """The sessions of a broker. When there are too many, an unused or a smaller one is evicted: a
    large session saves more (Kafka's rule)."""

    def __init__(
        self,
        slots: int = 1000,
        evict_after_ms: int = 120_000,
        make: Callable[[int, bool, int, int], FetchSession] = FetchSession,
    ) -> None:
        self._make = make
        self.slots = slots
        self.evict_after_ms = evict_after_ms
        self.evicted = 0
        """How many sessions were evicted."""
        self._sessions: dict[int, FetchSession] = {}  # the least recently used one is first

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions

    @property
    def partitions(self) -> int:
        """Partitions of all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def continued(self, request: PlainFetch, version: int, now_ms: int) -> FetchSession | None:
        """The session that ``request`` continues, updated by it. None for a request that names all
        its partitions, or has forgotten all of them; its session is removed then.

        Raises KafkaError FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session_id = request.session_id
        if request.session_epoch in (_FULL, _FINAL):
            self._end(session_id)
            return None
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(CODES["FETCH_SESSION_ID_NOT_FOUND"], f"session {session_id}")
        if request.session_epoch != session.epoch:
            raise KafkaError(
                CODES["INVALID_FETCH_SESSION_EPOCH"],
                f"session {session_id}: epoch {request.session_epoch}, {session.epoch} is next",
            )
        if session.uses_ids != (version >= _FIRST_WITH_IDS):
            raise KafkaError(CODES["FETCH_SESSION_TOPIC_ID_ERROR"], f"session {session_id}")
        session.update(request)
        if not session.partitions:
            self._end(session_id)
            return None
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        session.used_ms = now_ms
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def open(
        self, request: PlainFetch, version: int, now_ms: int, new_id: int
    ) -> FetchSession | None:
        """A session for a reader that requested one (epoch 0) and named its partitions; None where
        there is no room, or the reader wants no session."""
        size = sum(len(asks) for _, asks in request.topics)
        if request.session_epoch != _FULL or not size or new_id in self._sessions:
            return None
        if len(self._sessions) >= self.slots and not self._evict(size, now_ms):
            return None
        session = self._make(new_id, version >= _FIRST_WITH_IDS, now_ms, now_ms)
        session.update(request)
        self._sessions[new_id] = session
        return session

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()

    def _evict(self, size: int, now_ms: int) -> bool:
        """Evict another session for one of ``size`` partitions, if that one is worth more."""
        if not self._sessions:
            return False
        victim = next(iter(self._sessions.values()))
        if now_ms - victim.used_ms <= self.evict_after_ms:
            settled = [
                each
                for each in self._sessions.values()
                if now_ms - each.created_ms > self.evict_after_ms
            ]
            if not settled:
                return False
            victim = min(settled, key=lambda each: len(each.partitions))
            if len(victim.partitions) >= size:
                return False
        self._end(victim.session_id)
        self.evicted += 1
        return True


def grouped(found: Sequence[tuple[Topic, Found]]) -> list[tuple[Topic, list[Found]]]:
    """Adjacent partitions of the same topic joined; the order is kept."""
    topics: list[tuple[Topic, list[Found]]] = []
    for topic, each in found:
        if not topics or topics[-1][0] != topic:
            topics.append((topic, []))
        topics[-1][1].append(each)
    return topics
