"""A watch that stays set: ZooKeeper's own watches fire once, and when the connection drops."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from tallymark.coordination.session.client import WatchCallback
from tallymark.coordination.session.errors import SessionLostError
from tallymark.coordination.session.states import SessionEvent, SessionState
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import ClosedError, ConnectError

LOG: Final = logging.getLogger("tallymark.coordination")


class Watch:
    """Calls ``callback`` on the watch thread whenever the node may have changed: after each change,
    and after each reconnection (changes meanwhile are not reported one by one).

    ``arm(fire)`` sets ZooKeeper's one-shot watch by reading with ``watch=fire``. The watch is set
    from the constructor on; read the node after that, or in the callback.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        arm: Callable[[WatchCallback], object],
        callback: Callable[[], None],
    ) -> None:
        self._zookeeper = zookeeper
        self._arm = arm
        self._callback = callback
        self._cancelled = threading.Event()
        self._unlisten = zookeeper.listen(self._on_session)
        try:
            arm(self._fire)
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """No more calls, except one that is running."""
        self._cancelled.set()
        self._unlisten()

    def _on_session(self, event: SessionEvent) -> None:
        if event.state is SessionState.CONNECTED:
            self._zookeeper.dispatch(self._fire)

    def _fire(self) -> None:
        # Without a connection no watch can be set; the next CONNECTED calls this again.
        if self._cancelled.is_set() or self._zookeeper.state is not SessionState.CONNECTED:
            return
        try:
            self._arm(self._fire)
            self._callback()
        except (ConnectError, SessionLostError, ClosedError):
            return  # the next CONNECTED calls this again, or the watch was cancelled
        except Exception:
            LOG.exception("a watch callback failed")


def watch_children(zookeeper: ZooKeeper, path: str, callback: Callable[[], None]) -> Watch:
    """Call back when children come or go, and when the node itself comes."""
    return Watch(zookeeper, lambda fire: zookeeper.children(path, watch=fire), callback)


def watch_node(zookeeper: ZooKeeper, path: str, callback: Callable[[], None]) -> Watch:
    """Call back when a node comes, changes or goes."""
    return Watch(zookeeper, lambda fire: zookeeper.exists(path, watch=fire), callback)
