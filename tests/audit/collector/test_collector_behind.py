"""A collector that has more to read than one round takes reads most of the time, whatever it is
that fills its rounds.

The cluster is a list of batches in memory, the store a real one; time is a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tallymark_audit.collector.backoff import Backoff
from tallymark_audit.collector.collector import Collector, CollectorSettings
from tallymark_audit.collector.schedule import Doing, Schedule
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.service import one_round
from tallymark_audit.store import Store, open_store
from tallymark_audit.testing import MemoryCluster, Told

AT_ONCE = 2
"""Batches of one fetch: large ones, since a fetch ends after so many bytes."""
READ_MS, JUDGE_MS = 500, 1500
"""What a round, and judging, take here."""


@dataclass
class Clock:
    """Says what it is told."""

    now: int = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as made:
        yield made


def collector_of(cluster: MemoryCluster, store: Store, clock: Clock) -> Collector:
    made = Collector(store, cluster, CollectorSettings("dc1", 1000, max_wait_ms=0), "one", clock)
    made.start()
    return made


@pytest.mark.parametrize("topic", [AUDIT_TOPIC, "t"])
def test_judging_leaves_most_of_the_time_to_a_collector_that_is_behind(
    store: Store, topic: str
) -> None:
    """A stranger sent 45 large monitoring events a second. A round read a megabyte of them, some
    eighty; then the stranger's windows were judged, which took three times as long, in every round:
    only 5,000 *records* of a round were taken for much to count, and monitoring events count as
    none. Reading fell behind for as long as it lasted, and with it the reports of everybody else:
    the watermark of an honest topic moved no more. Large records of a topic do the same."""
    cluster, clock = MemoryCluster(at_once=AT_ONCE), Clock()
    log = cluster.log(topic)
    collector = collector_of(cluster, store, clock)
    unread: list[int] = []
    judged: list[int] = []

    def judge(now: int) -> None:
        judged.append(now)
        clock.now += JUDGE_MS

    chores = Schedule([Doing("judging", 1000, judge)], Backoff("x"))

    def do_chores(busy: bool) -> None:
        chores.step(clock, busy)

    began, sent = clock.now, 0
    while clock.now < began + 300_000:
        for _ in range((clock.now - began) // 500 - sent):  # half of what rounds alone could read
            log.append([Told(b"no stamp", clock.now, b"no event")])
            sent += 1
        clock.now += READ_MS
        pause_ms = one_round(collector, do_chores, clock)
        clock.now += pause_ms
        unread.append(log.end - collector.ledger.positions[topic, 0].next_offset)
    third = len(unread) // 3
    assert max(unread[-third:]) <= max(unread[:third]) <= 20
    assert len(judged) >= 300_000 // (4 * (JUDGE_MS + READ_MS))  # it goes on all the same
    assert max(b - a for a, b in pairwise(judged)) <= 5 * JUDGE_MS


def test_what_stands_in_open_transactions_is_not_waited_for(store: Store) -> None:
    """A topic that is written in transactions has records behind the last stable offset nearly
    always: a collector that took them for unread would never rest, nor would its chores be done."""
    cluster, clock = MemoryCluster(at_once=AT_ONCE), Clock()
    log = cluster.log("t")
    collector = collector_of(cluster, store, clock)
    for _ in range(3):
        log.append([Told(None, 0)])
    assert (collector.step(), collector.behind) == (AT_ONCE, True)
    log.append([Told(None, 0)], producer=7)
    log.append([Told(None, 0)])
    busy: list[bool] = []
    assert one_round(collector, busy.append, clock) > 0
    assert busy == [False]
    log.end_transaction(7, commit=True)
    assert (collector.step(), collector.behind) == (AT_ONCE, True)
    collector.step()
    assert not collector.behind


def test_a_collector_that_cannot_read_is_not_behind(store: Store) -> None:
    """The cluster went away in the middle of a backlog: rounds that fail need not hurry."""
    cluster, clock = MemoryCluster(at_once=AT_ONCE), Clock()
    for _ in range(5):
        cluster.log("t").append([Told(None, 0)])
    collector = collector_of(cluster, store, clock)
    collector.step()
    assert collector.behind
    cluster.away = True
    collector.step()
    assert not collector.behind
