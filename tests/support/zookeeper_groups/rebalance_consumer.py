"""One consumer of the simulated group: the real state machine in a shell of small steps.

The shell does what :class:`~tallymark.client.zookeeper_group.coordinator.Coordinator` does, but
every remote action is a generator that yields between single accesses to the registry, so
everything of one consumer interleaves with everything of the others. An answer may be lost with the
connection, whether the deed was done or not; a command may wait for the connection and be done in
the next session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rebalance_registry import BROKERS, MEMBERS, TOPICS, topic_watch

from tallymark.client.consuming.stream import Gate
from tallymark.client.zookeeper_group import events as ev
from tallymark.client.zookeeper_group.machine import decide
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from rebalance_world import World

AWAITING = frozenset(ev.Phase) - {
    ev.Phase.OFFLINE,
    ev.Phase.WAITING,
    ev.Phase.RUNNING,
    ev.Phase.CLOSED,
}


class Consumer:
    """The machine, its inbox, the actions it has ordered, and the application's side."""

    def __init__(self, world: World, name: str, subscription: Subscription) -> None:
        self.world = world
        self.name = name
        self.subscription = subscription
        self.state = ev.State(name)
        self.inbox: deque[tuple[ev.Event, int]] = deque()
        self.actions: deque[ev.Action] = deque()
        self.session = 0
        self.connected = False
        self.gate = Gate()
        self.fetching: dict[TopicPartition, int] = {}
        """place -> the session in which its owner node was made."""
        self.positions: dict[TopicPartition, int] = {}
        self.leaving = False
        self.paused_until = 0
        self.notes = 0
        """Watches that have fired and were not told yet."""
        self.committing: Iterator[None] | None = None
        """A commit of the application under way; it holds the lock of the committer."""
        self.orders = 0
        """Remote actions ordered so far."""
        self.claims = 0
        self._step: Iterator[None] | None = None
        self._mark = 0
        self._told_change = False
        self._mute = False
        self._loaded: dict[TopicPartition, int] = {}
        self._loaded_in = 0

    @property
    def served(self) -> bool:
        """Whether the server does what this consumer asks for."""
        return self.connected and self.session in self.world.registry.live

    # -- the session --------------------------------------------------------------------------

    def connect(self) -> None:
        """The connection is there again: in the old session if the server still has it."""
        if self.session and self.session not in self.world.registry.live:
            self.session = 0
            self.gate.suspend()
            if self.world.random.random() < 0.8:  # or only the new session says it
                self._tell(ev.Lost())
        if self.session == 0:
            self.session = self.world.registry.new_session()
        self.connected = True
        self._tell(ev.Connected(self.session))

    def suspend(self) -> None:
        """The connection drops: what is under way was done or was not, its answer is lost; then
        consumption stops this very moment. The watches are gone, which each of them hears; or the
        server is told of them again with the next connection, and nobody hears anything."""
        if self._step is not None and self.served and self.world.random.random() < 0.5:
            self._mute = True
            for _ in self._step:
                pass
            self._mute = False
        if self.committing is not None and self.served and self.world.random.random() < 0.5:
            for _ in self.committing:
                pass
        self.committing = None
        self.connected = False
        if self._step is not None:
            self._give_up_action()
        self.gate.suspend()
        self._tell(ev.Suspended())
        if self.world.random.random() < 0.5:
            self.notes += self.world.registry.drop_watches(self.name)

    # -- events -------------------------------------------------------------------------------

    def hear_watch(self) -> None:
        """One of the watches that fired is told, late and in no order; many are one change."""
        self.notes -= 1
        if not self._told_change:
            self._told_change = True
            self._tell(ev.Changed())

    def stop(self) -> None:
        """The application shuts the consumer down."""
        self.leaving = True
        self._tell(ev.Stop())

    def tick(self) -> None:
        """Time has passed."""
        self._tell(ev.Tick())

    def _tell(self, event: ev.Event) -> None:
        if not self._mute:
            self.inbox.append((event, self.gate.mark()))

    def deliver(self) -> None:
        """Give the machine its next event."""
        event, mark = self.inbox.popleft()
        if isinstance(event, ev.Connected | ev.Suspended | ev.Lost):
            self._mark = mark
        if isinstance(event, ev.Changed):
            self._told_change = False
        before = self.state.phase
        self.state, actions = decide(self.state, event, self.world.now)
        if actions or self.state.phase is not before:
            names = [type(action).__name__ for action in actions]
            self.world.note(f"{self.name}: {event} -> {self.state.phase.value} {names}")
        self.world.check_decided(self, event, before)
        self.actions.extend(actions)
        self.orders += sum(not _is_local(action) for action in actions)
        self._do_local()

    # -- actions ------------------------------------------------------------------------------

    @property
    def may_act(self) -> bool:
        """Whether there is an action, and the application's commit does not hold it up: storing
        and forgetting positions wait for the committer's lock."""
        return bool(self.actions) and not (
            self.committing is not None
            and isinstance(self.actions[0], ev.Forget | ev.CommitOffsets)
        )

    def act(self) -> None:
        """One small step of the action under way."""
        if _is_local(self.actions[0]):
            self._do_local()
            return
        if not self.served:
            if self._step is not None or self.world.random.random() < 0.05:
                self._give_up_action()  # no answer in time; otherwise it waits for the connection
            return
        if self.world.may_fail(self) and self.world.random.random() < 0.01:
            self._give_up_action()  # a broker or the server refused it, or answered too late
            return
        if self._step is None:
            self.world.note(f"{self.name} begins {self.actions[0]}")
            self._step = self._remote(self.actions[0])
        if next(self._step, "end") == "end":
            self._step = None
            self.actions.popleft()
            self._do_local()

    def _give_up_action(self) -> None:
        self._step = None
        self._tell(ev.Failed(self.actions.popleft().ticket))  # type: ignore[union-attr] # remote
        self._do_local()

    def _do_local(self) -> None:
        """What concerns nobody else is done at once."""
        while self._step is None and self.may_act and _is_local(self.actions[0]):
            self._local(self.actions.popleft())

    def _local(self, action: ev.Action) -> None:
        match action:
            case ev.Pause():
                self.gate.close()
            case ev.Resume():
                self.gate.open(self._mark)
            case ev.StopFetchers():
                self.fetching = {}
            case ev.Forget():
                self.positions = {}
            case ev.StartFetchers(assignment):
                self.world.check_start(self, assignment, self._loaded, self._loaded_in)
                self.positions = dict(self._loaded)
                self.fetching = dict.fromkeys(assignment, self._loaded_in)
                self.gate.open(self._mark)
            case _:
                self.world.close(self)

    def _remote(self, action: ev.Action) -> Iterator[None]:
        registry = self.world.registry
        match action:
            case ev.Register(ticket):
                registry.join(self.name, self.session, self.subscription)
                self._tell(ev.Done(ticket))
            case ev.ReadMembership(ticket):
                yield from self._read(ticket)
            case ev.CommitOffsets(ticket):
                yield from self._commit(ticket)
            case ev.ReleaseOwners(ticket, partitions):
                yield from self._release(ticket, partitions)
            case ev.ClaimOwners():
                yield from self._claim(action)
            case ev.LoadOffsets(ticket, partitions):
                self._loaded = {place: registry.offsets.get(place, 0) for place in partitions}
                self._loaded_in = self.state.session
                self._tell(ev.Done(ticket))
            case ev.LeaveGroup(ticket):
                registry.leave(self.name)
                self._tell(ev.Done(ticket))
            case _:
                raise AssertionError(f"no such action: {action}")

    def _read(self, ticket: int) -> Iterator[None]:
        """Every node is read at another time than the others; each watch is set with its read."""
        registry = self.world.registry
        registry.watch(MEMBERS, self.name)
        names = list(registry.members)
        yield
        members = {n: registry.members[n][1] for n in names if n in registry.members}
        yield
        registry.watch(BROKERS, self.name)
        yield
        topics = list(self.subscription.streams)
        if self.subscription.is_filter:
            registry.watch(TOPICS, self.name)
            topics = [t for t in registry.topics if self.subscription.streams_of(t)]
        partitions: dict[str, list[int]] = {}
        for topic in topics:
            yield
            registry.watch(topic_watch(topic), self.name)
            if topic in registry.topics:
                partitions[topic] = list(registry.topics[topic])
        self._tell(ev.Membership(ticket, members, partitions))

    def _commit(self, ticket: int) -> Iterator[None]:
        for _ in range(self.world.random.choice((1, 1, 1, 20))):
            yield  # the application finishes what it has under way
        if self._store(dict(self.positions), self._loaded_in):
            self._tell(ev.Done(ticket))
        else:
            self._tell(ev.Failed(ticket))

    def _release(self, ticket: int, partitions: tuple[TopicPartition, ...]) -> Iterator[None]:
        registry = self.world.registry
        for place in partitions:
            if registry.owners.get(place) == self.session:
                self.world.check_release(self, place)
                del registry.owners[place]
            for _ in range(self.world.random.choice((1, 1, 6))):
                yield
        self._tell(ev.Done(ticket))

    def _claim(self, action: ev.ClaimOwners) -> Iterator[None]:
        """Node by node, which is worse than the one transaction that it is."""
        self.claims += 1
        registry = self.world.registry
        if action.session != self.session:
            self._tell(ev.Failed(action.ticket))
            return
        for place in action.partitions:
            if place in registry.owners:
                self._tell(ev.Refused(action.ticket))
                return
            registry.owners[place] = self.session
            yield
        self._tell(ev.Done(action.ticket))

    # -- the application ----------------------------------------------------------------------

    @property
    def may_consume(self) -> bool:
        """Whether the streams hand anything out."""
        return self.gate.is_open and bool(self.fetching)

    def consume(self) -> None:
        """Hand out the next message of one partition whose leader is alive."""
        place = self.world.random.choice(list(self.fetching))
        offset = self.positions[place]
        if self.world.has(place, offset):
            self.world.hand_out(self, place, offset)
            self.positions[place] = offset + 1

    def begin_commit(self) -> None:
        """The application commits, from a thread of its own."""
        self.committing = self._application_commit()
        self.commit_on()

    def commit_on(self) -> None:
        """The commit under way goes on, or its answer is lost."""
        assert self.committing is not None
        if not self.served or next(self.committing, "end") == "end":
            self.committing = None
            self._do_local()

    def _application_commit(self) -> Iterator[None]:
        positions, session = dict(self.positions), self._loaded_in
        for _ in range(self.world.random.randrange(4)):
            yield
        self._store(positions, session)

    def _store(self, positions: dict[TopicPartition, int], session: int) -> bool:
        """In the session in which the partitions were claimed, or not at all."""
        if positions and session != self.session:
            return False
        for place, offset in positions.items():
            self.world.check_commit(self, place, offset)
            self.world.registry.offsets[place] = offset
        return True


def _is_local(action: ev.Action) -> bool:
    return not hasattr(action, "ticket")
