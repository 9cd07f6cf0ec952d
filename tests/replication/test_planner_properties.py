"""Whatever happens, in whatever order the controller's changes arrive: the nodes stay sound.

Brokers here have logs that are only lengths, and the leader knows how far each follower
acknowledged in its epoch. That is enough to tell whether a clean election loses a committed record.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from pictures import HERE

from tallymark.errors import KafkaError
from tallymark.replication import changes, in_sync, reassignment
from tallymark.replication.balance import preferred_leaders
from tallymark.replication.model import (
    NO_LEADER,
    Assignment,
    BrokerView,
    Change,
    PartitionState,
    PartitionView,
    Picture,
    Tail,
    least_isr,
)
from tallymark.replication.planner import plan
from tallymark.replication.registration import LocalLog, given_up

IDS = (1, 2, 3, 4)
BROKERS = st.sampled_from(IDS)
TARGETS = st.lists(BROKERS, min_size=1, max_size=3, unique=True)


class Cluster(RuleBasedStateMachine):
    """One partition, four brokers, one controller whose changes may come late and twice."""

    @initialize(replicas=TARGETS, least=st.integers(1, 3), unclean=st.booleans())
    def begin(self, replicas: list[int], least: int, unclean: bool) -> None:
        assigned = Assignment(tuple(replicas))
        state = PartitionState(replicas[0], 0, assigned.replicas, version=0)
        view = PartitionView(assigned, state, least, unclean)
        brokers = {one: BrokerView(one, 0) for one in IDS}
        self.picture = Picture(brokers, {HERE: view}, 1)
        self.logs = dict.fromkeys(IDS, 0)
        self.intact = dict.fromkeys(IDS, True)
        self.acknowledged: dict[int, int] = {}
        self.committed = 0
        self.pending: list[Change] = []

    @property
    def view(self) -> PartitionView:
        return self.picture.partitions[HERE]

    def put(self, view: PartitionView) -> None:
        if view.state.leader_epoch != self.view.state.leader_epoch:
            self.acknowledged = {}  # what one leader knows is nothing to the next (KAFKA-20634)
        self.picture = replace(self.picture, partitions={HERE: view})

    def written(self, state: PartitionState) -> None:
        self.put(replace(self.view, state=replace(state, version=state.version + 1)))

    def leader(self) -> int | None:
        leader = self.view.state.leader
        return leader if leader in self.picture.brokers else None

    # -- the log --

    @rule(followers=st.frozensets(BROKERS))
    def append(self, followers: frozenset[int]) -> None:
        """A record, and those that fetch it."""
        leader = self.leader()
        if leader is None:
            return
        self.logs[leader] += 1
        for one in {leader, *followers} & {*self.view.assignment.replicas}:
            if one in self.picture.brokers:
                self.logs[one] = self.acknowledged[one] = self.logs[leader]
        ends = [self.acknowledged.get(one, -1) for one in self.view.state.isr]
        self.committed = max(self.committed, min(ends))

    @rule(broker=BROKERS)
    def join(self, broker: int) -> None:
        state, leader = self.view.state, self.leader()
        ends = [self.acknowledged.get(broker), self.logs.get(leader or 0)]
        if leader is None or ends[0] != ends[1] or broker in state.isr:
            return
        if self.picture.is_up(broker) and broker in self.view.assignment.replicas:
            others = {one: tail for one, tail in state.incomplete.items() if one != broker}
            self.written(replace(state, isr=(*state.isr, broker), incomplete=others))

    @rule(broker=BROKERS)
    def lag(self, broker: int) -> None:
        state = self.view.state
        if self.leader() is None or broker not in state.isr or broker == state.leader:
            return
        if len(state.isr) > self.view.least_isr:
            left = tuple(one for one in state.isr if one != broker)
            self.written(replace(state, isr=left))

    # -- brokers --

    @rule(broker=BROKERS, lost=st.integers(0, 3))
    def die(self, broker: int, lost: int) -> None:
        if broker in self.picture.brokers:
            left = {one: at for one, at in self.picture.brokers.items() if one != broker}
            self.picture = replace(self.picture, brokers=left)
            self.logs[broker] = max(0, self.logs[broker] - lost)
            self.intact[broker] = not lost

    @rule(broker=BROKERS)
    def come_back(self, broker: int) -> None:
        if broker in self.picture.brokers:
            return
        log = LocalLog(Tail(0, self.logs[broker]), self.intact[broker])
        for change in given_up(broker, self.picture.partitions, {HERE: log}):
            self.put(changes.after(change, self.view))
        self.acknowledged.pop(broker, None)
        back = {**self.picture.brokers, broker: BrokerView(broker, 0)}
        self.picture = replace(self.picture, brokers=back)
        if self.view.assignment.replicas == (broker,):  # it leads without an election
            self.committed = min(self.committed, self.logs[broker])
        self.intact[broker] = True

    @rule(broker=BROKERS, leaving=st.booleans())
    def leave(self, broker: int, leaving: bool) -> None:
        if broker in self.picture.brokers:
            stopping = replace(self.picture.brokers[broker], leaving=leaving)
            self.picture = replace(self.picture, brokers={**self.picture.brokers, broker: stopping})

    @rule(suspects=st.frozensets(BROKERS, max_size=2))
    def suspect(self, suspects: frozenset[int]) -> None:
        self.picture = replace(self.picture, suspects=suspects)

    # -- the controller --

    def tails(self) -> dict[int, Tail]:
        return {one: Tail(0, self.logs[one]) for one in self.picture.brokers}

    @rule(asked=st.booleans(), at_once=st.booleans())
    def decide(self, asked: bool, at_once: bool) -> None:
        tails = {HERE: self.tails()} if asked else None
        todo = [*plan(self.picture, tails=tails).changes, *preferred_leaders(self.picture)]
        self.pending += todo
        for change in todo if at_once else []:
            self.apply(change)

    @rule(wanted=st.none() | TARGETS)
    def reassign(self, wanted: list[int] | None) -> None:
        try:
            change = (
                reassignment.start(self.picture, HERE, wanted)
                if wanted
                else reassignment.cancel(self.picture, HERE)
            )
        except KafkaError:
            return
        if change is not None:
            self.pending.append(change)
            self.apply(change)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        """Any change that was ever decided, also one that has arrived before."""
        self.apply(data.draw(st.sampled_from(self.pending)))

    def apply(self, change: Change) -> None:
        before = self.view
        after = changes.after(change, before)
        if after is not before:
            self.check(before, after)
            self.put(after)

    def check(self, before: PartitionView, after: PartitionView) -> None:
        old, new = before.state, after.state
        if new == old:
            return
        assert new.leader_epoch - old.leader_epoch in (0, 1)
        assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
        elected = new.leader != NO_LEADER and new.leader_epoch > old.leader_epoch
        if elected and new.leader not in in_sync.voters(before):
            assert not in_sync.voters(before) or before.unclean_allowed
            assert new.unclean
            self.committed = min(self.committed, self.logs[new.leader])
            return
        assert set(new.isr) <= set(old.isr), "a controller never adds a member"
        assert len(new.isr) >= min(len(old.isr), least_isr(after.min_insync, _size(after)))
        # One that died meanwhile gives up the lead at its start, and says what it has lost.
        if elected and new.leader in self.picture.brokers:
            assert self.logs[new.leader] >= self.committed, "a clean election lost a record"

    @rule()
    def settle(self) -> None:
        """Rounds of the controller come to an end, and then there is a leader if there can be."""
        for _ in range(8):
            todo = plan(self.picture, tails={HERE: self.tails()}).changes
            if not todo:
                break
            for change in todo:
                self.apply(change)
        else:
            raise AssertionError("the plan never ends")
        if in_sync.candidates(self.view, self.picture):
            assert self.leader() is not None

    # -- always --

    @invariant()
    def the_node_is_sound(self) -> None:
        view = self.view
        assert view.state.leader == NO_LEADER or view.state.leader in view.state.isr
        assert len(set(view.state.isr)) == len(view.state.isr)
        assert set(view.state.isr) <= set(view.assignment.replicas)
        assert not set(view.state.isr) & set(view.state.incomplete)

    @invariant()
    def every_isr_member_has_the_committed(self) -> None:
        for member in self.view.state.isr:
            if member in self.picture.brokers:
                assert self.logs[member] >= self.committed, member


def _size(view: PartitionView) -> int:
    return len(view.assignment.replicas)


Cluster.TestCase.settings = settings(max_examples=250, stateful_step_count=40)
TestCluster = pytest.mark.slow(Cluster.TestCase)
