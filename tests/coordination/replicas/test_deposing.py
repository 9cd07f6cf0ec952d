"""A controller whose process is gone, before its session ends."""

from __future__ import annotations

import pytest
from starts import Disk, info, register

from tallymark.coordination import BrokerInfo, ControllerElection, ZooKeeper, paths
from tallymark.coordination.cluster.broker_notes import BrokerNotes
from tallymark.coordination.cluster.deposing import Deposing

CONTROLLER = 1


class Brokers:
    """Brokers 1 to ``count``; the first one's session has the office, the others share one."""

    def __init__(self, zookeeper: ZooKeeper, other: ZooKeeper, count: int = 3) -> None:
        self.zookeeper = zookeeper
        self.epoch = register(other, info(1, 9091), Disk()).epoch
        for one in range(2, count + 1):
            register(zookeeper, info(one, 9090 + one), Disk())
        self.elections = {
            one: ControllerElection(other if one == CONTROLLER else zookeeper, one, lambda: 0)
            for one in range(1, count + 1)
        }
        self.elections[CONTROLLER].elect()
        self.notes = BrokerNotes(zookeeper)
        self.tried: list[int] = []
        self.refuses = {CONTROLLER}

    def is_refused(self, broker: BrokerInfo) -> bool:
        self.tried.append(broker.id)
        return broker.id in self.refuses

    def look(self, broker: int) -> bool:
        return Deposing(self.zookeeper, self.elections[broker], self.is_refused).look()

    def controller(self) -> int:
        found = self.elections[2].current()
        return -1 if found is None else found.broker_id


def test_two_brokers_that_are_refused_end_the_term(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    brokers = Brokers(zookeeper, other)
    assert not brokers.look(2)
    assert brokers.tried == []
    brokers.notes.suspect(CONTROLLER, brokers.epoch, 2)
    assert brokers.look(2)
    assert brokers.controller() == CONTROLLER, "one broker alone is not enough"
    assert brokers.look(3)
    assert brokers.controller() == -1
    assert brokers.elections[2].elect().epoch == 2


def test_the_only_other_broker_decides_alone(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    brokers = Brokers(zookeeper, other, count=2)
    brokers.notes.suspect(CONTROLLER, brokers.epoch, 2)
    brokers.look(2)
    assert brokers.controller() == -1


def test_who_is_not_refused_says_nothing_and_ends_nothing(
    zookeeper: ZooKeeper, other: ZooKeeper
) -> None:
    brokers = Brokers(zookeeper, other)
    brokers.notes.suspect(CONTROLLER, brokers.epoch, 2)
    brokers.refuses.clear()
    assert brokers.look(3)
    assert brokers.notes.reporters(CONTROLLER, brokers.epoch) == {2}
    assert brokers.controller() == CONTROLLER


@pytest.mark.parametrize("older", [1, -100])
def test_a_report_of_another_process_is_none_of_the_controller(
    zookeeper: ZooKeeper, other: ZooKeeper, older: int
) -> None:
    brokers = Brokers(zookeeper, other)
    for reporter in (2, 3):
        brokers.notes.suspect(CONTROLLER, brokers.epoch - older, reporter)
    assert not brokers.look(2)
    assert brokers.tried == []
    assert brokers.controller() == CONTROLLER


def test_reporters_that_are_not_registered_do_not_count(
    zookeeper: ZooKeeper, other: ZooKeeper
) -> None:
    """Whoever may write below the folder could end every term."""
    brokers = Brokers(zookeeper, other)
    for reporter in (7, 8, CONTROLLER):
        brokers.notes.suspect(CONTROLLER, brokers.epoch, reporter)
    assert brokers.look(2)
    assert brokers.controller() == CONTROLLER


def test_a_broker_that_is_not_the_controller_is_left_to_it(
    zookeeper: ZooKeeper, other: ZooKeeper
) -> None:
    brokers = Brokers(zookeeper, other)
    brokers.notes.suspect(3, 2, 2)
    assert not brokers.look(2)
    assert brokers.tried == []


def test_a_newer_controller_stays(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    """Broker 3 looked, and stood still before it removed the node; meanwhile another one did, and
    was elected."""
    brokers = Brokers(zookeeper, other)
    brokers.notes.suspect(CONTROLLER, brokers.epoch, 2)

    def slow(broker: BrokerInfo) -> bool:
        zookeeper.delete(paths.CONTROLLER)
        brokers.elections[2].elect()
        return True

    Deposing(zookeeper, brokers.elections[3], slow).look()
    assert brokers.controller() == 2


def test_a_flood_of_reports_is_read_in_part(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    brokers = Brokers(zookeeper, other)
    for reporter in range(1_000, 1_150):
        brokers.notes.suspect(2, 2, reporter)
    assert brokers.notes.suspects() == {2: 2}
    brokers.notes.clear(2)
    assert len(zookeeper.children(paths.SUSPECTS)) == 50
    brokers.notes.clear(2)
    assert brokers.notes.suspects() == {}
