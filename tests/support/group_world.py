"""A group of our members around a model coordinator: a network that is late and loses, members that
die, a log that grows. Everything follows from a seed.

The members are the real state machine; requests and answers pass through the real encodings. The
coordinator is the broker's own decisions (:mod:`group_coordinator`). The shell here does what the
real one does, in steps: an application that finishes, a commit that travels, offsets that are read.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from group_coordinator import Coordinator

from tallymark.client.connector.rebalance import TopicPartition
from tallymark.client.connector.settings import ConsumerSettings
from tallymark.client.group import events as ev
from tallymark.client.group.machine import decide
from tallymark.client.group.requests import join_request, read_joined, read_synced, sync_request
from tallymark.client.group.routine import next_due_ms
from tallymark.coordination.subscriptions import Subscription
from tallymark.errors import CODES
from tallymark.groups.group import GroupConfig
from tallymark.groups.inputs import JoinReply, Leaver
from tallymark.groups.offsets import Commit, Committer
from tallymark.protocol.messages import (
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)

SESSION_MS, REBALANCE_MS, HEARTBEAT_MS, REQUEST_MS = 6_000, 20_000, 1_000, 2_000
TOPICS = ("t", "u")


def consumer_settings(**changes: Any) -> ConsumerSettings:
    """Settings with the defaults of the public class."""
    fields: dict[str, Any] = {
        "group": "g",
        "coordinator": None,
        "zookeeper_connect": None,
        "bootstrap_servers": "h:1",
        "client_id": "tallymark",
        "consumer_id": None,
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 5000,
        "auto_offset_reset": "smallest",
        "out_of_range": None,
        "delivery": "at_least_once",
        "isolation": "read_uncommitted",
        "partition_assignment_strategy": None,
        "group_instance_id": None,
        "session_timeout_ms": None,
        "heartbeat_interval_ms": None,
        "max_poll_interval_ms": None,
        "metadata_max_age_ms": 10_000,
        "connect_timeout_ms": 15_000,
        "request_timeout_ms": 10_000,
        "fetch_max_bytes": 1 << 20,
        "fetch_max_wait_ms": 500,
        "retry_backoff_ms": 100,
        "queue_bytes": 1 << 22,
        "start_timeout_ms": 10_000,
    }
    return ConsumerSettings(**(fields | changes))


@dataclass
class World:
    """One group, its coordinator, its log, the clock."""

    seed: int
    strategy: str

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        config = GroupConfig(min_session_timeout_ms=1, initial_rebalance_delay_ms=500)
        self.coordinator = Coordinator(config)
        self.ends = {(topic, number): 0 for topic in TOPICS for number in range(3)}
        self.delivered: dict[TopicPartition, int] = defaultdict(int)
        self.holders: dict[TopicPartition, str] = {}
        self.generations: dict[str, int] = {}
        self.members: dict[str, Member] = {}
        self.parked: dict[int, Callable[[Any], None]] = {}
        self.requests = 0
        self.restarts = 0
        self.handed_out = 0
        self.repeated = 0
        self.coordinator_down = False
        self.calm = False
        self._later: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._names = count()

    @property
    def now(self) -> int:
        return self.coordinator.ms

    # -- time ---------------------------------------------------------------------------------

    def at(self, delay_ms: int, work: Callable[[], None]) -> None:
        heapq.heappush(self._later, (self.now + delay_ms, next(self._order), work))

    def run(self, ms: int) -> None:
        """Let time pass; what is due happens at its moment."""
        end = self.now + ms
        while self._later and self._later[0][0] <= end:
            due, _, work = heapq.heappop(self._later)
            self._pass(due)
            work()
            self.answer_parked()
        self._pass(end)

    def _pass(self, until: int) -> None:
        while self.now < until:
            due = self.coordinator.group.next_deadline_ms
            step = until if due is None else min(max(due, self.now + 1), until)
            self.coordinator.wait(step - self.now)
            self.answer_parked()

    def answer_parked(self) -> None:
        for ticket in [t for t in self.parked if t in self.coordinator.answers]:
            self.parked.pop(ticket)(self.coordinator.answers[ticket])

    # -- what happens -------------------------------------------------------------------------

    def join(self, instance: str | None = None) -> Member:
        name = f"c{next(self._names)}"
        member = self.members[name] = Member(self, name, instance)
        member.tell(ev.Tick())
        return member

    def restart_coordinator(self) -> None:
        """Requests that wait get no answer; connections break."""
        self.restarts += 1
        self.parked.clear()
        self.coordinator.restart()
        for member in list(self.members.values()):
            member.break_connections()

    def grow(self) -> None:
        """A topic gets another partition."""
        topic = self.random.choice(TOPICS)
        number = sum(1 for name, _ in self.ends if name == topic)
        self.ends[topic, number] = 0

    def publish(self) -> None:
        for place in self.ends:
            self.ends[place] += self.random.randrange(3)

    def stored(self, place: TopicPartition) -> int:
        found = self.coordinator.state.offsets.get("g", *place)
        return 0 if found is None else found.offset

    @property
    def living(self) -> list[Member]:
        return [member for member in self.members.values() if member.alive]


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
        setup = ev.Setup(
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
        self.state = ev.State(setup)
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
        self.note_holding()
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
        self.note_holding()
        self.break_connections()

    def stop(self) -> None:
        self.tell(ev.Stop())

    def break_connections(self) -> None:
        self.connections += 1

    # -- actions ------------------------------------------------------------------------------

    def perform(self, action: ev.Action) -> None:
        match action:
            case ev.StopFetchers(places):
                self.fetching -= set(places)
            case ev.StartFetchers(places):
                self.positions |= {place: self.loaded[place] for place in places}
                self.fetching |= set(places)
            case ev.Pause():
                self.paused = True
            case ev.Resume():
                self.paused = False
            case ev.Forget(places):
                self.in_order(lambda done: self.forget(places, done))
            case ev.Release(ticket, _):
                self.in_order(lambda done: self.release(ticket, done))
            case ev.Load(ticket, places):
                self.in_order(lambda done: self.load(ticket, places, done))
            case ev.Fail(code):
                # A coordinator that restarts before a generation is on record knows the static
                # member that was there before; its successor is told that it is not the one.
                fenced = code == CODES["FENCED_INSTANCE_ID"] and self.world.restarts
                assert fenced, f"{self.name} ends: {code}"
                self.kill()
            case ev.Close():
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
        positions = dict(self.positions)
        who = Committer(self.state.member_id, self.instance, self.state.generation)

        def serve(answer: Callable[[Any], None]) -> None:
            commits = [Commit(*place, offset) for place, offset in positions.items()]
            answer(self.world.coordinator.commit(commits, who))

        self.send(serve, ended, lambda: ended(None), REQUEST_MS)

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

    def ask(self, action: ev.Action) -> None:
        coordinator = self.world.coordinator
        match action:
            case ev.FindCoordinator():
                self.send(
                    lambda answer: answer(None),
                    lambda _: self.tell(ev.Found()),
                    lambda: self.tell(ev.NotFound()),
                    REQUEST_MS,
                )
            case ev.Join(ticket):
                self.send(
                    lambda answer: self.join(action, answer),
                    lambda reply: self.tell(read_joined(ticket, joined(reply))),
                    lambda: self.tell(ev.Failed(ticket)),
                    REBALANCE_MS + REQUEST_MS,
                )
            case ev.Sync(ticket):
                self.send(
                    lambda answer: self.sync(action, answer),
                    lambda reply: self.tell(
                        read_synced(
                            ticket, SyncGroupResponse(reply.error, assignment=reply.assignment)
                        )
                    ),
                    lambda: self.tell(ev.Failed(ticket)),
                    REBALANCE_MS + REQUEST_MS,
                )
            case ev.Heartbeat(member_id, generation):
                self.send(
                    lambda answer: answer(
                        coordinator.heartbeat(member_id, generation, self.instance)
                    ),
                    lambda code: self.tell(ev.Beaten(generation, code)),
                    lambda: self.tell(ev.BeatFailed()),
                    REQUEST_MS,
                )
            case ev.ReadTopics(ticket, names):
                self.send(
                    lambda answer: answer(self.topics(names)),
                    lambda found: self.tell(ev.Topics(ticket, found)),
                    lambda: self.tell(ev.Failed(ticket)),
                    REQUEST_MS,
                )
            case ev.Look(names):
                self.send(
                    lambda answer: answer(self.topics(names)),
                    lambda found: self.tell(ev.Looked(found)),
                    lambda: self.tell(ev.Looked(None)),
                    REQUEST_MS,
                )
            case ev.Leave(ticket, member_id):
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
    ) -> None:
        """A request: it is served later, or never; so is its answer. ``failed`` is called when the
        connection breaks, or its time is up."""
        world, connection = self.world, self.connections
        open_ = [True]
        world.requests += 1

        def end(work: Callable[[], None]) -> None:
            if open_[0]:
                open_[0] = False
                if self.alive:
                    work()

        def arrive() -> None:
            there = connection == self.connections and open_[0]
            if there and not self.cut and not world.coordinator_down:
                serve(lambda reply: world.at(self.delay(), lambda: deliver(reply)))

        def deliver(reply: Any) -> None:
            if not self.cut and connection == self.connections:
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

    def join(self, join: ev.Join, answer: Callable[[Any], None]) -> None:
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

    def sync(self, sync: ev.Sync, answer: Callable[[Any], None]) -> None:
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

    def note_holding(self) -> None:
        world = self.world
        for place in [p for p, holder in world.holders.items() if holder == self.name]:
            if place not in self.holding:
                del world.holders[place]
        for place in self.holding:
            holder = world.holders.setdefault(place, self.name)
            assert holder == self.name, f"{place} is held by {holder} and by {self.name}"

    def consume(self) -> None:
        """Hand out a few messages of everything it holds."""
        world = self.world
        for place in sorted(self.holding):
            at = self.positions[place]
            assert at <= world.delivered[place], f"{self.name} skips to {at} of {place}"
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
