"""Groups of consumers in a simulated world: time, faults, and what must hold after every step.

A run is decided by its seed. One that breaks an invariant says its name and shows the end of its
trace; ``python tests/support/zookeeper_groups/rebalance_world.py SEED`` shows all of it.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence

from rebalance_consumer import AWAITING, Consumer
from rebalance_faults import BROKERS, TOPICS, change_once, reconnect, strike
from rebalance_registry import Registry

from tallymark.client.zookeeper_group import events as ev
from tallymark.coordination.consumers.subscriptions import Subscription
from tallymark.protocol.topic_partition import TopicPartition

QUIET_STEPS = 3000
"""Steps of all consumers together in which everything must be owned after the last fault: several
times the slowest of ten thousand worlds."""
LAST_CHANGES = 3
"""Single changes after the faults; only the watch on what changes tells of each."""
CLAIMS_WHEN_QUIET = 10
"""Claims one consumer may need to settle after the last fault; more is a livelock."""
_TRACE_SHOWN = 60


class BrokenInvariantError(AssertionError):
    """An invariant, by name, does not hold."""


class World:
    """``crashes``: sessions may be lost and consumers killed, so messages may come twice."""

    def __init__(self, seed: int, crashes: bool) -> None:
        self.seed = seed
        self.crashes = crashes
        self.random = random.Random(seed)
        self.now = 0
        self.steps = 0
        self.trace: list[str] = []
        self.registry = Registry(self._watch_fired, brokers=set(range(BROKERS)))
        self.ends: dict[TopicPartition, int] = {}
        self.seen: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        self.repeated = 0
        self.settled_in = 0
        """Steps of all consumers together from a last fault to quiet, at most."""
        self.faulty = True
        self.consumers: list[Consumer] = []
        self._numbers = iter(range(1000))
        for topic in self.random.sample(TOPICS, 2):
            self.put_topic(topic, self.random.randint(1, 3))
        for _ in range(2):
            self.add()

    # -- running ------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """``steps`` with faults, then quiet; raises BrokenInvariantError with the trace."""
        try:
            for _ in range(steps):
                if self.random.random() < 0.04:
                    strike(self)
                self._move()
            self._end_of_faults()
            self._settle()
            for _ in range(LAST_CHANGES):
                self._change_once()
                self._settle()
            self._rest()
        except AssertionError as error:
            trace = "\n".join(self.trace[-_TRACE_SHOWN:])
            replay = f"replay: python tests/support/zookeeper_groups/rebalance_world.py {self.seed}"
            raise BrokenInvariantError(f"{error}\nseed {self.seed}; {replay}\n{trace}") from error

    def note(self, text: str) -> None:
        """A line of the trace."""
        self.trace.append(f"{self.steps:5} {self.now:6} ms  {text}")

    def _move(self) -> None:
        """Some consumer does one of the things it could do."""
        self.steps += 1
        self.now += self.random.randint(0, 20)
        if not self.consumers:
            return
        consumer = self.random.choice(self.consumers)
        if consumer.paused_until > self.steps:
            return
        moves: list[Callable[[], None]] = [consumer.act] * consumer.may_act
        if consumer.inbox and (not consumer.actions or self.random.random() < 0.3):
            moves.append(consumer.deliver)
        if consumer.notes:
            moves.append(consumer.hear_watch)
        if consumer.may_consume:
            moves.append(consumer.consume)
        if consumer.committing is not None:
            moves.append(consumer.commit_on)
        elif consumer.positions and consumer.served and self.random.random() < 0.1:
            moves.append(consumer.begin_commit)
        if consumer.state.wake_ms is not None and consumer.state.wake_ms <= self.now:
            moves.append(consumer.tick)
        if consumer.connected and not consumer.served and self.random.random() < 0.2:
            moves.append(consumer.suspend)  # it notices that its session is over
        if self.faulty and not consumer.connected and self.random.random() < 0.1:
            moves.append(lambda: reconnect(self, consumer))
        self.random.choice(moves or [consumer.tick])()
        self._check_step()

    def _end_of_faults(self) -> None:
        self.note("-- no more faults")
        self.faulty = False
        for broker in set(range(BROKERS)) - self.registry.brokers:
            self.registry.set_broker(broker, True)
        for consumer in self.consumers:
            consumer.paused_until = 0
            if not consumer.served:
                if consumer.connected:
                    consumer.suspend()
                consumer.connect()
        self._time_out_the_killed()

    def _change_once(self) -> None:
        self.note("-- one change")
        change_once(self)
        self._time_out_the_killed()

    def _time_out_the_killed(self) -> None:
        for session in self.registry.live - {c.session for c in self.consumers}:
            self.registry.expire(session)

    def _settle(self) -> None:
        began = self.steps
        for consumer in self.consumers:
            consumer.claims = 0
        for _ in range(QUIET_STEPS):
            self._move()
            if self._is_quiet():
                self.settled_in = max(self.settled_in, self.steps - began)
                return self._check_quiet()
        states = {c.name: c.state.phase.value for c in self.consumers}
        raise AssertionError(f"EverythingOwnedSoon: not settled after {QUIET_STEPS}: {states}")

    def _rest(self) -> None:
        """NoBusyLoop: who has nothing to do orders nothing."""
        orders = sum(consumer.orders for consumer in self.consumers)
        for _ in range(100):
            self._move()
        now = sum(consumer.orders for consumer in self.consumers)
        assert now == orders, f"NoBusyLoop: {now - orders} orders though nothing happened"

    def _is_quiet(self) -> bool:
        return all(
            c.state.phase is ev.Phase.RUNNING
            and not (c.inbox or c.actions or c.notes)
            and all(c.positions[p] == self.ends[p] for p in c.fetching)
            for c in self.consumers
        )

    # -- invariants ---------------------------------------------------------------------------

    def _check_step(self) -> None:
        """OneDeliverer: no two consumers may deliver a partition between their owner node's
        creation and its loss or their own suspension. NoDeadlock: whoever waits, waits for
        something that will come. RunningIsConsumed: nothing is held for nothing. NothingForgotten:
        whose owner nodes stand knows of them."""
        delivering: dict[TopicPartition, str] = {}
        for consumer in self.consumers:
            if consumer.gate.is_open and consumer.session in self.registry.live:
                for place in consumer.fetching:
                    other = delivering.setdefault(place, consumer.name)
                    assert other == consumer.name, f"OneDeliverer: {place}: {other} {consumer.name}"
                    owner = self.registry.owners.get(place)
                    assert owner == consumer.session, f"OneDeliverer: {consumer.name} {place}"
            phase = consumer.state.phase
            has_work = consumer.actions or consumer.inbox
            assert phase not in AWAITING or has_work, f"NoDeadlock: {consumer.name} in {phase}"
            woken = consumer.state.wake_ms is not None
            assert (phase is ev.Phase.WAITING) == woken, f"NoDeadlock: {consumer.name} in {phase}"
            if consumer.state.running and not consumer.actions:
                held, fetched = set(consumer.state.held), set(consumer.fetching)
                assert held == fetched, f"RunningIsConsumed: {consumer.name} {held} {fetched}"
            if not has_work:
                mine = {p for p, s in self.registry.owners.items() if s == consumer.session}
                assert mine <= set(consumer.state.held), f"NothingForgotten: {consumer.name} {mine}"

    def check_decided(self, consumer: Consumer, event: ev.Event, before: ev.Phase) -> None:
        """WaitsEmptyHanded: who waits for another consumer's nodes to go has none of its own that
        others may wait for. PausesBeforeRetry: nobody asks again and again."""
        state = consumer.state
        if state.phase is not ev.Phase.WAITING or before is ev.Phase.WAITING:
            return
        assert state.wake_ms is not None, f"PausesBeforeRetry: {consumer.name} waits for ever"
        assert state.wake_ms > self.now, f"PausesBeforeRetry: {consumer.name} at once"
        if isinstance(event, ev.Done | ev.Refused):
            kept = [p for p, s in self.registry.owners.items() if s == consumer.session]
            assert not kept, f"WaitsEmptyHanded: {consumer.name} keeps {kept}"

    def hand_out(self, consumer: Consumer, place: TopicPartition, offset: int) -> None:
        """SilentWhileSuspended: who has heard that nobody answers hands out nothing.
        OwnedWhileDelivered: the owner node is this consumer's, or the server has given up its
        session and it cannot know yet. NothingSkipped: all before went to somebody."""
        assert consumer.connected, f"SilentWhileSuspended: {consumer.name} hands out {place}"
        if consumer.session in self.registry.live:
            owner = self.registry.owners.get(place)
            assert owner == consumer.session, f"OwnedWhileDelivered: {consumer.name} {place}"
        assert offset == 0 or offset - 1 in self.seen[place], (
            f"NothingSkipped: {consumer.name} hands out {place} {offset}"
        )
        self.repeated += offset in self.seen[place]
        self.seen[place].add(offset)

    def check_commit(self, consumer: Consumer, place: TopicPartition, offset: int) -> None:
        """CommittedWasDelivered, by its owner, and CommittedNeverGoesBack."""
        before = self.registry.offsets.get(place, 0)
        self.note(f"{consumer.name} stores {place} {offset}")
        assert offset == 0 or offset - 1 in self.seen[place], (
            f"CommittedWasDelivered: {consumer.name} stores {place} {offset}"
        )
        owner = self.registry.owners.get(place)
        assert owner == consumer.session, f"CommittedByOwner: {consumer.name} {place}"
        assert offset >= before, f"CommittedNeverGoesBack: {place} from {before} to {offset}"

    def check_release(self, consumer: Consumer, place: TopicPartition) -> None:
        """StoppedBeforeReleased: who gives a partition up delivers it no more."""
        assert place not in consumer.fetching, f"StoppedBeforeReleased: {consumer.name} {place}"

    def check_start(
        self,
        consumer: Consumer,
        assignment: Mapping[TopicPartition, int],
        loaded: Mapping[TopicPartition, int],
        session: int,
    ) -> None:
        """StartsAtCommitted: exactly what was claimed, where the owner before has stopped."""
        self.note(f"{consumer.name} consumes {sorted(assignment)} from {dict(loaded)}")
        assert set(assignment) == set(loaded), f"StartsAtCommitted: {assignment} {loaded}"
        if session not in self.registry.live:
            return
        stored = {place: self.registry.offsets.get(place, 0) for place in loaded}
        assert stored == loaded, f"StartsAtCommitted: {consumer.name} {loaded}, stored {stored}"

    def _check_quiet(self) -> None:
        """EverythingOwned, by whom Algorithm 1 says; EverythingConsumed; BoundedRebalances."""
        members = {c.name: c.subscription for c in self.consumers}
        sessions = {c.name: c.session for c in self.consumers}
        division = algorithm_1(members, self.registry.topics)
        expected = {place: sessions[name] for place, (name, _) in division.items()}
        assert self.registry.owners == expected, f"EverythingOwned: {expected}"
        for c in self.consumers:
            own = {place: number for place, (name, number) in division.items() if name == c.name}
            assert c.state.held == own, f"EverythingOwned: {c.name} holds {c.state.held}"
            assert set(c.fetching) == set(own), f"EverythingOwned: {c.name} consumes {c.fetching}"
            assert c.gate.is_open, f"EverythingOwned: {c.name} is held up"
            assert c.claims <= CLAIMS_WHEN_QUIET, f"BoundedRebalances: {c.name}: {c.claims}"
        for place in division:
            assert self.seen[place] == set(range(self.ends[place])), f"EverythingConsumed: {place}"
        # FlushedBeforeReleased: without lost sessions nothing is handed out twice.
        assert self.crashes or not self.repeated, f"FlushedBeforeReleased: {self.repeated} repeated"

    # -- the world ----------------------------------------------------------------------------

    def may_fail(self, consumer: Consumer) -> bool:
        """Whether what it does may fail. Who leaves tries to store its offsets once."""
        return self.faulty and (self.crashes or not consumer.leaving)

    def has(self, place: TopicPartition, offset: int) -> bool:
        """Whether a fetch brings this message: its partition's leader is alive."""
        topic, partition = place
        alive = partition % BROKERS in self.registry.brokers
        return alive and topic in self.registry.topics and offset < self.ends[place]

    def close(self, consumer: Consumer) -> None:
        """A consumer has left; closing its session removes what is left of it."""
        self.note(f"{consumer.name} is gone")
        self.consumers.remove(consumer)
        self.registry.drop_watches(consumer.name)
        self.registry.expire(consumer.session)

    def _watch_fired(self, name: str) -> None:
        for consumer in self.consumers:
            if consumer.name == name:  # some watches are told twice: once more after the read
                consumer.notes += 2 if self.random.random() < 0.1 else 1

    def add(self) -> None:
        """Another consumer joins."""
        streams = {topic: self.random.randint(1, 2) for topic in self.random.sample(TOPICS, 2)}
        subscription = Subscription(streams)
        if self.random.random() < 0.3:
            subscription = Subscription({"t.*": self.random.randint(1, 2)}, is_filter=True)
        consumer = Consumer(self, f"c{next(self._numbers)}", subscription)
        self.note(f"{consumer.name} joins with {dict(subscription.streams)}")
        self.consumers.append(consumer)
        consumer.connect()

    def put_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with five messages in each partition, or let it grow."""
        self.note(f"{topic} has {partitions} partitions")
        for partition in range(partitions):
            self.ends.setdefault((topic, partition), 5)
        self.registry.put_topic(topic, partitions)


def algorithm_1(
    members: Mapping[str, Subscription], topics: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, tuple[str, int]]:
    """Partition -> (consumer, number of its stream), as the paper says, in other words than those
    of the code under test: each stream in turn takes its even share of what is left, rounded up."""
    division: dict[TopicPartition, tuple[str, int]] = {}
    for topic, partitions in topics.items():
        places = deque((topic, partition) for partition in sorted(partitions))
        streams = [(m, n) for m, s in members.items() for n in range(s.streams_of(topic))]
        for taken, stream in enumerate(sorted(streams)):
            for _ in range(-(-len(places) // (len(streams) - taken))):
                division[places.popleft()] = stream
    return division


def simulate(seed: int, steps: int = 600) -> World:
    """One world; in every second one sessions are lost and consumers are killed."""
    world = World(seed, crashes=bool(seed % 2))
    world.run(steps)
    return world


if __name__ == "__main__":
    played = World(int(sys.argv[1]), crashes=bool(int(sys.argv[1]) % 2))
    try:
        played.run(600)
    finally:
        print("\n".join(played.trace))
