"""One member of the simulated group: the real machine, its connections, its application.

Requests and answers pass through the real encodings. The shell here does what the real one does, in
steps: an application that finishes, a commit that travels and is tried again, offsets that are
read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from group_settings import consumer_settings

from tallymark.client.group.offsets import Term, lost_since
from tallymark.client.group.requests import join_request, read_joined, read_synced, sync_request
from tallymark.client.group.state_machine import actions as act
from tallymark.client.group.state_machine import events as ev
from tallymark.client.group.state_machine.machine import decide
from tallymark.client.group.state_machine.state import Phase, Setup, State
from tallymark.client.group.state_machine.timers import next_due_ms
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.errors import CODES
from tallymark.groups.inputs import JoinReply, Leaver
from tallymark.groups.offsets import Committer
from tallymark.protocol.messages import (
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)
from tallymark.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from group_world import World

SESSION_MS, REBALANCE_MS, HEARTBEAT_MS, REQUEST_MS, SYNC_MS = 6_000, 20_000, 1_000, 2_000, 5_000
TOPICS = ("t", "u")
JOINING = (Phase.FINDING, Phase.READING, Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING)
PASSES = {CODES[name] for name in ("REBALANCE_IN_PROGRESS", "COORDINATOR_LOAD_IN_PROGRESS")}
GONE_ON = {CODES[name] for name in ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID")}


@dataclass
class Member:
    """One consumer: the machine, its connections, its application."""

    world: World
    name: str
    instance: str | None = None
    alive: bool = True
    cut: bool = False
    """Nothing it sends arrives, and nothing that is sent to it."""
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    loaded: Mapping[TopicPartition, int] = field(default_factory=dict)
    fetching: set[TopicPartition] = field(default_factory=set)
    paused: bool = False
    connections: int = 0
    waiting: int = 0
    """Which connection joins and syncs go by; every join has a new one."""
    dead: int = -1
    """One of those that died in silence: nobody is told."""
    jobs: list[Callable[[Callable[[], None]], None]] = field(default_factory=list)
    busy: bool = False

    def __post_init__(self) -> None:
        strategies = self.world.strategy.split(",")
        self.settings = consumer_settings(
            partition_assignment_strategy=strategies,
            group_instance_id=self.instance,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=REBALANCE_MS,
        )
        setup = Setup(
            Subscription(dict.fromkeys(TOPICS, 1)),
            tuple(strategies),
            SESSION_MS,
            REBALANCE_MS,
            HEARTBEAT_MS,
            look_ms=1_000,
            static=self.instance is not None,
        )
        # Nobody's clock tells the same time.
        self.skew = self.world.random.randrange(1_000_000)
        self.state = State(setup)
        self.ticking: int | None = None

    # -- events -------------------------------------------------------------------------------

    @property
    def clock(self) -> int:
        return self.world.now + self.skew

    def tell(self, event: ev.Event) -> None:
        if not self.alive:
            return
        self.state, actions = decide(self.state, event, self.clock)
        for action in actions:
            self.perform(action)
        due = next_due_ms(self.state)
        if due is not None and due != self.ticking:
            self.ticking = due
            self.world.at(max(0, due - self.clock), self.tick)

    def tick(self) -> None:
        self.ticking = None
        self.tell(ev.Tick())

    def kill(self) -> None:
        """``kill -9``."""
        self.alive = False
        self.fetching.clear()
        self.break_connections()

    def stop(self) -> None:
        self.tell(ev.Stop())

    def break_connections(self) -> None:
        self.connections += 1

    # -- actions ------------------------------------------------------------------------------

    def perform(self, action: act.Action) -> None:
        match action:
            case act.StopFetchers(places):
                self.fetching -= set(places)
            case act.StartFetchers(places):
                self.positions |= {place: self.loaded[place] for place in places}
                self.fetching |= set(places)
            case act.Pause():
                self.paused = True
            case act.Resume():
                self.paused = False
            case act.Forget(places):
                self.in_order(lambda done: self.forget(places, done))
            case act.Release(ticket, _):
                self.in_order(lambda done: self.release(ticket, done))
            case act.Load(ticket, places):
                self.in_order(lambda done: self.load(ticket, places, done))
            case act.Fail(code):
                # A coordinator that restarts before a generation is on record knows the static
                # member that was there before; its successor is told that it is not the one.
                fenced = code == CODES["FENCED_INSTANCE_ID"] and self.world.restarts
                assert fenced, f"{self.name} ends: {code}"
                self.kill()
            case act.Close():
                self.kill()
            case _:
                self.ask(action)

    def in_order(self, job: Callable[[Callable[[], None]], Any]) -> None:
        """The worker: one job after the other."""
        self.jobs.append(job)
        if not self.busy:
            self.next_job()

    def next_job(self) -> None:
        self.busy = bool(self.jobs) and self.alive
        if self.busy:
            self.jobs.pop(0)(self.next_job)

    def forget(self, places: tuple[TopicPartition, ...], done: Callable[[], None]) -> None:
        for place in places:
            self.positions.pop(place, None)
        done()

    def release(self, ticket: int, done: Callable[[], None]) -> None:
        def ended(_: Any) -> None:
            self.tell(ev.Done(ticket))
            done()

        # The application takes its time over what it has in hand.
        self.world.at(self.world.random.randrange(300), lambda: self.commit(ended))

    def commit(self, ended: Callable[[Any], None]) -> None:
        """Store how far it has come; what passes is tried again, for as long as a request takes."""
        first, positions = self.term, dict(self.positions)
        deadline = self.world.now + REQUEST_MS

        def attempt() -> None:
            lost = lost_since(first, self.term, positions)
            ours = {place: at for place, at in positions.items() if place not in lost}
            self.send(serve(self.term, ours), answered, lambda: ended(None), REQUEST_MS)

        def serve(
            term: Term, ours: Mapping[TopicPartition, int]
        ) -> Callable[[Callable[[Any], None]], None]:
            who = Committer(term.member_id, self.instance, term.generation)
            return lambda answer: answer(self.world.commit(self, ours, who))

        def answered(codes: list[int]) -> None:
            term = self.term
            again = PASSES if term.is_of(first) and not self.joining else PASSES | GONE_ON
            if set(codes) & again and self.alive and self.world.now < deadline:
                self.world.at(100, attempt)
            else:
                ended(codes)

        attempt()

    @property
    def joining(self) -> bool:
        """Whether it is on its way into another generation."""
        return self.state.phase in JOINING

    @property
    def term(self) -> Term:
        """Who commits now."""
        state = self.state
        return Term(state.member_id, state.generation, self.joining, state.owned)

    def load(
        self, ticket: int, places: tuple[TopicPartition, ...], done: Callable[[], None]
    ) -> None:
        def serve(answer: Callable[[Any], None]) -> None:
            answer({place: self.world.stored(place) for place in places})

        def loaded(offsets: Mapping[TopicPartition, int]) -> None:
            self.loaded = offsets
            self.tell(ev.Done(ticket))
            done()

        def failed() -> None:
            self.tell(ev.Failed(ticket))
            done()

        self.send(serve, loaded, failed, REQUEST_MS)

    # -- the network --------------------------------------------------------------------------

    def ask(self, action: act.Action) -> None:
        coordinator = self.world.coordinator
        match action:
            case act.FindCoordinator():
                self.send(
                    lambda answer: answer(None),
                    lambda _: self.tell(ev.Found()),
                    lambda: self.tell(ev.NotFound()),
                    REQUEST_MS,
                )
            case act.Join(ticket):
                self.waiting += 1
                self.send(
                    lambda answer: self.join(action, answer),
                    lambda reply: self.tell(read_joined(ticket, joined(reply))),
                    lambda: self.tell(ev.Failed(ticket)),
                    REBALANCE_MS + REQUEST_MS,
                    waits=True,
                )
            case act.Sync(ticket):
                self.send(
                    lambda answer: self.sync(action, answer),
                    lambda reply: self.tell(
                        read_synced(
                            ticket, SyncGroupResponse(reply.error, assignment=reply.assignment)
                        )
                    ),
                    lambda: self.tell(ev.Failed(ticket)),
                    SYNC_MS,
                    waits=True,
                )
            case act.Heartbeat(member_id, generation):
                self.send(
                    lambda answer: answer(
                        coordinator.heartbeat(member_id, generation, self.instance)
                    ),
                    lambda code: self.tell(ev.Beaten(generation, code)),
                    lambda: self.tell(ev.BeatFailed()),
                    REQUEST_MS,
                )
            case act.ReadTopics(ticket, names):
                self.send(
                    lambda answer: answer(self.topics(names)),
                    lambda found: self.tell(ev.Topics(ticket, found)),
                    lambda: self.tell(ev.Failed(ticket)),
                    REQUEST_MS,
                )
            case act.Look(names):
                self.send(
                    lambda answer: answer(self.topics(names)),
                    lambda found: self.tell(ev.Looked(found)),
                    lambda: self.tell(ev.Looked(None)),
                    REQUEST_MS,
                )
            case act.Leave(ticket, member_id):
                self.send(
                    lambda answer: answer(coordinator.leave(Leaver(member_id))),
                    lambda _: self.tell(ev.Done(ticket)),
                    lambda: self.tell(ev.Done(ticket)),
                    REQUEST_MS,
                )
            case _:
                raise AssertionError(action)

    def send(
        self,
        serve: Callable[[Callable[[Any], None]], None],
        answered: Callable[[Any], None],
        failed: Callable[[], None],
        timeout_ms: int,
        *,
        waits: bool = False,
    ) -> None:
        """A request: it is served later, or never; so is its answer. ``failed`` is called when the
        connection breaks, or its time is up."""
        world, connection, waiting = self.world, self.connections, self.waiting
        open_ = [True]
        world.requests += 1

        def end(work: Callable[[], None]) -> None:
            if open_[0]:
                open_[0] = False
                if self.alive:
                    work()

        def passes() -> bool:
            silent = waits and waiting == self.dead
            return connection == self.connections and not self.cut and not silent

        def arrive() -> None:
            if world.coordinator_down:
                world.at(self.delay(), lambda: end(failed))  # nobody listens there
            elif open_[0] and passes():
                serve(lambda reply: world.at(self.delay(), lambda: deliver(reply)))

        def deliver(reply: Any) -> None:
            if passes():
                end(lambda: answered(reply))

        def watch() -> None:
            """The client notices a connection that broke soon, one that is silent in time."""
            if connection != self.connections:
                end(failed)

        def look() -> None:
            watch()
            if open_[0] and self.alive:
                world.at(200, look)

        world.at(self.delay(), arrive)
        world.at(200, look)
        world.at(timeout_ms, lambda: end(failed))

    def delay(self) -> int:
        slow = not self.world.calm and self.world.random.random() < 0.05
        return self.world.random.randrange(800 if slow else 30)

    def join(self, join: act.Join, answer: Callable[[Any], None]) -> None:
        request = join_request(join, self.settings)
        ticket = self.world.coordinator.join(
            join.member_id,
            instance_id=self.instance,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=tuple((each.name, bytes(each.metadata)) for each in request.protocols),
            must_know_id=True,
            may_skip_assignment=True,
        )
        self.world.parked[ticket] = answer
        self.world.answer_parked()

    def sync(self, sync: act.Sync, answer: Callable[[Any], None]) -> None:
        request = sync_request(sync, self.settings)
        parts = {each.member_id: bytes(each.assignment) for each in request.assignments}
        ticket = self.world.coordinator.sync(
            sync.member_id, sync.generation, parts, instance_id=self.instance
        )
        self.world.parked[ticket] = answer
        self.world.answer_parked()

    def topics(self, names: tuple[str, ...] | None) -> dict[str, tuple[int, ...]]:
        found: dict[str, list[int]] = defaultdict(list)
        for topic, number in sorted(self.world.ends):
            if names is None or topic in names:
                found[topic].append(number)
        return {topic: tuple(numbers) for topic, numbers in found.items()}

    # -- the application ----------------------------------------------------------------------

    @property
    def holding(self) -> set[TopicPartition]:
        """What it may hand out at this moment."""
        return self.fetching if self.alive and not self.paused else set()

    def consume(self) -> None:
        """Hand out a few messages of everything it holds."""
        world = self.world
        for place in sorted(self.holding):
            at = self.positions[place]
            upto = min(world.ends[place], at + world.random.randrange(4))
            world.handed_out += upto - at
            world.repeated += max(0, min(upto, world.delivered[place]) - at)
            self.positions[place] = upto
            world.delivered[place] = max(world.delivered[place], upto)


def joined(reply: JoinReply) -> JoinGroupResponse:
    """The answer as it comes over the wire."""
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=tuple(
            JoinGroupResponseMember(member_id=name, group_instance_id=static, metadata=words)
            for name, static, words in reply.members
        ),
    )
