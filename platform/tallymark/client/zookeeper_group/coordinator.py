"""The coordinator: one thread that feeds the state machine and performs its actions in ZooKeeper.

Only this thread registers, claims, releases, and commits without being asked. The session's
listener and the watches only put events into its queue. The listener closes the gate itself, so
that suspension stops consumption at once, even while the coordinator waits for ZooKeeper.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tallymark.client.consuming.coordination import Parts
from tallymark.client.zookeeper_group import events as ev
from tallymark.client.zookeeper_group.machine import decide
from tallymark.clock import monotonic_ms
from tallymark.coordination import paths
from tallymark.coordination.cluster.brokers import BrokerRegistry
from tallymark.coordination.consumers.offsets import Position
from tallymark.coordination.consumers.registry import ConsumerRegistry
from tallymark.coordination.session.errors import CoordinationError, SessionLostError
from tallymark.coordination.session.states import SessionEvent, SessionState
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics.registry import TopicRegistry
from tallymark.errors import (
    ClosedError,
    ConnectError,
    KafkaError,
    TallymarkError,
    TimedOutError,
)
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger("tallymark.client.connector.connector")
_TOPIC_POLL_MS: Final = 5000
"""The interval at which the topics are requested from a cluster that keeps none in ZooKeeper."""
_CHECK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Session:
    """A session event, and the gate's mark when it came."""

    event: ev.Connected | ev.Suspended | ev.Lost
    mark: int


