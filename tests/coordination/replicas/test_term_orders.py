"""Controllers, leaders and brokers side by side, in every order of commands and faults: what they
write into the state nodes keeps the invariants, and all is led when the faults are over."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from partition_nodes import state_of
from starts import Disk, info, register, replicated
from stepped_zookeeper import Fault, SteppedZooKeeper

from tallymark.coordination import Check, ControllerElection, SessionLostError, TopicWriter
from tallymark.coordination.cluster.broker_node import BrokerNode
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.replicas.term import Term
from tallymark.coordination.replicas.writing import ReplicaWriter, Written
from tallymark.errors import ClosedError, ConnectError, TallymarkError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.election import Tails
from tallymark.replication.model import (
    NO_LEADER,
    Change,
    ChangeState,
    PartitionState,
    PartitionView,
    Tail,
)

BROKERS, PARTITIONS, LEAST = (1, 2, 3), 2, 2
_BROKEN = (ConnectError, SessionLostError, ClosedError)


class Broken(AssertionError):
    """An invariant does not hold."""


class World:
    """One run of a seed."""

    def __init__(self, seed: int) -> None:
        self.chances = random.Random(seed)
        self.server = SteppedZooKeeper()
        self.admin = self.server.session("admin")
        replicated(self.admin)
        TopicWriter(self.admin).configure("t", {"min.insync.replicas": str(LEAST)})
        self.sessions = {one: self.server.session(f"broker {one}") for one in BROKERS}
        self.nodes: dict[int, BrokerNode] = {}
        self.disks = {one: Disk(self.chances.random() < 0.7) for one in BROKERS}
        self.rivals = {name: self.server.session(name) for name in ("first", "second")}
        self.terms: list[Term] = []
        self.fences: dict[str, int] = {}
        self.seen = self.states()
        self.leaders: dict[tuple[int, int], int] = {}
        self.epoch = 0
        self.failures: list[TallymarkError] = []
        self.faults = 0.03
        self.server.script = self.script

    def states(self) -> dict[int, PartitionState]:
        return {index: state_of(self.admin, index) for index in range(PARTITIONS)}

    def script(self, name: str) -> Fault:
        if name == "admin":
            return Fault.NONE
        self.look()
        if self.chances.random() < 0.02:
            self.arrive()
        if self.chances.random() >= self.faults:
            return Fault.NONE
        return self.chances.choice(list(Fault))

    def arrive(self) -> None:
        late, self.server.late = self.server.late, []
        for command in late:
            command()
            self.look()

    # -- what must hold after each command ------------------------------------------------------

    def look(self) -> None:
        before, self.seen = self.seen, self.states()
        for index, state in self.seen.items():
            if state.version != before[index].version:
                self.check(index, before[index], state)
        election = ControllerElection(self.admin, 0, lambda: 0).current()
        self.epoch = max(self.epoch, election.epoch if election else 0)

    def check(self, index: int, before: PartitionState, state: PartitionState) -> None:
        held = {
            "an epoch never falls": state.leader_epoch >= before.leader_epoch,
            "another leader has another epoch": state.leader == before.leader
            or state.leader_epoch > before.leader_epoch,
            "isr_within_replicas_and_not_below_min": set(state.isr) <= set(BROKERS)
            and (
                len(state.isr) >= min(LEAST, len(before.isr))
                or state.unclean
                or set(state.incomplete) > set(before.incomplete)
            ),
        }
        if state.leader not in (before.leader, NO_LEADER):
            held["one_leader_an_epoch"] = (index, state.leader_epoch) not in self.leaders
            self.leaders[index, state.leader_epoch] = state.leader
            held["fenced_writes_nothing"] = state.controller_epoch >= self.epoch
            voters = set(before.isr) - set(before.incomplete)
            held["a leader surely has everything, if one has"] = (
                state.leader in voters if voters else state.unclean
            )
        for name, holds in held.items():
            if not holds:
                raise Broken(f"{name}: {index}: {before} became {state}, controller {self.epoch}")

    # -- what happens ---------------------------------------------------------------------------

    def broker(self, one: int) -> None:
        """It starts, ends, loses its session, wants to leave, or is suspected."""
        node, session = self.nodes.get(one), self.sessions[one]
        what = self.chances.random()
        if node is None:
            disk = self.disks[one]
            self.nodes[one] = register(session, info(one, 9090 + one), disk, self.failures)
        elif what < 0.3:
            self.disks[one] = Disk(self.chances.random() < 0.7)
            self.nodes.pop(one).release()
        elif what < 0.5:
            self.server.end_session(f"broker {one}")
        elif what < 0.6:
            BrokerNotes(session).leave(one, node.epoch)
        elif what < 0.7:
            BrokerNotes(session).suspect(self.chances.choice(BROKERS), node.epoch, one)

    def leader(self) -> None:
        """A leader changes the ISR as it may; others learn of it later, or not."""
        index = self.chances.randrange(PARTITIONS)
        state = state_of(self.admin, index)
        node = self.nodes.get(state.leader)
        if node is None:
            return
        joins = [one for one in BROKERS if one not in state.isr and one in self.nodes]
        members = [one for one in state.isr if one != state.leader]
        joining: dict[int, int] = {}
        if joins and self.chances.random() < 0.7:
            isr, joining = (*state.isr, joins[0]), {joins[0]: self.nodes[joins[0]].epoch}
        elif len(state.isr) > LEAST:
            isr = tuple(one for one in state.isr if one != members[0])
        else:
            return
        incomplete = {one: tail for one, tail in state.incomplete.items() if one not in isr}
        wider = replace(state, isr=isr, incomplete=incomplete)
        change = ChangeState(("t", index), state.version, wider, "a leader's wish", joining)
        session = self.sessions[state.leader]
        ReplicaWriter(session).write([change], [TopicWriter(session).guard()], 0)

    def controller(self, name: str) -> None:
        """Stand for election; every term that there ever was goes on, deposed or not."""
        found = ControllerElection(self.rivals[name], len(name), lambda: 0).elect()
        if found.fence is not None and self.fences.get(name) != found.epoch:
            self.fences[name] = found.epoch
            refused = self.chances.random() < 0.5
            self.terms.append(
                Term(self.rivals[name], found, self.tails, lambda _: refused, self.now_ms)
            )
        for term in self.terms:
            with contextlib.suppress(*_BROKEN):
                term.round()

    def now_ms(self) -> int:
        return self.server.now_ms

    def tails(
        self,
        views: Mapping[TopicPartition, PartitionView],
        wanted: Mapping[TopicPartition, tuple[int, ...]],
    ) -> Mapping[TopicPartition, Tails]:
        return {key: {one: Tail(0, one) for one in asked} for key, asked in wanted.items()}

    def happens(self) -> None:
        what = self.chances.random()
        try:
            if what < 0.3:
                self.broker(self.chances.choice(BROKERS))
            elif what < 0.5:
                self.leader()
            elif what < 0.9:
                self.controller(self.chances.choice(["first", "second"]))
            elif what < 0.95:
                self.server.end_session(self.chances.choice(["first", "second"]))
            self.server.run(self.chances.randrange)
        except _BROKEN:
            return
        finally:
            self.look()

    # -- the end --------------------------------------------------------------------------------

    def run(self) -> None:
        for _ in range(60):
            self.happens()
        self.faults = 0.0
        self.arrive()
        for one in BROKERS:
            if one in self.nodes:
                self.server.end_session(f"broker {one}")
                self.server.run()
            else:
                self.nodes[one] = register(
                    self.sessions[one], info(one, 9090 + one), self.disks[one]
                )
        self.server.end_session("second")
        self.server.run()
        self.controller("first")
        self.settle()

    def settle(self) -> None:
        last = self.terms[-1]
        for _ in range(8):
            last.round()
        if self.failures:
            raise Broken(f"a broker has its id: {self.failures}")
        for index, state in self.states().items():
            if state.leader not in self.nodes or state.leader not in state.isr:
                raise Broken(f"eventually_whole: {index}: {state}")


def broken_by(seed: int) -> str | None:
    """What the run of a seed breaks."""
    try:
        World(seed).run()
    except Broken as broken:
        return str(broken)
    return None


def test_whatever_fails_the_states_keep_the_invariants() -> None:
    for seed in range(20):
        assert broken_by(seed) is None, f"seed {seed}"


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 5_000, 500))
def test_whatever_fails_the_states_keep_the_invariants_for_long(first: int) -> None:
    for seed in range(first, first + 500):
        assert broken_by(seed) is None, f"seed {seed}"


def test_runs_do_something() -> None:
    worlds = [World(seed) for seed in range(20, 40)]
    for world in worlds:
        world.run()
    assert sum(len(world.leaders) for world in worlds) > 100
    assert sum(world.epoch for world in worlds) > 40
    assert any(state.unclean for world in worlds for state in world.states().values())


def test_a_fence_that_is_taken_out_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    write = ReplicaWriter.write

    def unfenced(
        writer: ReplicaWriter, changes: Sequence[Change], conditions: Sequence[Check], now_ms: int
    ) -> Written:
        return write(writer, changes, conditions[:1], now_ms)

    monkeypatch.setattr(ReplicaWriter, "write", unfenced)
    assert "fenced_writes_nothing" in {(broken_by(seed) or "").split(":")[0] for seed in range(30)}
