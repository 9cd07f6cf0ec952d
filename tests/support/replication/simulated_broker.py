"""One run of a simulated broker's process: the pure machines of ``tallymark.replication`` with a
simulated network, disk and state node around them, as the real broker has real ones.

Start: raise the broker epoch, resign the lead and confess a tail that may be missing, register;
then follow the news of the state node. What is in this object is lost when the process ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from simulated_controller import PARTITION
from simulated_disk import Disk, Record
from simulated_registry import Snapshot, Written

from tallymark.errors import CODES, KafkaError
from tallymark.replication.acks import LEAD_LOST, NONE, TIME_IS_UP, TOO_FEW, WaitingForAll
from tallymark.replication.following import (
    Answer,
    Append,
    Ask,
    AskRange,
    CutTo,
    Following,
    SetAside,
    StartAt,
    Step,
)
from tallymark.replication.leading import Leader
from tallymark.replication.model import (
    NO_LEADER,
    BrokerView,
    ChangeState,
    PartitionState,
    PartitionView,
)
from tallymark.replication.progress import FollowerFetch, LogAtElection

if TYPE_CHECKING:
    from simulated_world import World

LAG_MS: Final = 1_500
SESSION_MS: Final = 1_500
FETCH_TIMEOUT_MS: Final = 300
RECORDS_A_FETCH: Final = 4
ACKS_TIMEOUT_MS: Final = 5_000


class Process:
    """A broker that runs. ``number`` tells this run from others of the same broker."""

    def __init__(self, world: World, broker: int, disk: Disk, number: int) -> None:
        self.world = world
        self.id = broker
        self.disk = disk
        self.number = number
        self.alive = True
        self.resumes_ms = 0
        self.broker_epoch = -1
        self.registered = False
        self.state: PartitionState = PartitionState(NO_LEADER, -1, ())
        self.brokers: Mapping[int, BrokerView] = {}
        self.revision = -1
        self.session_ms = world.agenda.now_ms
        self.high_watermark = min(disk.high_watermark, len(disk.log))
        self.leader: Leader | None = None
        self.following: Following | None = None
        self.asked: Ask | None = None
        self.asked_ms = 0
        self.parked: dict[int, WaitingForAll[int]] = {}
        """By leader epoch: a coordinator hears of a lost lead later than its replica does."""

    def __repr__(self) -> str:
        return f"{self.id}/{self.number}"

    @property
    def now_ms(self) -> int:
        return self.world.agenda.now_ms

    @property
    def role_epoch(self) -> int:
        if self.leader is not None:
            return self.leader.epoch
        return self.following.leader_epoch if self.following is not None else -1

    # --- start

    def start(self) -> None:
        """Also after a lost session: the broker comes back under a new broker epoch."""
        self.registered = False
        self.drop_role()
        call = self.world.registry.raise_epoch
        self.world.registry_call(self, lambda: call(self.id), self._raised, may_be_late=False)

    def _raised(self, epoch: int | None) -> None:
        if epoch is None:
            self.world.later(self, 200, self.start)
            return
        self.broker_epoch = epoch
        self._confess()

    def _confess(self) -> None:
        self.world.registry_call(self, self.world.registry.read, self._confessed_after)

    def _confessed_after(self, seen: Snapshot | None) -> None:
        if seen is None:
            self.world.later(self, 200, self._confess)
            return
        state = self._without_me(seen.state)
        if state == seen.state:
            self.state = seen.state
            self._register()
            return
        change = ChangeState(PARTITION, seen.state.version, state, f"broker {self.id} starts")
        call = self.world.registry.write
        self.world.registry_call(self, lambda: call(self.id, change), lambda _: self._confess())

    def _without_me(self, state: PartitionState) -> PartitionState:
        """Resign; leave the ISR with what is left if the log is not known to be whole."""
        if state.leader == self.id:
            state = replace(state, leader=NO_LEADER, leader_epoch=state.leader_epoch + 1)
        if self.disk.intact or (self.id not in state.isr and self.id not in state.confessed):
            return state
        isr = tuple(one for one in state.isr if one != self.id)
        return replace(state, isr=isr, confessed={**state.confessed, self.id: self.disk.tail})

    def _register(self) -> None:
        epoch = self.broker_epoch
        call = self.world.registry.register
        self.world.registry_call(
            self, lambda: call(self.id, epoch), self._is_registered, may_be_late=False
        )

    def _is_registered(self, done: bool | None) -> None:
        if done is None:
            self.world.later(self, 200, self._register)
        elif done:
            self.disk.intact = True  # from now on a crash of the machine is noticed by itself
            self.session_ms = self.now_ms
            self.registered = True
            self._take_role()
            self.world.read_news(self)
        else:
            self.start()

    # --- news of the state node

    def news(self, seen: Snapshot) -> None:
        """What a watch or a poll has read; it may be older than what is known."""
        if not self.registered:
            return
        if seen.revision > self.revision:
            self.revision = seen.revision
            if self.id not in seen.brokers or seen.brokers[self.id].epoch != self.broker_epoch:
                self.world.note("%r has lost its session", self)
                self.start()
                return
            self.brokers = seen.brokers
            if self.leader is not None:
                self.leader.brokers_changed(self.brokers, self.now_ms)
        if seen.state.version > self.state.version:
            self.state = seen.state
            self._take_role()
        self.settle()

    def _take_role(self) -> None:
        state = self.state
        if self.leader is not None:
            self.leader.seen(state, self.now_ms)
            if not self.leader.is_lost:
                return
        if state.leader_epoch == self.role_epoch:
            return
        self.drop_role()
        if state.leader == self.id:
            self._lead()
        elif state.leader != NO_LEADER:
            self.following = Following(
                PARTITION, state.leader, state.leader_epoch, self.high_watermark
            )
            first = self.following.begin(self.disk.view)
            if first is not None:
                self.disk.cut(first.to)
            self.poll()

    def _lead(self) -> None:
        world, epoch, end = self.world, self.state.leader_epoch, len(self.disk.log)
        self.disk.begin_epoch(epoch)
        view = PartitionView(world.assignment, self.state, world.plan.min_insync)
        log = LogAtElection(end, self.high_watermark)
        self.leader = Leader(self.id, PARTITION, view, log, self.brokers, self.now_ms, LAG_MS)
        self.parked[epoch] = WaitingForAll(epoch)
        world.check.leads(self, epoch)
        world.note("%r leads in epoch %d from %d, high watermark %d", self, epoch, end, log[1])

    def drop_role(self) -> None:
        """Coordinators hear of it later; their requests fail then."""
        self.leader = self.following = self.asked = None
        for epoch in self.parked:
            self.world.later(self, self.world.random.choice((0, 50, 400)), self._unload, epoch)

    def _unload(self, epoch: int) -> None:
        for value in self.parked.pop(epoch, WaitingForAll[int](epoch)).all():
            self.world.answered(self, value, LEAD_LOST)

    # --- the leader

    def produce(self, value: int, acks: int) -> None:
        """A client's record: refused before the append, or answered when it may be."""
        leader = self.leader
        if leader is None or leader.is_lost:
            self.world.answered(self, value, LEAD_LOST)
            return
        if acks < 0 and not leader.is_enough:
            self.world.answered(self, value, CODES["NOT_ENOUGH_REPLICAS"])
            return
        self.write((leader.epoch, value))
        end = len(self.disk.log)
        if acks < 0:
            self.parked[leader.epoch].add(value, end, self.now_ms + ACKS_TIMEOUT_MS)
        leader.appended(end)
        self.settle()

    def write(self, record: Record) -> None:
        """Append to the log, as leader or as follower."""
        self.world.check.written(self, len(self.disk.log), record)
        self.disk.append(record)

    def fetch(self, source: Process, ask: Ask, broker_epoch: int) -> None:
        """A follower's fetch: its answer is sent at once."""
        answer, records = self._answer_to(source.id, ask, broker_epoch)
        self.settle()
        if not answer.error:
            known = self.leader.high_watermark if self.leader is not None else -1
            answer = answer._replace(high_watermark=known)
        self.world.send(self, source, source.fetched, ask, answer, records)

    def _answer_to(self, broker: int, ask: Ask, broker_epoch: int) -> tuple[Answer, list[Record]]:
        leader = self.leader
        if leader is None or leader.is_lost or leader.epoch != ask.leader_epoch:
            newer = ask.leader_epoch > max(self.role_epoch, self.state.leader_epoch)
            older = leader is not None and leader.epoch > ask.leader_epoch
            name = "FENCED_LEADER_EPOCH" if older else "NOT_LEADER_OR_FOLLOWER"
            return Answer(CODES["UNKNOWN_LEADER_EPOCH" if newer else name]), []
        told = FollowerFetch(broker, broker_epoch, ask.offset, ask.last_epoch, ask.log_start)
        try:
            parted = leader.fetched(told, self.disk.epochs, self.now_ms)
        except KafkaError as refused:
            return Answer(refused.code), []
        if parted is not None:
            return Answer(parted=parted), []
        records = self.disk.log[ask.offset : ask.offset + RECORDS_A_FETCH]
        return Answer(log_start=0, first_offset=ask.offset if records else None), records

    def range_asked(self, source: Process, ask: Ask) -> None:
        if self.leader is not None and self.leader.epoch == ask.leader_epoch:
            self.world.send(self, source, source.range_told, ask, len(self.disk.log))

    def settle(self) -> None:
        """Look at what the machines have decided."""
        leader = self.leader
        if leader is None:
            self._expire()
            return
        if leader.high_watermark != self.high_watermark:
            self._moved(leader.epoch, leader.high_watermark)
        if not leader.is_enough:
            for value in self.parked[leader.epoch].all():
                self.world.answered(self, value, TOO_FEW)
        self._expire()
        change = leader.wish()
        if change is not None:
            self.world.note("%r wishes %s: %s", self, change.state.isr, change.why)
            call = self.world.registry.write
            self.world.registry_call(
                self, lambda: call(self.id, change), lambda told: self._isr_told(leader, told)
            )

    def _moved(self, epoch: int, high_watermark: int) -> None:
        """Whoever waits on this partition hears of the high watermark, with the epoch it is of."""
        self.high_watermark = high_watermark
        self.world.check.moved(self, epoch, high_watermark)
        for parked in self.parked.values():
            for value in parked.committed(epoch, high_watermark):
                self.world.answered(self, value, NONE)

    def _expire(self) -> None:
        for parked in self.parked.values():
            for value in parked.expired(self.now_ms):
                self.world.answered(self, value, TIME_IS_UP)

    def _isr_told(self, leader: Leader, told: Written | None) -> None:
        if self.leader is not leader:
            return
        if told is None:
            leader.answered(None, self.now_ms)
            self.read_again(leader)
        elif told.done:
            self._node_read(leader, told.state)
        else:
            leader.refused(told.state, self.now_ms, told.stale)
            self._node_read(leader, told.state)

    def read_again(self, leader: Leader) -> None:
        """The outcome of a write is unknown: read the node before the next decision."""
        self.world.registry_call(
            self, self.world.registry.read, lambda seen: self._read_again(leader, seen)
        )

    def _read_again(self, leader: Leader, seen: Snapshot | None) -> None:
        if self.leader is not leader:
            return
        if seen is None:
            self.world.later(self, 300, self.read_again, leader)
        else:
            self._node_read(leader, seen.state)

    def _node_read(self, leader: Leader, state: PartitionState) -> None:
        leader.answered(state, self.now_ms)
        if state.version > self.state.version:
            self.state = state
            self._take_role()
        self.settle()

    # --- the follower

    def poll(self) -> None:
        """Ask the leader for more, unless an ask is under way or the partition is set aside."""
        following = self.following
        waits = self.asked is not None and self.now_ms < self.asked_ms + FETCH_TIMEOUT_MS
        if following is None or waits or not self.registered:
            return
        ask = following.ask(self.disk.view, self.now_ms)
        if ask is None:
            return
        self.asked, self.asked_ms = ask, self.now_ms
        leader = self.world.running(following.leader)
        if leader is not None:
            self.world.send(self, leader, leader.fetch, self, ask, self.broker_epoch)

    def fetched(self, ask: Ask, answer: Answer, records: list[Record]) -> None:
        """An answer, perhaps to an ask of long ago."""
        following = self.following
        if ask == self.asked:
            self.asked = None
        if following is None:
            return
        step = following.answered(ask, answer, self.disk.view, self.now_ms)
        if isinstance(step, Append):
            for record in records:
                self.write(record)
            self._followed(following, step.high_watermark)
        else:
            self._do(following, ask, step)
        self.world.later(self, 3 if records else self.world.random.choice((40, 90)), self.poll)

    def range_told(self, ask: Ask, leader_end: int) -> None:
        following = self.following
        if following is not None:
            step = following.range_told(ask, 0, leader_end, self.disk.view, self.now_ms)
            self._do(following, ask, step)

    def _do(self, following: Following, ask: Ask, step: Step) -> None:
        if isinstance(step, CutTo | StartAt):
            to = step.to if isinstance(step, CutTo) else step.offset
            self.world.note("%r cuts %d to %d: %s", self, len(self.disk.log), to, step.why)
            self.disk.cut(to)
            self._followed(following, -1)
        elif isinstance(step, SetAside):
            self.world.note("%r is set aside until %d: %s", self, step.until_ms, step.why)
        elif isinstance(step, AskRange):
            leader = self.world.running(following.leader)
            if leader is not None:
                self.world.send(self, leader, leader.range_asked, self, ask)

    def _followed(self, following: Following, told: int) -> None:
        following.is_at(self.disk.view, told)
        if following.high_watermark != self.high_watermark:
            self._moved(following.leader_epoch, following.high_watermark)

    # --- time

    def tick(self) -> None:
        """Every few hundred ms: lag, sessions, flushes, checkpoints."""
        if self.registered and self.now_ms - self.session_ms > self.world.session_patience_ms:
            self.world.note("%r takes its session for dead", self)
            self.start()
        if self.leader is not None:
            self.leader.tick(self.now_ms)
        self.settle()
        self.poll()
        if self.world.random.random() < 0.2:
            self.disk.flushed = len(self.disk.log)
        self.disk.high_watermark = min(self.high_watermark, len(self.disk.log))
