"""The brokers of a cluster with what each has and leads: those that live, and those that are gone
while partitions still name them as replicas. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tallymark_dashboards.snapshots.cluster_counts import BrokerCounts, ClusterCounts
from tallymark_dashboards.snapshots.shapes import ClusterState


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker. ``address`` is "" of one that is gone; ``lives`` is None where the brokers of the
    cluster are not known."""

    id: int
    address: str
    rack: str
    controller: bool
    fenced: bool
    lives: bool | None
    counts: BrokerCounts


def broker_rows(state: ClusterState, counts: ClusterCounts) -> tuple[BrokerRow, ...]:
    """By id."""
    known = state.brokers.value
    there = {one.id: one for one in known.brokers} if known else {}
    rows: list[BrokerRow] = []
    for node in sorted({*there, *counts.brokers}):
        one, of = there.get(node), counts.brokers.get(node, BrokerCounts())
        if one is None:
            lives = False if known else None
            rows.append(BrokerRow(node, "", "", False, False, lives, of))
        else:
            controller = bool(known and known.controller == node)
            rows.append(BrokerRow(node, one.address, one.rack, controller, one.fenced, True, of))
    return tuple(rows)