class Coordinator:
    """See the module's docstring. All methods but ``start``, ``stop`` and ``join`` run on its own
    thread."""

    def __init__(
        self, zookeeper: ZooKeeper, group: str, consumer: str, parts: Parts, auto_commit_ms: int
    ) -> None:
        self._zookeeper = zookeeper
        self._subscription = parts.subscription
        self._streams = parts.streams
        self._first_stream = parts.first_stream
        self._gate = parts.gate
        self._link = parts.link
        self._fetcher = parts.fetcher
        self._positions = parts.positions
        self._committer = parts.committer
        self._auto_commit_ms = auto_commit_ms
        self._before_release = parts.before_release
        self._on_error = parts.on_error
        self._consumer = consumer
        self._registry = ConsumerRegistry(zookeeper, group)
        self._brokers = BrokerRegistry(zookeeper)
        self._topics = TopicRegistry(zookeeper)
        self._membership = self._registry.membership(consumer, parts.subscription)
        self._state = ev.State(consumer)
        self._inbox: queue.SimpleQueue[ev.Event | _Session] = queue.SimpleQueue()
        self._told_change = threading.Event()
        self._mark = 0
        self._stopping = False
        self._stored: dict[TopicPartition, Position] = {}
        self._next_commit = 0
        self._next_topic_poll: int | None = None
        self.settled = threading.Event()
        """Set once the first assignment of partitions is in force."""
        self.problem: TallymarkError | None = None
        """Always None: without a session, an error is raised before this object is made."""
        self._thread = threading.Thread(target=self._run, name="tallymark-group", daemon=True)

    def start(self) -> None:
        """Listen to the session and start the thread."""
        self._unlisten = self._zookeeper.listen(self._on_session)
        # The session is open already. An event that came meanwhile is handled twice, which does no
        # harm.
        if self._zookeeper.state is SessionState.CONNECTED:
            self._inbox.put(_Session(ev.Connected(self._zookeeper.session), self._gate.mark()))
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to leave the group in order; returns at once."""
        self._stopping = True
        self._inbox.put(ev.Stop())

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread; returns whether it has ended."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # -- events -------------------------------------------------------------------------------

    def _on_session(self, event: SessionEvent) -> None:
        """Runs on the connection's thread."""
        if event.state is SessionState.CONNECTED:
            self._inbox.put(_Session(ev.Connected(event.session), self._gate.mark()))
            return
        self._gate.suspend()
        lost = event.state is SessionState.LOST
        self._inbox.put(_Session(ev.Lost() if lost else ev.Suspended(), self._gate.mark()))

    def _on_change(self) -> None:
        """Runs on the watch thread; many watches that fire together become one event."""
        if not self._told_change.is_set():
            self._told_change.set()
            self._inbox.put(ev.Changed())

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._state.phase is not ev.Phase.CLOSED:
                self._step(self._next_event())
                self._on_time(monotonic_ms())
        except Exception as error:
            self._gate.suspend()
            if not (self._stopping and isinstance(error, ClosedError)):
                self._on_error(error)
                # The membership and owner nodes go with the session, so other members need not
                # wait for its timeout.
                self._zookeeper.close()
        finally:
            self._unlisten()

    def _next_event(self) -> ev.Event:
        try:
            message = self._inbox.get(timeout=self._until_next())
        except queue.Empty:
            self._zookeeper.check()
            return ev.Tick()
        if isinstance(message, _Session):
            self._mark = message.mark
            return message.event
        if isinstance(message, ev.Changed):
            self._told_change.clear()
        return message

    def _until_next(self) -> float:
        times = [self._state.wake_ms, self._next_topic_poll]
        if self._auto_commit_ms and self._state.running:
            times.append(self._next_commit)
        soonest = min((at for at in times if at is not None), default=None)
        if soonest is None:
            return _CHECK_SECONDS
        return min(max(soonest - monotonic_ms(), 0) / 1000, _CHECK_SECONDS)

    def _on_time(self, now_ms: int) -> None:
        if self._next_topic_poll is not None and now_ms >= self._next_topic_poll:
            self._next_topic_poll = None
            self._on_change()
        if self._auto_commit_ms and self._state.running and now_ms >= self._next_commit:
            self._next_commit = now_ms + self._auto_commit_ms
            if self._state.phase is ev.Phase.RUNNING:
                self._try("commit offsets", self._committer.commit)

    def _step(self, event: ev.Event) -> None:
        """Handle one event and all actions and events that follow from it."""
        self._state, actions = decide(self._state, event, monotonic_ms())
        pending = list(actions)
        while pending:
            answer = self._perform(pending.pop(0))
            if answer is not None:
                self._state, more = decide(self._state, answer, monotonic_ms())
                pending.extend(more)

    def _perform(self, action: ev.Action) -> ev.Event | None:
        match action:
            case ev.Pause():
                self._gate.close()
            case ev.Resume():
                self._open_gate()
            case ev.StopFetchers():
                self._stop_fetchers()
            case ev.Forget():
                self._committer.forget()
            case ev.StartFetchers():
                self._start_fetchers(action)
            case ev.Close():
                LOG.debug("consumer %s left", self._consumer)
            case _:
                return self._perform_remote(action)
        return None

    def _perform_remote(self, action: ev.Action) -> ev.Event:
        match action:
            case ev.Register(ticket):
                return self._answer(ticket, "register", self._membership.establish)
            case ev.ReadMembership(ticket):
                return self._read(ticket)
            case ev.CommitOffsets(ticket):
                return self._answer(ticket, "commit offsets", self._last_commit)
            case ev.ReleaseOwners(ticket, partitions):
                return self._answer(
                    ticket, "release", lambda: self._registry.release(self._consumer, partitions)
                )
            case ev.ClaimOwners():
                return self._claim(action)
            case ev.LoadOffsets(ticket, partitions):
                return self._answer(ticket, "load offsets", lambda: self._load(partitions))
            case ev.LeaveGroup(ticket):
                return self._answer(ticket, "leave", self._membership.release)
            case _:
                raise AssertionError(f"no such action: {action}")

    def _answer(self, ticket: int, what: str, work: Callable[[], None]) -> ev.Done | ev.Failed:
        return ev.Done(ticket) if self._try(what, work) else ev.Failed(ticket)

    def _try(self, what: str, work: Callable[[], None]) -> bool:
        try:
            work()
        except _PASSING as error:
            LOG.warning("consumer %s could not %s: %s", self._consumer, what, error)
            return False
        return True

    # -- actions ------------------------------------------------------------------------------

    def _read(self, ticket: int) -> ev.Event:
        try:
            members = self._registry.members(watch=self._on_change)
            brokers = self._brokers.brokers(watch=self._on_change)
            places = (broker.address_by(self._link.protocol) for broker in brokers.values())
            self._link.learn([place for place in places if place])
            return ev.Membership(ticket, members, self._partitions())
        except _PASSING as error:
            LOG.warning("consumer %s could not read the group: %s", self._consumer, error)
            return ev.Failed(ticket)

    def _partitions(self) -> dict[str, tuple[int, ...]]:
        """topic -> partitions, for the topics of this consumer that exist."""
        if not self._zookeeper.exists(paths.TOPICS, watch=self._on_change):
            return self._partitions_of_brokers()
        names: Sequence[str] = list(self._subscription.streams)
        if self._subscription.is_filter:
            every = self._topics.names(watch=self._on_change)
            names = [name for name in every if self._subscription.streams_of(name)]
        topics = self._topics.get_many(names, watch=self._on_change)
        return {name: tuple(topic.assignment) for name, topic in topics.items()}

    def _partitions_of_brokers(self) -> dict[str, tuple[int, ...]]:
        """topic -> partitions of a cluster that keeps no topics in ZooKeeper: requested from its
        brokers, and requested again every few seconds."""
        self._next_topic_poll = monotonic_ms() + _TOPIC_POLL_MS
        client = self._link.client()
        if client is None:
            return {}
        topics = client.topics()
        return {
            name: topic.partitions
            for name, topic in topics.items()
            if self._subscription.streams_of(name)
        }

    def _claim(self, action: ev.ClaimOwners) -> ev.Event:
        try:
            conflict = self._registry.claim(self._consumer, action.partitions, action.session)
        except _PASSING as error:
            LOG.warning("consumer %s could not claim: %s", self._consumer, error)
            return ev.Failed(action.ticket)
        if conflict is None:
            return ev.Done(action.ticket)
        level = logging.WARNING if self._state.attempts == 10 else logging.DEBUG
        text = "%s waits for %s-%d, which %s still owns"
        LOG.log(level, text, self._consumer, conflict.topic, conflict.partition, conflict.owner)
        return ev.Refused(action.ticket)

    def _last_commit(self) -> None:
        """The last commit before the release: no more messages go to the application, and no
        partition is released yet."""
        if self._before_release is not None and self._positions.items():
            try:
                offsets = self._before_release()
            except Exception:
                # Messages that are not processed are delivered again; the group must not wait.
                LOG.exception("the before_release callback of %s failed", self._consumer)
            else:
                self._committer.commit_owned(offsets)
        if self._auto_commit_ms:
            self._committer.commit(last=True)

    def _load(self, partitions: Sequence[TopicPartition]) -> None:
        self._stored = self._committer.load(partitions, self._state.session)

    def _start_fetchers(self, action: ev.StartFetchers) -> None:
        # In the assignment a stream's number counts within its topic; ours count over all topics.
        places = {
            (topic, partition): self._first_stream.get(topic, 0) + number
            for (topic, partition), number in action.assignment.items()
        }
        self._next_commit = monotonic_ms() + self._auto_commit_ms
        with self._positions.changing:
            items = self._positions.start(places, self._stored)
            LOG.info("consumer %s owns %s", self._consumer, _shown(list(action.assignment)))
            self._open_gate()
            self._fetcher.assign(items)
        self.settled.set()

    def _stop_fetchers(self) -> None:
        with self._positions.changing:
            self._fetcher.assign(())
            items = self._positions.items()
            for number, stream in enumerate(self._streams):
                stream.revoke([item for item in items if item.stream == number])

    def _open_gate(self) -> None:
        self._gate.open(self._mark)
        for stream in self._streams:
            stream.wake()
        self._fetcher.wake()


# Errors that pass by themselves or after the next reconnection. KafkaError and TimedOutError come
# from brokers whose topics are requested.
_PASSING: Final = (ConnectError, SessionLostError, CoordinationError, KafkaError, TimedOutError)


def _shown(partitions: Sequence[TopicPartition]) -> str:
    names = [f"{topic}-{partition}" for topic, partition in partitions]
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(names[:20]) + more if names else "nothing"
