"""A store and clusters that are larger than any page: ten thousand of everything that a page lists.

By way of the functions that collectors and jobs write with, as in ``prepared_store``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from prepared_clusters import group, partition, snapshots, topic
from prepared_rows import Rows
from prepared_store import W

from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.store import Store
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_dashboards.snapshots.holder import Snapshots
from tallymark_dashboards.snapshots.shapes import Part

MANY: Final = 10_000
EDGE: Final = "producer-to-dc1"
BUSY: Final = "busy"
"""A topic with :data:`MANY` windows."""
PORTION: Final = 2_000


@dataclass(frozen=True)
class Large:
    """``newest``: the window (start, ms) of which each topic lost one message; ``first``: the first
    window of :data:`BUSY`."""

    newest: int
    first: int


def prepare_large(store: Store, now: int) -> Large:
    """Topics with a loss each, so as many incidents, and a clean topic with as many windows."""
    newest = now - now % W - 2 * W
    lost = [
        Verdict(EDGE, f"topic-{number:05}", newest, State.LOSS, claimed=100, observed=99, missing=1)
        for number in range(MANY)
    ]
    first = newest - (MANY - 1) * W
    clean = [
        Verdict(EDGE, BUSY, window, State.COMPLETE, claimed=10, observed=10)
        for window in range(first, newest + 1, W)
    ]
    both = [*lost, *clean]
    for begin in range(0, len(both), PORTION):
        with store.write() as connection:
            record_verdicts(connection, both[begin : begin + PORTION], COLLECTOR, now - 30_000)
    with store.write() as connection:
        rows = Rows(connection, now)
        for cluster in ("dc1", "dc2", "aggregate"):
            rows.collector(cluster, now - 4_000)
    return Large(newest, first)


def large_snapshots(now: int) -> Snapshots:
    """The prepared clusters; the first has ten thousand topics and consumer groups."""
    found = snapshots(now)
    first, *others = found.clusters
    topics = {one.name: one for one in (topic(f"topic-{n:05}", 1) for n in range(MANY))}
    groups = {
        one.group: one
        for one in (group(f"group-{n:05}", partition("topic-00000", 0, n % 7)) for n in range(MANY))
    }
    first = replace(
        first,
        topics=replace(first.topics, value=topics),
        groups=Part(groups, now - 4_000, now - 4_000),
    )
    return Snapshots([first, *others], found.registry)
