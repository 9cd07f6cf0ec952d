"""The store fails at every single statement and commit there is, before and after it took effect;
the collector goes on, or is killed there and another one goes on: the counts stay exact."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from tallymark_audit.collector.collector import Collector, CollectorSettings
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import AuditEvent, CellReport
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import merge_observations
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.schema.rows import observation_from_row
from tallymark_audit.store.schema.tables import claims, incidents, observations
from tallymark_audit.testing import FailingStore, MemoryCluster, Told, stamped

W = 1000


class Scene:
    """One cluster of a store that others use too, and what happens to it."""

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name
        self.cluster = MemoryCluster()
        self.now = 1_000_000
        self.collector = self.started()

    def tick(self) -> int:
        self.now += 400
        return self.now

    def started(self) -> Collector:
        made = CollectorSettings(self.name, W, max_wait_ms=0)
        return Collector(self.store, self.cluster, made, "x", self.tick)

    def begin(self) -> None:
        log = self.cluster.log()
        log.append(stamped(0, 10))
        log.append(stamped(5, 10, timestamp=W))
        log.append([Told(b"junk", 5), *stamped(10, 4)])
        self.cluster.log("t", 1).append(stamped(0, 3, partition=1))
        self.cluster.log(AUDIT_TOPIC).append([Told(None, 0, encode_event(event(10)))])
        self.cluster.log(AUDIT_TOPIC).append([Told(None, 0, b"no event")])
        self.collector.start()

    def cut(self) -> None:
        log = self.cluster.log()
        log.cut(2)
        log.append(stamped(30, 5))

    def steps(self, dies: bool, rounds: int) -> None:
        """``dies``: it is killed where it fails, and another one is started."""
        for _ in range(rounds):
            self.collector.step()
            if dies and self.collector.counters.failures:
                self.collector = self.restarted()

    def restarted(self) -> Collector:
        while True:  # whoever starts it does so until it runs
            collector = self.started()
            try:
                collector.start()
                return collector
            except OperationalError:
                pass

    def counted(self) -> dict[tuple[int, int, str], tuple[int, str, int]]:
        with self.store.read() as connection:
            query = select(observations).where(observations.c.cluster == self.name)
            rows = connection.execute(query).mappings().all()
        merged = merge_observations(observation_from_row(row) for row in rows)
        return {
            (key.partition, key.window, key.server): (seen.count, str(seen.ranges), seen.malformed)
            for key, seen in merged.items()
        }

    def claimed(self) -> list[list[int]]:
        with self.store.read() as connection:
            query = select(claims.c.accepted).where(claims.c.cluster == self.name)
            return list(connection.scalars(query))

    def incidents(self) -> list[tuple[str, int]]:
        with self.store.read() as connection:
            query = select(incidents.c.kind, incidents.c.count)
            rows = connection.execute(query.where(incidents.c.cluster == self.name))
            return sorted((row[0], row[1]) for row in rows)


def event(size: int) -> AuditEvent:
    return AuditEvent(
        kind="producer",
        reporter=f"producer-{'aa' * 8}",
        server="web",
        application="app",
        instance="aa" * 8,
        event_number=0,
        covers_from=0,
        emitted_at=5,
        window_ms=W,
        complete_through=4,
        cells=(CellReport("t", 0, 0, accepted=RangeSet.single(0, size - 1)),),
    )


BEFORE_CUT = {
    (0, 0, "web"): (14, "0-13", 0),
    (0, W, "web"): (10, "5-14", 0),
    (0, 0, ""): (1, "", 1),
    (1, 0, "web"): (3, "0-2", 0),
}
AFTER_CUT = {
    (0, 0, "web"): (15, "0-9, 30-34", 0),
    (0, W, "web"): (10, "5-14", 0),
    (1, 0, "web"): (3, "0-2", 0),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path_factory.mktemp('store') / 'audit.db'}") as opened:
        yield opened


WAYS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.soak_cases("False-False", "True-True")
@pytest.mark.parametrize(("after", "dies"), WAYS)
def test_a_failure_at_a_write_changes_no_count(store: Store, after: bool, dies: bool) -> None:
    """At some of the places; the long test takes all."""
    first = 1 + 3 * WAYS.index((after, dies))
    assert fail_at(store, range(first, 500, 12), after, dies) > 40


@pytest.mark.soak
@pytest.mark.parametrize(("after", "dies"), WAYS)
def test_a_failure_at_any_write_changes_no_count(store: Store, after: bool, dies: bool) -> None:
    assert fail_at(store, range(1, 500), after, dies) > 40


def fail_at(store: Store, places: Iterable[int], after: bool, dies: bool) -> int:
    """Returns the first of the places that the work did not reach."""
    failing = FailingStore(store)
    try:
        for at in places:
            scene = Scene(store, f"dc-{after}-{dies}-{at}-{uuid.uuid4()}")
            failing.arm(at, after=after)
            try:
                scene.begin()
            except OperationalError:
                scene.collector = scene.restarted()
            scene.steps(dies, 6)
            scene.cut()
            scene.steps(dies, 6)
            failed = failing.disarm()
            where = failing.calls[-1:]
            scene.steps(dies, 2)
            assert scene.counted() == AFTER_CUT, where
            kinds = [("bad-event", 1), ("malformed-stamp", 1), ("truncated", 1)]
            assert scene.incidents() == kinds, where
            assert scene.claimed() == [[0, 9]], where
            if not failed:
                return at
        raise AssertionError("it never came to an end")
    finally:
        failing.release()


def test_a_store_that_is_gone_stops_the_commits_and_then_they_go_on(store: Store) -> None:
    scene = Scene(store, "gone")
    failing = FailingStore(store)
    try:
        scene.begin()
        failing.arm(1, lasting=True)
        for _ in range(5):
            scene.collector.step()
        assert scene.collector.pause_ms >= 200
        assert failing.disarm()
        assert scene.counted() == {}
        scene.steps(dies=False, rounds=8)
        assert scene.counted() == BEFORE_CUT
        assert scene.collector.pause_ms == 0
    finally:
        failing.release()


def test_the_store_and_the_cluster_may_fail_together(store: Store) -> None:
    scene = Scene(store, "both")
    failing = FailingStore(store)
    try:
        scene.begin()
        for at in range(1, 12):
            failing.arm(at, after=at % 2 == 0)
            scene.cluster.away = at % 3 == 0
            scene.collector.step()
        failing.disarm()
        scene.cluster.away = False
        scene.steps(dies=False, rounds=8)
        assert scene.counted() == BEFORE_CUT
    finally:
        failing.release()
