"""The follower's side of a fetch session (KIP-227): what the leader remembers of our requests, so
that a Fetch names only what has changed. Pure. The leader's side, with the epochs drawn, is
:mod:`tallymark.broker.fetch_sessions`.

A session that the leader no longer knows, or whose answer does not fit to its request, begins
anew: the next request names all partitions. Its answer is thrown away, since it may be one to
another request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tallymark.errors import CODES, TABLE
from tallymark.replication.following import Ask

Key: TypeAlias = tuple[UUID, int]
"""Topic id and number of a partition."""

_FULL: Final = 0
_LAST_EPOCH: Final = 2**31 - 1


MOST_NEW: Final = 1000
"""New partitions of a session in a request: it is encoded, and its answer decoded, in one turn of
the event loop each, some 5 ms."""


class NextFetch(NamedTuple):
    """What the next Fetch has to say: ``named`` are the asks that the leader does not know yet,
    ``forgotten`` the partitions that leave the session."""

    session_id: int
    session_epoch: int
    named: tuple[tuple[Key, Ask], ...]
    forgotten: tuple[Key, ...]

    @property
    def is_full(self) -> bool:
        """It names all partitions."""
        return self.session_epoch == _FULL


class FollowerSession:
    """The session of one connection: one request at a time, :meth:`next`, then :meth:`answered`.

    ::

        want() ──▶ wanted ── of these what has changed ─▶ next() ──▶ known to the leader

    What a request costs depends on what has changed since the one before, not on how many
    partitions are followed.
    """

    __slots__ = ("_changed", "_epoch", "_id", "_known", "_wanted")

    def __init__(self) -> None:
        self._id = 0
        self._epoch = _FULL
        self._wanted: dict[Key, Ask] = {}
        self._known: dict[Key, Ask] = {}
        """What the leader has been asked, if it still knows the session."""
        self._changed: dict[Key, None] = {}
        """Where the two above may differ."""

    @property
    def known(self) -> Mapping[Key, Ask]:
        """The partitions that an answer may be about, and what was asked of each."""
        return self._known

    @property
    def wants_any(self) -> bool:
        """There is something to ask."""
        return bool(self._wanted)

    @property
    def has_more(self) -> bool:
        """The last request had no room for all that is wanted."""
        return bool(self._changed)

    def want(self, key: Key, ask: Ask | None) -> None:
        """What is to be asked of a partition from now on; None: nothing."""
        if ask is None:
            self._wanted.pop(key, None)
        else:
            self._wanted[key] = ask
        self._changed[key] = None

    def next(self, most: int | None = None) -> NextFetch:
        """The request for what is wanted, with at most ``most`` partitions (:data:`MOST_NEW`) that
        the one before did not ask for."""
        room = MOST_NEW if most is None else most
        before = self._known
        if self._epoch == _FULL:
            self._known, self._changed = {}, dict.fromkeys(self._wanted)
        named: list[tuple[Key, Ask]] = []
        forgotten: list[Key] = []
        later: dict[Key, None] = {}
        for key in self._changed:
            ask, is_new = self._wanted.get(key), key not in before
            if ask == self._known.get(key):
                continue
            if ask is None:
                del self._known[key]
                forgotten.append(key)
            elif is_new and room <= 0:
                later[key] = None
            else:
                room -= is_new
                self._known[key] = ask
                named.append((key, ask))
        self._changed = later
        return NextFetch(self._id, self._epoch, tuple(named), tuple(forgotten))

    def answered(self, error: int, session_id: int, told: Collection[Key]) -> str | None:
        """The answer to the last request has come: its error code, its session, the partitions in
        it. None: it counts. Otherwise it is to be thrown away, for the reason returned."""
        why = self._misfit(error, session_id, told)
        if why is not None:
            if error == CODES["FETCH_SESSION_ID_NOT_FOUND"]:
                self._id = 0
            self.begin_anew()
        elif session_id == 0:
            self._id, self._epoch = 0, _FULL  # the leader has no room for a session
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1
        return why

    def begin_anew(self) -> None:
        """The next request names all partitions and closes the session, if the leader has it."""
        self._epoch = _FULL
        self._known = {}

    def connection_closed(self) -> None:
        """The next request goes through another connection, and is of no session."""
        self._id = 0
        self.begin_anew()

    def _misfit(self, error: int, session_id: int, told: Collection[Key]) -> str | None:
        if error:
            row = TABLE.get(error)
            return f"fetch session {self._id}: {row.name if row else f'error {error}'}"
        strange = [key for key in told if key not in self._known]
        if strange:
            return f"the answer has {len(strange)} partitions that were not asked for"
        if len(set(told)) != len(told):
            return "the answer has a partition twice"
        if self._epoch == _FULL:
            missing = len(self._known) - len(told)
            return f"the answer lacks {missing} partitions" if missing else None
        if session_id not in (0, self._id):
            return f"the answer is one of session {session_id}, not {self._id}"
        return None
