"""A watch that stays: ZooKeeper's watches fire once, and all of them when a connection drops."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from tallymark.coordination.session.errors import SessionLostError
from tallymark.coordination.session.kazoo_client import WatchCallback
from tallymark.coordination.session.zookeeper import SessionEvent, SessionState, ZooKeeper
from tallymark.errors import ClosedError, ConnectError

LOG: Final = logging.getLogger("tallymark.coordination")


class Watch:
    """Calls ``callback`` on the watch thread whenever what is watched may have changed: after
    each change, and after each reconnection (changes meanwhile are not told one by one).

    ``arm(fire)`` sets ZooKeeper's one-shot watch by reading with ``watch=fire``. The watch stands
    from the constructor on; read what you watch after it, or in the callback.
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
        """No more calls, but for one that is running."""
        self._cancelled.set()
        self._unlisten()

    def _on_session(self, event: SessionEvent) -> None:
        if event.state is SessionState.CONNECTED:
            self._zookeeper.dispatch(self._fire)

    def _fire(self) -> None:
        # While there is no connection nothing can be armed; the next CONNECTED comes back here.
        if self._cancelled.is_set() or self._zookeeper.state is not SessionState.CONNECTED:
            return
        try:
            self._arm(self._fire)
            self._callback()
        except (ConnectError, SessionLostError, ClosedError):
            return  # the next CONNECTED comes back here, or nobody wants to know any more
        except Exception:
            LOG.exception("a watch callback failed")


def watch_children(zookeeper: ZooKeeper, path: str, callback: Callable[[], None]) -> Watch:
    """Hear of children that come and go, and of the node itself while it is not there yet."""
    return Watch(zookeeper, lambda fire: zookeeper.children(path, watch=fire), callback)


def watch_node(zookeeper: ZooKeeper, path: str, callback: Callable[[], None]) -> Watch:
    """Hear of a node that comes, changes or goes."""
    return Watch(zookeeper, lambda fire: zookeeper.exists(path, watch=fire), callback)
