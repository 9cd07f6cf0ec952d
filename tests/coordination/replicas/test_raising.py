"""A level rises only when every registered broker supports it, whoever registers meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from starts import Disk, info, register
from stepped_zookeeper import Fault, SteppedZooKeeper

from tallymark.coordination import BrokerRegistry, ZooKeeper, paths
from tallymark.coordination.cluster.feature_levels import read_features
from tallymark.coordination.cluster.raising import raise_features
from tallymark.coordination.session.errors import MalformedNodeError
from tallymark.errors import ConnectError, KafkaError, UserError
from tallymark.replication.features import REPLICATION, Finalized, Supported, all_raised

WANTED = {REPLICATION: 1}
OLD: Supported = {}
MOST_COMMANDS = 40


def decide(found: Finalized, brokers: Mapping[int, Supported]) -> Finalized:
    return all_raised(found, WANTED, brokers)


def join_old(zookeeper: ZooKeeper) -> None:
    """A broker of an older release, which checks the levels, but knows this one not."""
    BrokerRegistry(zookeeper).register(replace(info(2, 9999, "old"), features=OLD))


def holds(zookeeper: ZooKeeper) -> bool:
    """No broker is registered that does not support what is in force."""
    level = read_features(zookeeper).level(REPLICATION)
    return all(
        level == 0 or REPLICATION in each.features
        for each in BrokerRegistry(zookeeper).brokers().values()
    )


def test_a_level_rises_and_rises_no_second_time(zookeeper: ZooKeeper) -> None:
    register(zookeeper, info(1), Disk())
    before = read_features(zookeeper)
    assert raise_features(zookeeper, decide, validate_only=True).levels == WANTED
    assert read_features(zookeeper) == before
    raise_features(zookeeper, decide)
    after = read_features(zookeeper)
    assert (after.levels, after.epoch) == (WANTED, before.epoch + 1)
    raise_features(zookeeper, decide)
    assert read_features(zookeeper) == after


def test_without_the_node_it_is_made(zookeeper: ZooKeeper) -> None:
    """A cluster whose brokers have all registered before there were levels."""
    zookeeper.create(
        paths.broker(1),
        b'{"host":"h","port":9,"features":'
        b'{"replication.version":{"min_version":1,"max_version":1,"lowest":0}}}',
        parents=True,
    )
    raise_features(zookeeper, decide)
    assert read_features(zookeeper) == Finalized(WANTED, 0)


def test_one_old_broker_holds_it_up_and_is_named(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    register(zookeeper, info(1), Disk())
    join_old(other)
    with pytest.raises(KafkaError, match=r"brokers \[2\] do not support level 1"):
        raise_features(zookeeper, decide)
    assert read_features(zookeeper).level(REPLICATION) == 0


def test_a_broker_whose_node_cannot_be_read_holds_it_up(zookeeper: ZooKeeper) -> None:
    register(zookeeper, info(1), Disk())
    zookeeper.create(paths.broker(7), b"{")
    with pytest.raises(MalformedNodeError):
        raise_features(zookeeper, decide)


def interrupted(
    first: Callable[[ZooKeeper], object], second: Callable[[ZooKeeper], object], at: int
) -> tuple[SteppedZooKeeper, int, bool]:
    """``second`` is done as a whole before the command ``at`` of ``first``. How many commands
    ``first`` had, and whether ``second`` was refused."""
    server = SteppedZooKeeper()
    one, two = server.session("one"), server.session("two")
    register(server.session("setup"), info(1), Disk())
    commands, refused = 0, False

    def script(name: str) -> Fault:
        nonlocal commands, refused
        if name == "one":
            commands += 1
            if commands == at:
                try:
                    second(two)
                except (UserError, KafkaError):
                    refused = True
        return Fault.NONE

    server.script = script
    with contextlib.suppress(UserError, KafkaError):
        first(one)
    return server, commands, refused


def raising(zookeeper: ZooKeeper) -> object:
    return raise_features(zookeeper, decide)


@pytest.mark.parametrize(
    ("first", "second"), [(raising, join_old), (join_old, raising)], ids=["raise", "register"]
)
def test_whatever_the_order_no_old_broker_is_in_a_cluster_of_the_new_level(
    first: Callable[[ZooKeeper], object], second: Callable[[ZooKeeper], object]
) -> None:
    """The check of the levels alone was not enough: a broker that registered after the others were
    read, and before the level was written, passed it."""
    outcomes: set[tuple[int, bool]] = set()
    for at in range(1, MOST_COMMANDS):
        server, commands, _ = interrupted(first, second, at)
        reader = server.session("reader")
        assert holds(reader), at
        level = read_features(reader).level(REPLICATION)
        outcomes.add((level, 2 in BrokerRegistry(reader).brokers()))
        if at > commands:
            break
    else:
        pytest.fail("it had more commands than expected")
    assert outcomes == {(0, True), (1, False)}, "one of the two comes first"


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.ANSWER_LOST, Fault.LATE])
def test_after_a_lost_answer_the_next_attempt_finds_what_was_done(fault: Fault) -> None:
    for at in range(1, MOST_COMMANDS):
        server = SteppedZooKeeper()
        one, two = server.session("one"), server.session("two")
        register(server.session("setup"), info(1), Disk())
        commands = 0

        def script(name: str, at: int = at) -> Fault:
            nonlocal commands
            commands += name == "one"
            return fault if name == "one" and commands == at else Fault.NONE

        server.script = script
        with contextlib.suppress(ConnectError):
            raising(one)
        server.script = lambda name: Fault.NONE
        with contextlib.suppress(UserError):
            join_old(two)
        server.arrive()
        assert holds(server.session("reader")), at
        with contextlib.suppress(KafkaError):
            raising(one)
        assert holds(server.session("reader")), at
        if at > commands:
            return
    pytest.fail("it had more commands than expected")
