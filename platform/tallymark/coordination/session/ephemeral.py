"""An ephemeral node that its owner keeps: a broker, a consumer, the controller.

Three things end such a node: its owner, the end of the session (the owner registers again in the
new one), and a crash of the owner, after which the node exists until the dead session times out. A
restarted owner finds its own node from before the crash, recognises it by its content, and waits
until it expires. The node of another live owner is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from tallymark.coordination.session.errors import NodeExistsError, NodeInUseError, SessionLostError
from tallymark.coordination.session.nodes import Node
from tallymark.coordination.session.states import SessionEvent, SessionState
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import ClosedError, ConnectError, TallymarkError

LOG: Final = logging.getLogger("tallymark.coordination")
_POLL_SECONDS: Final = 0.1


class EphemeralNode:
    """One node. ``is_ours(content)`` returns whether a node of another session was left by this
    owner before a crash, so that it will expire within the session timeout."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        path: str,
        data: bytes,
        is_ours: Callable[[bytes], bool] = lambda content: False,
    ) -> None:
        self.path = path
        self._zookeeper = zookeeper
        self._data = data
        self._is_ours = is_ours
        self._session = 0
        self._lock = zookeeper.waiting.lock()
        self._released = zookeeper.waiting.signal()
        self._unlisten: Callable[[], None] = lambda: None
        self._on_failure: Callable[[TallymarkError], None] = lambda error: None

    @property
    def is_registered(self) -> bool:
        """Whether the node exists in the session that is open now."""
        return self._session != 0 and self._session == self._zookeeper.session

    def establish(self) -> None:
        """Create the node in the present session. NodeInUseError when the live session of another
        owner has it, or when our earlier one does not expire within one and a half session
        timeouts. Idempotent: an existing node is checked, and created or written again when it was
        deleted or changed."""
        with self._lock:
            if not self._released.is_set():
                self._establish()

    def keep(self, on_failure: Callable[[TallymarkError], None] | None = None) -> None:
        """:meth:`establish`, and again by itself in every later session. A later failure (the
        node was taken meanwhile) goes to ``on_failure``, on the watch thread."""
        if on_failure is not None:
            self._on_failure = on_failure
        self.establish()
        self._unlisten = self._zookeeper.listen(self._on_session)
        if not self.is_registered:  # the session ended between the two lines above
            self._zookeeper.dispatch(self._again)

    def release(self) -> None:
        """Delete the node if it is ours, and do not create it again. Idempotent."""
        self._released.set()
        self._unlisten()
        with self._lock:
            session, self._session = self._session, 0
            if not session or session != self._zookeeper.session:
                return  # it is gone with its session, or will be
            node = self._zookeeper.find(self.path)
            if node is not None and node.session == session:
                self._zookeeper.delete(self.path, node.version)

    def _establish(self) -> None:
        # The dead session lasts up to its own timeout, rounded up to the server's tick.
        patience = self._zookeeper.session_timeout_ms / 1000 * 1.5 + 1.0
        deadline = self._zookeeper.waiting.monotonic() + patience
        reported = False
        while not self._released.is_set():
            session = self._zookeeper.session
            try:
                self._create(session)
                self._session = session
                return
            except NodeExistsError:
                node = self._zookeeper.find(self.path)
            if node is None:
                continue
            if session and node.session == session:
                if self._adopt(node):
                    self._session = session
                    return
                continue
            if not self._is_ours(node.data) or self._zookeeper.waiting.monotonic() > deadline:
                raise NodeInUseError(self.path, node.data)
            if not reported:
                reported = True
                LOG.info("%s stands from before a restart; waiting for it to go", self.path)
            self._released.wait(_POLL_SECONDS)

    def _create(self, session: int) -> None:
        """Make the node in this session. NodeExistsError."""
        self._zookeeper.create(self.path, self._data, ephemeral=True, parents=True)

    def _adopt(self, node: Node) -> bool:
        """Our own node of this session: it was created, but the response was lost. False: make it
        again."""
        if node.data != self._data:
            self._zookeeper.write(self.path, self._data)
        return True

    def _on_session(self, event: SessionEvent) -> None:
        if event.state is SessionState.CONNECTED and event.session != self._session:
            self._zookeeper.dispatch(self._again)

    def _again(self) -> None:
        if self._released.is_set():
            return
        try:
            self.establish()
            LOG.info("%s is registered again in a new session", self.path)
        except (ConnectError, SessionLostError, ClosedError):
            return  # the next CONNECTED comes back here
        except TallymarkError as error:
            LOG.error("%s could not be registered again: %s", self.path, error)
            self._on_failure(error)
