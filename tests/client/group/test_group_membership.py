"""Members of a group that only want to know their part, against a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from eventually import eventually

from tallymark.client import Admin
from tallymark.client.group.membership import GroupMembership
from tallymark.testing.broker_thread import BrokerThread

PLACES = frozenset((topic, partition) for topic in ("_internal", "t") for partition in range(2))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path, group_initial_rebalance_delay_ms=0) as running:
        with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            for topic in ("_internal", "t", "other"):
                admin.create_topic(topic, 2)
        yield running


def member(broker: BrokerThread) -> GroupMembership:
    return GroupMembership(
        "sharers",
        lambda topic: topic in ("_internal", "t", "new"),
        bootstrap_servers=broker.bootstrap_servers,
        request_timeout_ms=2000,
        metadata_max_age_ms=200,
    )


def test_members_share_and_take_over(broker: BrokerThread) -> None:
    one = member(broker)
    try:
        assert one.part is None
        eventually(lambda: one.part == PLACES and one.sole)
        two = member(broker)
        try:
            eventually(lambda: len(one.part or ()) == len(two.part or ()) == 2)
            assert (one.part or frozenset()) | (two.part or frozenset()) == PLACES
            # Its partitions moved in the first rebalance; `sole` is of the second, which ends it.
            eventually(lambda: not one.sole and not two.sole)
        finally:
            two.close()
        eventually(lambda: one.part == PLACES and one.sole)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("new", 1)
        eventually(lambda: ("new", 0) in (one.part or ()))
    finally:
        one.close()
        one.close()


def test_brokers_that_are_away_are_waited_for(broker: BrokerThread) -> None:
    broker.stop()
    waiting = member(broker)
    try:
        eventually(lambda: waiting.problem is not None)
        assert waiting.part is None
        broker.start()
        eventually(lambda: waiting.part == PLACES)
        eventually(lambda: waiting.problem is None)
    finally:
        waiting.close()
