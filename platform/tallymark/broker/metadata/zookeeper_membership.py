"""Whether other brokers count on this one: its registrations and the life of its session, as the
broker is notified of them on its loop.

::

    session         CONNECTED ──── SUSPENDED ────────────── CONNECTED (same) ──── LOST ── CONNECTED
    this broker     registered         │ a session's time       registered         │      registers
                                       └──────▶ presumed dead   again              └─▶ presumed dead

What is led with several replicas ends when this broker is presumed dead: the controller may have
elected others since. That keeps acks=1 and reads from a leader which no replica follows any more;
acks=all is safe without, by leader epochs. A pause of ZooKeeper that is shorter than a session
changes nothing: it gives all sessions their whole time again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tallymark.broker.metadata.port import Membership
from tallymark.coordination import SessionState, ZooKeeper
from tallymark.coordination.session.states import SessionEvent
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.model import UNKNOWN_EPOCH
from tallymark.replication.registration import LocalLog

log: Final = logging.getLogger(__name__)

MOST_SECONDS: Final = 60.0
"""Between two looks for the reason why there is no connection."""


class NoLogs:
    """The :class:`~tallymark.coordination.replicas.starting.LocalReplicas` of a broker that claims
    nothing."""

    def logs(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LocalLog]:
        return {}

    def remember_boot(self) -> None: ...


class MembershipWatch:
    """Belongs to the loop; :meth:`registered` may be called on any thread."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        membership: Membership,
        epoch_now: Callable[[], int],
        call_soon: Callable[[Callable[[], object]], None],
    ) -> None:
        self._zookeeper = zookeeper
        self._membership = membership
        self._epoch_now = epoch_now
        """The broker epoch while it is registered in the present session, else -1."""
        self._call_soon = call_soon
        self._timer: asyncio.TimerHandle | None = None
        self._known = UNKNOWN_EPOCH
        """The epoch in which this broker counts, -1 while it is presumed dead."""
        self._unlisten = zookeeper.listen(
            lambda event: call_soon(lambda: self._session_changed(event))
        )
        self._stopped = False
        self._asking: asyncio.Task[None] | None = None

    def registered(self, epoch: int) -> None:
        """This broker has registered."""
        self._call_soon(lambda: self._count(epoch))

    def stop(self) -> None:
        """No more calls. Idempotent."""
        self._stopped = True
        self._unlisten()
        self._stop_timer()
        if self._asking is not None:
            self._asking.cancel()

    def _session_changed(self, event: SessionEvent) -> None:
        if self._stopped:
            return
        if event.state is SessionState.LOST:
            self._presume_dead("the session in ZooKeeper is lost")
        elif event.state is SessionState.SUSPENDED:
            if self._timer is None:
                seconds = self._zookeeper.session_timeout_ms / 1000
                self._timer = asyncio.get_running_loop().call_later(
                    seconds, self._out_of_reach, seconds
                )
        else:
            self._stop_timer()
            epoch = self._epoch_now()
            if epoch != UNKNOWN_EPOCH:  # the session has lived on
                self._count(epoch)

    def _count(self, epoch: int) -> None:
        if self._stopped or epoch == self._known:
            return
        self._known = epoch
        log.info("registered broker_epoch=%d", epoch)
        self._membership.registered(epoch)

    def _presume_dead(self, why: str) -> None:
        self._stop_timer()
        if self._stopped or self._known == UNKNOWN_EPOCH:
            return
        log.warning("other brokers may take this one for dead: %s", why)
        self._known = UNKNOWN_EPOCH
        self._membership.presumed_dead()

    def _out_of_reach(self, seconds: float) -> None:
        self._presume_dead(f"ZooKeeper was out of reach for {seconds:g} s")
        if not self._stopped and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._say_why(seconds), name="why is ZooKeeper away")

    async def _say_why(self, pause: float) -> None:
        """Each reason once, until the connection is back: ZooKeeper may be away first, and refuse
        this broker when it is there."""
        said = ""
        while not self._stopped and self._zookeeper.state is SessionState.SUSPENDED:
            why = str(await asyncio.to_thread(self._zookeeper.why_away))
            if why != said and self._zookeeper.state is SessionState.SUSPENDED:
                log.error("no session in ZooKeeper: %s", why)
            said = why
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_SECONDS)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
