"""Each invariant of the simulation can fail: one forged history for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest
from operations import Ended, Operation, Poll, Send
from simulated_broker import Process
from simulated_clients import KEY
from simulated_disk import Record
from simulated_invariants import Broken
from simulated_nodes import PARTITION, Author, Write
from simulated_plan import Event, Plan, plan_of
from simulated_world import World, run

from tallymark.replication.acks import WaitingForAll
from tallymark.replication.model import (
    NO_LEADER,
    Assignment,
    ChangeState,
    PartitionState,
    PartitionView,
)

PLAN: Final = Plan(0, (1, 2, 3, 4), (1, 2, 3), 2, False, False, False, ())
LOG: Final[list[Record]] = [(0, 1), (0, 2)]
CONTROLLER: Final = Author(2, controller_epoch=1)


def led() -> tuple[World, list[Process]]:
    """Brokers 1 to 3 with two records each, both committed in epoch 0, led by broker 1."""
    world = World(PLAN)
    world.nodes.controller_epoch = 1
    processes = [Process(world, one, world.disks[one], one) for one in (1, 2, 3)]
    for process in processes:
        world.processes[process.id] = process
        for offset, record in enumerate(LOG):
            world.check.written(process, offset, record)
            process.disk.append(record)
    world.check.leads(processes[0], 0)
    world.check.moved(processes[0], 0, 2)
    return world, processes


def written(world: World, author: Author, state: PartitionState, **joining: int) -> None:
    """A write as it comes to the checks."""
    before = world.nodes.view
    change = ChangeState(PARTITION, before.state.version, state, "forged")
    change = replace(change, joining={int(one[1:]): epoch for one, epoch in joining.items()})
    world.nodes.state = replace(state, version=before.state.version + 1)
    world.check.wrote(Write(author, change, before, world.nodes.view))


def breaks(name: str, act: Callable[..., object], *arguments: object, **named: int) -> None:
    with pytest.raises(Broken) as broken:
        act(*arguments, **named)
    assert broken.value.name == name


def test_what_is_sound_breaks_nothing() -> None:
    world, (one, two, _) = led()
    state = world.nodes.state
    written(world, Author(1), replace(state, isr=(1, 2)))
    written(world, CONTROLLER, replace(state, leader=2, leader_epoch=1, isr=(1, 2)))
    world.check.leads(two, 1)
    world.check.moved(two, 1, 2)
    world.check.moved(one, 1, 1)
    world.check.cut(one)


def test_committed_prefix_never_changes() -> None:
    world, (_, two, _) = led()
    two.disk.log[1] = (1, 9)
    breaks("committed_prefix_never_changes", world.check.moved, two, 1, 2)


def test_a_replica_exposes_no_more_than_it_has() -> None:
    world, (_, two, _) = led()
    breaks("committed_prefix_never_changes", world.check.moved, two, 1, 3)


def test_one_leader_an_epoch() -> None:
    world, (_, two, _) = led()
    breaks("one_leader_an_epoch", world.check.leads, two, 0)
    state = world.nodes.state
    breaks("one_leader_an_epoch", written, world, CONTROLLER, replace(state, leader=2))


def test_an_epoch_never_falls() -> None:
    world, _ = led()
    written(world, CONTROLLER, replace(world.nodes.state, leader=2, leader_epoch=5))
    lower = replace(world.nodes.state, leader_epoch=4)
    breaks("one_leader_an_epoch", written, world, CONTROLLER, lower)


def test_same_offset_and_epoch_same_bytes() -> None:
    world, (_, two, three) = led()
    world.check.written(two, 2, (1, 7))
    breaks("same_offset_and_epoch_same_bytes", world.check.written, three, 2, (1, 8))


def test_same_offset_and_epoch_same_epoch_before_it() -> None:
    world, (_, two, three) = led()
    world.check.written(two, 2, (3, 7))
    three.disk.log[1] = (1, 2)
    breaks("same_offset_and_epoch_same_bytes", world.check.written, three, 2, (3, 7))


def test_every_isr_member_has_the_committed() -> None:
    world, (one, _, _) = led()
    one.disk.append((0, 3))
    breaks("every_isr_member_has_the_committed", world.check.moved, one, 0, 3)


def test_a_member_of_the_isr_cuts_nothing_that_is_committed() -> None:
    world, (_, two, _) = led()
    two.disk.cut(1)
    breaks("every_isr_member_has_the_committed", world.check.cut, two)


def test_a_broker_that_joins_has_the_committed() -> None:
    world, (_, _, three) = led()
    written(world, Author(1), replace(world.nodes.state, isr=(1, 2)))
    three.disk.cut(0)
    grown = replace(world.nodes.state, isr=(1, 2, 3))
    breaks("every_isr_member_has_the_committed", written, world, Author(1), grown)


def test_acknowledged_is_kept_by_the_leader_of_a_clean_election() -> None:
    world, (_, two, _) = led()
    two.disk.log.pop()
    world.nodes.state = replace(world.nodes.state, leader=2, leader_epoch=1)
    breaks("acknowledged_is_kept", world.check.leads, two, 1)


def test_acknowledged_is_kept_as_long_as_too_few_have_lost_their_tails() -> None:
    world, _ = led()
    world.check.loses(1)
    world.nodes.state = replace(world.nodes.state, leader=NO_LEADER, isr=(1, 2), leader_epoch=1)
    unclean = replace(world.nodes.state, leader=3, isr=(3,), leader_epoch=2, unclean=True)
    breaks("acknowledged_is_kept", written, world, CONTROLLER, unclean)


def test_an_unclean_election_is_told() -> None:
    world, _ = led()
    world.nodes.topic = world.nodes.topic._replace(unclean_allowed=True)
    world.nodes.state = replace(world.nodes.state, leader=NO_LEADER, isr=(1,), leader_epoch=1)
    unclean = replace(world.nodes.state, leader=3, isr=(3,), leader_epoch=2)
    breaks("acknowledged_is_kept", written, world, CONTROLLER, unclean)


def test_acknowledged_is_kept_to_the_end() -> None:
    world = run(plan_of(1))
    assert world.check.acknowledged
    for disk in world.disks.values():
        disk.log[:] = [(epoch, -value) for epoch, value in disk.log]
    breaks("acknowledged_is_kept", world.check.whole)


def test_high_watermark_never_falls_in_an_epoch() -> None:
    world, (one, _, _) = led()
    breaks("high_watermark_never_falls_in_an_epoch", world.check.moved, one, 0, 1)


@pytest.mark.parametrize(
    ("author", "isr"), [(Author(1), (1,)), (CONTROLLER, (1,)), (Author(1), (1, 2, 4))]
)
def test_isr_within_replicas_and_not_below_min(author: Author, isr: tuple[int, ...]) -> None:
    world, _ = led()
    small = replace(world.nodes.state, isr=isr)
    breaks("isr_within_replicas_and_not_below_min", written, world, author, small)


def test_an_isr_names_no_broker_twice() -> None:
    world, _ = led()
    twice = replace(world.nodes.state, isr=(1, 2, 2))
    breaks("isr_within_replicas_and_not_below_min", written, world, Author(1), twice)


@pytest.mark.parametrize(
    ("author", "joining"),
    [
        (Author(2, controller_epoch=0), {}),
        (Author(2), {}),
        (Author(2, broker_epoch=3), {}),
        (Author(2, broker_epoch=4), {}),
        (Author(1), {"b3": 1}),
    ],
    ids=["deposed controller", "no leader", "earlier start", "takes others out", "joins as before"],
)
def test_fenced_writes_nothing(author: Author, joining: dict[str, int]) -> None:
    world, _ = led()
    world.nodes.epochs = {1: 2, 2: 4, 3: 2}
    changed = replace(world.nodes.state, isr=(1, 2))
    breaks("fenced_writes_nothing", written, world, author, changed, **joining)


def test_no_answer_before_commit() -> None:
    world, (one, _, _) = led()
    one.leader = None
    world.check._offsets[3] = [(2, 0)]
    breaks("no_answer_before_commit", world.check.answered, one, 3)


def test_an_answer_is_of_the_record_that_is_committed() -> None:
    world, (one, _, _) = led()
    world.check._offsets[3] = [(1, 0)]
    breaks("no_answer_before_commit", world.check.answered, one, 3)


def _moving(world: World) -> None:
    world.nodes.topic = world.nodes.topic._replace(assignment=Assignment((1, 2, 3), (3,)))


def _not_in_sync(world: World) -> None:
    world.nodes.state = replace(world.nodes.state, isr=(1, 2))


def _not_led(world: World) -> None:
    world.nodes.state = replace(world.nodes.state, leader=NO_LEADER)


def _not_equal(world: World) -> None:
    world.disks[world.nodes.state.isr[-1]].log.append((99, 99))


def _stray(world: World) -> None:
    world.disks[4].exists = True


def _parked(world: World) -> None:
    process = world.processes[1]
    assert process is not None
    process.parked[99] = waiting = WaitingForAll[int](99)
    waiting.add(1, 2, 3)


@pytest.mark.parametrize(
    ("forged", "told"),
    [
        (_moving, "is under way"),
        (_not_in_sync, "the ISR is"),
        (_not_led, "nobody leads"),
        (_not_equal, "logs end at"),
        (_stray, "have logs"),
        (_parked, "requests wait"),
    ],
)
def test_eventually_whole(forged: Callable[[World], None], told: str) -> None:
    world = run(replace(PLAN, events=()))
    assert world.check.whole() == ""
    forged(world)
    assert told in world.check.whole()


def test_what_never_becomes_whole_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulated_world.HEALED_MS", 2_000)
    monkeypatch.setattr(Process, "_lead", lambda process: None)
    breaks("eventually_whole", run, PLAN)


@pytest.mark.parametrize(
    ("name", "forged"),
    [
        ("unseen", Operation("p", Ended.OK, [Send(KEY, "x", None)])),
        ("lost-write", Operation("p", Ended.OK, [Send(KEY, "x", 0)])),
        ("aborted-read", Operation("p", Ended.FAILED, [Send(KEY, "1")])),
        ("duplicate", Operation("p", Ended.OK, [Send(KEY, "1", 99)])),
        ("inconsistent-offsets", Operation("c3", Ended.OK, [Poll(KEY, 1, "x")])),
        ("nonmonotonic-poll", Operation("c1", Ended.OK, [Poll(KEY, 0, "1")])),
    ],
)
def test_histories_of_clients_are_checked(name: str, forged: Operation) -> None:
    """That each of Jepsen's checks can fail is shown with the checks."""
    world = run(replace(plan_of(1), events=tuple(_produces())))
    world.check_history()
    world.clients.operations.append(forged)
    with pytest.raises(Broken) as broken:
        world.check_history()
    assert broken.value.name == name


def _produces() -> list[Event]:
    return [event for event in plan_of(1).events if event.kind == "produce" and event.other == 0]


def test_a_view_is_what_was_read() -> None:
    world, _ = led()
    assert world.nodes.view == PartitionView(Assignment((1, 2, 3)), world.nodes.state, 2, False)
