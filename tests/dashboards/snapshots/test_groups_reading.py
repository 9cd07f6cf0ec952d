"""The groups of a cluster from one look to the next, by an admin client that answers at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.groups import GroupDescription, GroupList, GroupListing
from tallymark_dashboards.snapshots import groups_reading
from tallymark_dashboards.snapshots.groups_reading import BrokerGroups


class Brokers:
    """What a cluster with these groups and states answers; each has committed two offsets."""

    def __init__(self, **states: str) -> None:
        self.states = states
        self.asked: list[str] = []

    def list_groups(self) -> GroupList:
        return GroupList({name: GroupListing(name, "", one) for name, one in self.states.items()})

    def describe_groups(self, names: list[str]) -> Any:
        self.asked += names
        done = {name: GroupDescription(name, self.states[name]) for name in names}
        return SimpleNamespace(done=done)

    def offsets_of_groups(self, names: list[str]) -> Any:
        offsets = {("t", part): SimpleNamespace(offset=7) for part in (0, 1)}
        return SimpleNamespace(done=dict.fromkeys(names, offsets), errors={})


def look(groups: BrokerGroups, brokers: Brokers) -> None:
    groups.read(cast("Admin", brokers), lambda: 1, lambda: None)


def test_the_state_of_a_group_is_that_of_the_last_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10,000 groups 2,000 are described in a look: one whose members had left was still shown as
    Stable four looks later."""
    monkeypatch.setattr(groups_reading, "_A_LOOK", 1)
    groups, brokers = BrokerGroups(), Brokers(a="Stable", b="Stable")
    look(groups, brokers)
    look(groups, brokers)
    brokers.states["b"] = "Empty"
    look(groups, brokers)
    assert brokers.asked == ["a", "b", "a"]
    assert groups.seen["b"].described.state == "Empty"
    assert len(groups.seen["b"].offsets) == 2


def test_no_more_groups_are_kept_than_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """New groups with names that sort first pushed others off the list, which stayed in memory."""
    monkeypatch.setattr(groups_reading, "MAX_GROUPS", 2)
    groups, brokers = BrokerGroups(), Brokers(m="Stable", n="Stable")
    look(groups, brokers)
    brokers.states |= {"a": "Stable", "b": "Stable"}
    look(groups, brokers)
    assert set(groups.seen) == {"a", "b"}
    assert groups.left_out == "2 groups"


def test_everything_that_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The partitions that were left out hid the groups that were."""
    monkeypatch.setattr(groups_reading, "MAX_GROUPS", 2)
    monkeypatch.setattr(groups_reading, "MAX_PARTITIONS", 3)
    groups = BrokerGroups()
    look(groups, Brokers(a="Stable", b="Stable", c="Stable"))
    assert groups.left_out == "1 groups, partitions beyond the first 3 of all groups"
    assert sum(len(one.offsets) for one in groups.seen.values()) == 3
