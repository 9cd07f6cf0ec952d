"""The start of a broker, in every order of commands, faults and other processes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from partition_nodes import state_of
from starts import Disk, epoch_of, info, register, replicated
from stepped_zookeeper import Fault, SteppedZooKeeper
from turns import Turns

from tallymark.coordination import (
    BrokerRegistry,
    SessionLostError,
    TopicWriter,
    ZooKeeper,
    paths,
)
from tallymark.coordination.cluster.broker_node import BrokerNode
from tallymark.coordination.replicas.facts import read_facts, steps_of
from tallymark.coordination.replicas.writing import ReplicaWriter
from tallymark.coordination.topics.registry import encode_state
from tallymark.errors import ClosedError, ConnectError, TallymarkError, UserError
from tallymark.replication.model import NO_LEADER, ChangeState


@pytest.mark.parametrize("seed", range(40))
def test_of_two_processes_under_one_id_one_registers(seed: int) -> None:
    """Both look, see that the id is free, and go on in any order of their commands."""
    server, turns, admin = side_by_side(seed)
    sessions = {name: server.session(name) for name in ("a", "b")}
    nodes: dict[str, BrokerNode] = {}

    def start(name: str, port: int) -> None:
        nodes[name] = register(sessions[name], info(2, port, name), Disk())

    raised = turns.run({"a": lambda: start("a", 9092), "b": lambda: start("b", 9093)})
    winners = [name for name, error in raised.items() if error is None]
    assert len(winners) == 1, raised
    assert all(isinstance(error, UserError | None) for error in raised.values()), raised
    told = BrokerRegistry(admin).brokers()[2]
    assert told.run == winners[0]
    assert told.epoch == nodes[winners[0]].epoch == epoch_of(admin, 2)


@pytest.mark.parametrize("seed", range(40))
def test_a_second_process_comes_while_the_first_has_lost_its_session(seed: int) -> None:
    """The first registers again in a new session. One of the two has the id afterwards, and what
    it registered is in force; the other one is refused or fails."""
    server, turns, admin = side_by_side(seed)
    mine, theirs = server.session("a"), server.session("b")
    failed: list[TallymarkError] = []
    first = register(mine, info(2, 9092, "a"), Disk(), failed)
    second: list[BrokerNode] = []

    def again() -> None:
        server.end_session("a")
        server.run()

    def start() -> None:
        second.append(register(theirs, info(2, 9093, "b"), Disk()))

    raised = turns.run({"a": again, "b": start})
    assert raised["a"] is None
    told = BrokerRegistry(admin).brokers()[2]
    assert told.epoch == epoch_of(admin, 2)
    if second:
        assert (told.run, second[0].epoch, first.is_registered) == ("b", told.epoch, False)
        assert len(failed) == 1
        assert isinstance(failed[0], TallymarkError)
    else:
        assert isinstance(raised["b"], UserError)
        assert (told.run, first.epoch, first.is_registered) == ("a", told.epoch, True)
        assert not failed


@pytest.mark.parametrize("seed", range(80))
def test_what_an_earlier_process_sent_changes_nothing_later(seed: int) -> None:
    """It was killed in the middle of its start, with commands on their way. The next process of the
    same data starts at once; its registration stands, whatever arrives then."""
    chances, server = Random(seed), SteppedZooKeeper()
    admin, old, new = (server.session(name) for name in ("admin", "old", "new"))
    replicated(admin)
    disk, left = Disk(intact=False), chances.randint(1, 25)

    def script(name: str) -> Fault:
        nonlocal left
        left -= name != "admin"
        if name == "old":
            if left < 0:
                raise KeyboardInterrupt
            return chances.choice([Fault.NONE, Fault.NONE, Fault.NONE, Fault.LATE])
        if name == "new":
            check(admin, disk)
            if chances.random() < 0.2:
                server.arrive()
            if chances.random() < 0.05 or left < -80:
                server.ensemble.close(old_session)
        return Fault.NONE

    old_session = old.session
    server.script = script
    for _ in range(10):
        try:
            register(old, info(1), disk)
            break
        except (ConnectError, SessionLostError):
            continue
        except KeyboardInterrupt:
            break
    left = 0
    node = register(new, info(1), disk)
    before = admin.read(paths.broker(1)), state_of(admin)
    server.arrive()
    server.ensemble.close(old_session)
    assert (admin.read(paths.broker(1)), state_of(admin)) == before
    assert BrokerRegistry(admin).brokers()[1].epoch == node.epoch == epoch_of(admin, 1)
    assert before[0].session == new.session
    check(admin, disk)


@pytest.mark.parametrize("command", range(1, 25))
def test_a_process_with_a_wrong_id_reports_no_incomplete_log_of_another(command: int) -> None:
    """It looked while the id was free, and one of its commands came when the broker that has the id
    was registered: that broker left an ISR with the tail of a log that is not its own."""
    server = SteppedZooKeeper()
    admin, wrong, right = (server.session(name) for name in ("admin", "wrong", "right"))
    replicated(admin)
    left = command

    def script(name: str) -> Fault:
        nonlocal left
        left -= name == "wrong"
        if name == "wrong" and left < 0:
            raise KeyboardInterrupt
        return Fault.LATE if name == "wrong" and left == 0 else Fault.NONE

    server.script = script
    with contextlib.suppress(ConnectError, KeyboardInterrupt):
        register(wrong, info(2, 9093, "wrong"), Disk(intact=False))
    given_up = state_of(admin)
    if admin.exists(paths.broker(2)):
        return  # it had the id
    node = register(right, info(2, 9092, "right"), Disk())
    server.arrive()
    assert state_of(admin) == given_up
    assert BrokerRegistry(admin).brokers()[2].epoch == node.epoch == epoch_of(admin, 2)


@pytest.mark.parametrize("moment", range(25))
def test_a_wish_from_before_takes_no_empty_disk_into_the_isr(moment: int) -> None:
    """KAFKA-14190: a leader saw broker 1 in sync, and its transaction came when the broker was
    starting again, with less. At each moment of the start: either the transaction fails, or the
    broker finds itself in the ISR and leaves."""
    server = SteppedZooKeeper()
    admin, leader, mine = (server.session(name) for name in ("admin", "leader", "broker"))
    replicated(admin)
    disk, left = Disk(intact=False), moment
    register(mine, info(1), disk).release()
    state, told = state_of(admin), epoch_of(admin, 1)
    wider = replace(state, isr=(1, *state.isr), incomplete={})

    def script(name: str) -> Fault:
        nonlocal left
        if name == "leader":
            return Fault.LATE
        left -= name == "broker"
        if left < 0:
            server.arrive()
        return Fault.NONE

    guard = TopicWriter(admin).guard()
    change = ChangeState(("t", 0), state.version, wider, "in sync", {1: told})
    steps = [guard, *steps_of([change], read_facts(admin, [change]))]
    server.script = script
    with contextlib.suppress(ConnectError):
        leader.commit(steps)
    register(mine, info(1), disk)
    server.arrive()
    assert not server.late
    assert 1 not in state_of(admin).isr
    assert state_of(admin).incomplete


@pytest.mark.parametrize("seed", range(80))
def test_a_start_survives_every_fault_in_its_order(seed: int) -> None:
    """Commands and answers are lost, come late, sessions end: as long as the broker is not
    registered it has no vote for a doubtful log, and when all is calm it is registered, with the
    epoch in force. A controller elects it, a leader takes it into the ISR: both may be late."""
    chances, server = Random(seed), SteppedZooKeeper()
    admin, leader, mine = (server.session(name) for name in ("admin", "leader", "broker"))
    replicated(admin)
    disk, failed = Disk(intact=bool(seed % 2)), list[TallymarkError]()
    faults = chances.randint(1, 8)

    def script(name: str) -> Fault:
        nonlocal faults
        if name == "admin":
            return Fault.NONE
        if name == "leader":
            return chances.choice([Fault.NONE, Fault.NONE, Fault.LATE])
        check(admin, disk)
        if chances.random() < 0.1:
            server.arrive()
        if not faults or chances.random() < 0.5:
            return Fault.NONE
        faults -= 1
        return chances.choice(list(Fault))

    server.script = script
    node = patiently(lambda: register(mine, info(1), disk, failed))
    for _ in range(20):  # later sessions
        if chances.random() < 0.3:
            faults += 1
        elect(admin, chances)
        take_in(admin, leader)
        server.run(chances.randrange)
        if chances.random() < 0.5:
            server.arrive()
        check(admin, disk)
        if chances.random() < 0.7:
            server.end_session("broker")
    server.script = lambda name: Fault.NONE
    server.arrive()
    server.end_session("broker")
    server.run(chances.randrange)
    assert not failed
    assert node.is_registered
    told = BrokerRegistry(admin).brokers()[1]
    assert told.epoch == node.epoch == epoch_of(admin, 1)
    check(admin, disk)
    assert state_of(admin).leader != 1


def side_by_side(seed: int) -> tuple[SteppedZooKeeper, Turns, ZooKeeper]:
    """Servers on which sessions take turns in the threads of their names, and an admin."""
    server, turns = SteppedZooKeeper(), Turns(Random(seed))
    admin = server.session("admin")
    replicated(admin)

    def script(name: str) -> Fault:
        turns.wait(name)
        return Fault.NONE

    server.script = script
    return server, turns, admin


def patiently(start: Callable[[], BrokerNode]) -> BrokerNode:
    """Again after each fault, as the one who starts a broker does."""
    for _ in range(50):
        try:
            return start()
        except (ConnectError, SessionLostError, ClosedError):
            continue
    raise AssertionError("there are fewer faults than attempts")


def elect(admin: ZooKeeper, chances: Random) -> None:
    """A controller makes broker 1 the leader, as it may when it is registered."""
    state = state_of(admin)
    if chances.random() < 0.5 and 1 in state.isr and admin.exists(paths.broker(1)):
        led = replace(state, leader=1, leader_epoch=state.leader_epoch + 1)
        admin.write(paths.partition_state("t", 0), encode_state(led), state.version)


def take_in(admin: ZooKeeper, leader: ZooKeeper) -> None:
    """A leader has seen broker 1 in sync, and takes it into the ISR. The state says in which epoch
    that was."""
    guard, state = TopicWriter(admin).guard(), state_of(admin)
    told = BrokerRegistry(admin).brokers().get(1)
    if told is not None and 1 not in state.isr and state.leader in (2, 3, NO_LEADER):
        wider = replace(state, isr=(1, *state.isr), incomplete={}, others={"seen": told.epoch})
        change = ChangeState(("t", 0), state.version, wider, "in sync", {1: told.epoch})
        ReplicaWriter(leader).write([change], [guard], 0)


def check(admin: ZooKeeper, disk: Disk) -> None:
    """What others may count on when they see the broker: it has a vote for a doubtful log only if
    it was seen in sync since it registered."""
    node = admin.find(paths.broker(1))
    if node is None or disk.intact:
        return
    state = state_of(admin)
    told = BrokerRegistry(admin).brokers()[1]
    assert 1 not in state.isr or state.others.get("seen") == told.epoch, (state, told)
