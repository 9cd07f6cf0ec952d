"""One run of a simulated broker's process: the pure machines of ``tallymark.replication`` with a
simulated network, disk and ZooKeeper around them, as the real broker has real ones.

It starts (``simulated_starting``), follows what it is told of the nodes, and leads or follows the
partition. What is in this object is lost when the process ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from simulated_controller import Term
from simulated_disk import Disk, Record
from simulated_follower import Follower
from simulated_nodes import PARTITION, Author, Snapshot, Topic, Written
from simulated_starting import Starting

from tallymark.errors import CODES, KafkaError
from tallymark.replication.acks import LEAD_LOST, NONE, TIME_IS_UP, TOO_FEW, WaitingForAll
from tallymark.replication.following import Answer, Ask
from tallymark.replication.leading import Leader
from tallymark.replication.model import (
    NO_LEADER,
    Assignment,
    BrokerView,
    ChangeState,
    PartitionState,
    PartitionView,
)
from tallymark.replication.progress import FollowerFetch, LogAtElection

if TYPE_CHECKING:
    from simulated_world import World

LAG_MS: Final = 1_500
RECORDS_A_FETCH: Final = 4
ACKS_TIMEOUT_MS: Final = 5_000
NOTHING: Final = Topic(-1, Assignment(()), 1, False)


class Process:
    """A broker that runs. ``number`` tells this run from others of the same broker."""

    def __init__(self, world: World, broker: int, disk: Disk, number: int) -> None:
        self.world = world
        self.id = broker
        self.disk = disk
        self.number = number
        self.alive = True
        self.resumes_ms = 0
        self.session = world.nodes.open()
        self.session_ms = world.agenda.now_ms
        self.broker_epoch = -1
        self.registered = False
        self.topic = NOTHING
        self.state: PartitionState = PartitionState(NO_LEADER, -1, ())
        self.brokers: Mapping[int, BrokerView] = {}
        self.revision = -1
        self.high_watermark = min(disk.high_watermark, len(disk.log))
        self.leader: Leader | None = None
        self.follower: Follower | None = None
        self.term: Term | None = None
        self._claimed = -1
        """A broker that has a partition alone leads no more in the epoch of an earlier start."""
        self.parked: dict[int, WaitingForAll[int]] = {}
        """By leader epoch: a coordinator hears of a lost lead later than its replica does."""
        self._starting = Starting(self, disk.opened())

    def __repr__(self) -> str:
        return f"{self.id}/{self.number}"

    @property
    def now_ms(self) -> int:
        return self.world.agenda.now_ms

    @property
    def role_epoch(self) -> int:
        if self.leader is not None:
            return self.leader.epoch
        return self.follower.machine.leader_epoch if self.follower is not None else -1

    # --- start

    def start(self) -> None:
        """Also after a lost session: the broker comes back in another one."""
        self.registered = False
        self.drop_role()
        if self.session not in self.world.nodes.sessions:
            self.session = self.world.nodes.open()
        self.session_ms = self.now_ms
        self._starting.begin()

    def session_over(self, session: int) -> None:
        if session == self.session:
            self.world.note("%r has lost its session", self)
            self.start()

    def is_registered(self, epoch: int, seen: Snapshot) -> None:
        self.broker_epoch = epoch
        self.registered = True
        if seen.state.leader == self.id:  # alone: others have resigned
            self._claimed = seen.state.leader_epoch
        self.session_ms = self.now_ms
        self.told(seen)
        self.world.read(self)

    # --- what the nodes hold

    def told(self, seen: Snapshot | None) -> None:
        """What a watch or a poll has read; it may be older than what is known."""
        if not self.registered or seen is None:
            return
        if seen.revision > self.revision:
            self.revision = seen.revision
            self.brokers = seen.brokers
            if self.leader is not None:
                self.leader.brokers_changed(self.brokers, self.now_ms)
        if seen.topic.version > self.topic.version:
            self.topic = seen.topic
            if self.leader is not None:
                topic = self.topic
                self.leader.configured(topic.assignment, topic.min_insync, self.now_ms)
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
        if self.id not in self.topic.assignment.replicas:
            self.drop_role()
            self._delete()
            return
        if state.leader_epoch == self.role_epoch:
            return
        self.drop_role()
        if state.leader == self.id and state.leader_epoch == self._claimed:
            self._claim()
        elif state.leader == self.id:
            self._lead()
        elif state.leader != NO_LEADER:
            self.disk.exists = True
            self.follower = Follower(self, state)
            self.follower.poll()

    def _claim(self) -> None:
        """Raise the epoch. Where that fails it is tried again when the nodes were read."""
        state = replace(self.state, leader_epoch=self.state.leader_epoch + 1)
        change = ChangeState(PARTITION, self.state.version, state, f"{self.id} leads alone")
        author = Author(self.id, broker_epoch=self.broker_epoch)
        self.world.write(self, author, change, lambda _: self.world.read(self))

    def _lead(self) -> None:
        world, epoch, end = self.world, self.state.leader_epoch, len(self.disk.log)
        self.disk.exists = True
        self.disk.begin_epoch(epoch)
        view = PartitionView(self.topic.assignment, self.state, self.topic.min_insync)
        log = LogAtElection(end, self.high_watermark)
        self.leader = Leader(self.id, PARTITION, view, log, self.brokers, self.now_ms, LAG_MS)
        self.leader.appended(end, self.disk.exposed)
        if self.disk.found >= 0:
            self.leader.resign(self.disk.tail_below(self.disk.found))
        self.parked[epoch] = WaitingForAll(epoch)
        world.check.leads(self, epoch)
        world.note("%r leads in epoch %d from %d, high watermark %d", self, epoch, end, log[1])

    def _delete(self) -> None:
        if self.disk.exists:
            self.world.note("%r deletes a log of %d records", self, len(self.disk.log))
            self.disk.delete()
            self.high_watermark = 0
            self.world.check.cut(self)

    def drop_role(self) -> None:
        """Coordinators hear of it later; their requests fail then."""
        self.leader = self.follower = None
        for epoch in self.parked:
            pause = self.world.random.choice((0, 50, 400))
            self.world.network.later(self, pause, self._unload, epoch)

    def _unload(self, epoch: int) -> None:
        for value in self.parked.pop(epoch, WaitingForAll[int](epoch)).all():
            self.world.clients.in_doubt(value, LEAD_LOST)

    # --- the leader

    def produce(self, value: int, acks: int) -> None:
        """A client's record: refused before the append, or answered when it may be."""
        leader, clients = self.leader, self.world.clients
        if leader is None or leader.is_lost:
            clients.refused(value, LEAD_LOST)
            return
        if acks < 0 and not leader.is_enough:
            clients.refused(value, CODES["NOT_ENOUGH_REPLICAS"])
            return
        self.append((leader.epoch, value))
        end = len(self.disk.log)
        if acks < 0:
            self.parked[leader.epoch].add(value, end, self.now_ms + ACKS_TIMEOUT_MS)
        leader.appended(end, self.disk.exposed)
        self.settle()

    def append(self, record: Record) -> None:
        """To the log, as leader or as follower."""
        self.world.check.written(self, len(self.disk.log), record)
        self.disk.append(record)

    def fetch(self, source: Process, follower: Follower, ask: Ask, broker_epoch: int) -> None:
        """A follower's fetch: its answer is sent at once."""
        answer, records, corrupt = self._answer_to(source.id, ask, broker_epoch)
        if records and self.world.flips():
            del records[self.world.random.randrange(len(records)) :]
            corrupt = True
        self.settle()
        if not answer.error:
            known = self.leader.high_watermark if self.leader is not None else -1
            answer = answer._replace(high_watermark=known)
        self.world.network.send(self, source, "fetched", follower, ask, answer, records, corrupt)

    def fetched(self, follower: Follower, ask: Ask, answer: Answer, *found: Any) -> None:
        follower.fetched(ask, answer, *found)

    def _answer_to(
        self, broker: int, ask: Ask, broker_epoch: int
    ) -> tuple[Answer, list[Record], bool]:
        leader = self.leader
        if leader is None or leader.is_lost or leader.epoch != ask.leader_epoch:
            newer = ask.leader_epoch > max(self.role_epoch, self.state.leader_epoch)
            older = leader is not None and leader.epoch > ask.leader_epoch
            name = "FENCED_LEADER_EPOCH" if older else "NOT_LEADER_OR_FOLLOWER"
            return Answer(CODES["UNKNOWN_LEADER_EPOCH" if newer else name]), [], False
        told = FollowerFetch(broker, broker_epoch, ask.offset, ask.last_epoch, ask.log_start)
        try:
            parted = leader.fetched(told, self.disk.epochs, self.now_ms)
        except KafkaError as refused:
            return Answer(refused.code), [], False
        if parted is not None:
            return Answer(parted=parted), [], False
        if ask.corrupt:
            pause = self.world.random.choice((1, 40, 400))
            self.world.network.later(self, pause, self._named, leader, broker, ask.offset)
        records, corrupt = self.disk.good(ask.offset, RECORDS_A_FETCH)
        first = ask.offset if records or corrupt else None
        return Answer(log_start=0, first_offset=first), records, corrupt

    def _named(self, leader: Leader, broker: int, offset: int) -> None:
        """A follower got a corrupt record there: look at the own disk."""
        if self.leader is not leader or leader.resigns:
            return
        if not self.is_bad(offset):
            self.world.note("%r has a good %d, though %d got a corrupt one", self, offset, broker)
            return
        self.world.note("%r finds %d corrupt", self, offset)
        self.disk.found = offset
        leader.resign(self.disk.tail_below(offset))
        self.settle()

    def is_bad(self, offset: int) -> bool:
        """Whether what the own disk has there is rotten."""
        return offset in self.disk.rotten

    def range_asked(self, source: Process, follower: Follower, ask: Ask) -> None:
        if self.leader is not None and self.leader.epoch == ask.leader_epoch:
            end = len(self.disk.log)
            self.world.network.send(self, source, "range_told", follower, ask, end)

    def range_told(self, follower: Follower, ask: Ask, leader_end: int) -> None:
        follower.range_told(ask, leader_end)

    def settle(self) -> None:
        """Look at what the machines have decided."""
        leader = self.leader
        if leader is None:
            self._expire()
            return
        if leader.high_watermark != self.high_watermark:
            self.moved(leader.epoch, leader.high_watermark)
        if not leader.is_enough:
            for value in self.parked[leader.epoch].all():
                self.world.clients.in_doubt(value, TOO_FEW)
        self._expire()
        change = leader.wish()
        if change is not None:
            self.world.note("%r wishes %s: %s", self, change.state.isr, change.why)
            self.world.write(
                self, Author(self.id), change, lambda told: self._isr_told(leader, told)
            )
            pause = 600 + self.world.random.randrange(1_000)
            self.world.network.later(self, pause, self.world.tell)

    def moved(self, epoch: int, high_watermark: int) -> None:
        """Whoever waits on this partition hears of the high watermark, with the epoch it is of."""
        self.high_watermark = high_watermark
        self.world.check.moved(self, epoch, high_watermark)
        for parked in self.parked.values():
            for value in parked.committed(epoch, high_watermark):
                self.world.note("%r answers %d to record %d", self, NONE, value)
                self.world.clients.acknowledged(value, self.world.check.answered(self, value))

    def _expire(self) -> None:
        for parked in self.parked.values():
            for value in parked.expired(self.now_ms):
                self.world.clients.in_doubt(value, TIME_IS_UP)

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
        self.world.network.read(self, lambda seen: self._read_again(leader, seen))

    def _read_again(self, leader: Leader, seen: Snapshot | None) -> None:
        if self.leader is not leader:
            return
        if seen is None:
            self.world.network.later(self, 300, self.read_again, leader)
        else:
            self._node_read(leader, seen.state)

    def _node_read(self, leader: Leader, state: PartitionState) -> None:
        leader.answered(state, self.now_ms)
        if state.version > self.state.version:
            self.state = state
            self._take_role()
        self.settle()

    def is_refused(self, broker: int) -> None:
        """A connection to another broker was refused: report it, as the registration that this one
        knows."""
        nodes, known = self.world.nodes, self.brokers.get(broker)
        if known is not None and broker != self.id and broker in nodes.refusing:
            self.world.note("%r reports broker %d", self, broker)
            self.world.network.call(self, lambda: nodes.report(broker, known.epoch), lambda _: None)

    # --- the controller

    def elected(self, epoch: int | None) -> None:
        """This session has won the election, or an answer to that was lost."""
        if epoch is None or epoch < 0 or (self.term is not None and self.term.epoch == epoch):
            return
        self.world.note("%r is the controller in epoch %d", self, epoch)
        self.term = Term(self, epoch)
        self.term.wake()

    def tail_asked(self, source: Process, asked: int, epoch: int) -> None:
        """Only when this broker follows that epoch does its log stand still."""
        if self.registered and self.state.leader_epoch >= epoch and self.disk.exists:
            tail = self.disk.tail
            self.world.network.send(self, source, "tail_told", asked, self.id, tail)

    def tail_told(self, *told: object) -> None:
        if self.term is not None:
            self.term.tail_told(*told)  # type: ignore[arg-type]

    # --- time

    def tick(self) -> None:
        """Every few hundred ms: lag, sessions, flushes, checkpoints."""
        if self.registered and self.now_ms - self.session_ms > self.world.session_patience_ms:
            self.world.note("%r takes its session for dead", self)
            self.session = self.world.nodes.open()
            self.start()
        if self.world.random.random() < 0.2 or self.disk.flushes_first:
            self.disk.flush()
        if self.leader is not None:
            self.leader.appended(len(self.disk.log), self.disk.exposed)
            self.leader.tick(self.now_ms)
        self.settle()
        if self.follower is not None:
            self.follower.poll()
        self.disk.high_watermark = min(self.high_watermark, len(self.disk.log))
