"""The server's side of ZooKeeper in memory: sessions that time out, and watches that fire once.
Pure: the caller brings the time.

An event for a session is put into the ``deliver`` function of its connection in the order of the
commits; a client that asks for a node after such an event sees the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tallymark.coordination import CoordinationError, Node, SessionLostError
from tallymark.coordination.session.nodes import Step
from tallymark.testing.zookeeper_tree.tree import Actor, Change, Kind, Right, Tree


class Watched(Enum):
    """What a watch looks at."""

    DATA = "data"
    CHILDREN = "children"


Deliver = Callable[[Watched, str], None]
"""A watch on this path has fired; it is gone then."""

_FIRES = {
    Kind.CREATED: (Watched.DATA,),
    Kind.CHANGED: (Watched.DATA,),
    Kind.DELETED: (Watched.DATA, Watched.CHILDREN),
    Kind.CHILDREN: (Watched.CHILDREN,),
}


@dataclass(slots=True)
class _Session:
    timeout_ms: int
    user: str
    heard_ms: int
    deliver: Deliver | None = None
    watches: dict[tuple[Watched, str], None] = field(
        default_factory=dict[tuple[Watched, str], None]
    )


class Ensemble:
    """One ZooKeeper. ``now_ms`` never runs backwards."""

    def __init__(self) -> None:
        self.tree = Tree()
        self._sessions: dict[int, _Session] = {}
        self._last_session = 0x1000
        self.commits = 0
        """Changes so far."""

    def open(self, timeout_ms: int, user: str, now_ms: int) -> int:
        """A new session; returns its id."""
        self._last_session += 1
        self._sessions[self._last_session] = _Session(timeout_ms, user, now_ms)
        return self._last_session

    def attach(self, session: int, deliver: Deliver, now_ms: int) -> bool:
        """A connection for the session, the only one from here on. False: it has ended. Watches of
        the connection before are gone."""
        self.expire(now_ms)
        found = self._sessions.get(session)
        if found is None:
            return False
        found.deliver, found.heard_ms = deliver, now_ms
        found.watches.clear()
        return True

    def detach(self, session: int) -> None:
        """The connection has ended; the session goes on until its timeout."""
        found = self._sessions.get(session)
        if found is not None:
            found.deliver = None
            found.watches.clear()

    def heard(self, session: int, now_ms: int) -> bool:
        """A ping, or any other request. False: the session has ended."""
        self.expire(now_ms)
        found = self._sessions.get(session)
        if found is not None:
            found.heard_ms = now_ms
        return found is not None

    def close(self, session: int) -> None:
        """End a session."""
        if self._sessions.pop(session, None) is not None:
            self._tell(self.tree.end_session(session))

    def expire(self, now_ms: int) -> list[int]:
        """End the sessions that sent nothing for their timeout; returns them."""
        late = [
            number
            for number, each in self._sessions.items()
            if now_ms - each.heard_ms > each.timeout_ms
        ]
        for number in late:
            self.close(number)
        return late

    @property
    def sessions(self) -> list[int]:
        """The open ones."""
        return list(self._sessions)

    # -- commands; SessionLostError when the session has ended ----------------------------------

    def actor(self, session: int, now_ms: int) -> Actor:
        """The session as the one that gives a command."""
        if not self.heard(session, now_ms):
            raise SessionLostError("the ZooKeeper session ended before the answer came")
        return Actor(session, self._sessions[session].user, now_ms)

    def watch(self, session: int, what: Watched, path: str) -> None:
        """Send this session an event at the next change. Setting it twice is setting it once."""
        self._sessions[session].watches[what, path] = None

    def read_many(self, paths: Sequence[str], actor: Actor) -> list[Node | None]:
        """None where there is no node."""
        return [self.tree.read(p, actor) if self.tree.exists(p) else None for p in paths]

    def commit(
        self, steps: Sequence[tuple[Step, Sequence[Right]]], actor: Actor
    ) -> CoordinationError | None:
        """All steps or none. Returns the error of the step that failed."""
        try:
            changes, _ = self.tree.commit(steps, actor)
        except CoordinationError as error:
            return error
        self.commits += 1
        self._tell(changes)
        return None

    def _tell(self, changes: Sequence[Change]) -> None:
        for change in changes:
            for each in list(self._sessions.values()):
                for what in _FIRES[change.kind]:
                    if (what, change.path) in each.watches and each.deliver is not None:
                        del each.watches[what, change.path]
                        each.deliver(what, change.path)
