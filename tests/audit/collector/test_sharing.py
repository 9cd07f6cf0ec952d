"""Several collectors of one cluster: whatever each believes is its part, every record is counted
once, and one of them is in charge."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.collector.collector import Collector, CollectorSettings
from tallymark_audit.collector.partitions.sharing import RETAKE_MS, Share
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.sides import merge_observations
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.rows import observation_from_row
from tallymark_audit.store.schema.tables import observations, window_changes
from tallymark_audit.testing import MemoryCluster, stamped

W = 1000
PLACES: list[TopicPartition] = [("t", 0), ("t", 1), ("t", 2)]


class Told:
    """A sharing that says what it is told to."""

    alone = False

    def __init__(self, part: Collection[TopicPartition] | None = None) -> None:
        self.part = part
        self.closed = False

    def part_of(self, known: Collection[TopicPartition]) -> Collection[TopicPartition] | None:
        return None if self.part is None else set(self.part) & set(known)

    def close(self) -> None:
        self.closed = True


class Several:
    """A cluster, a store, a clock, and collectors."""

    def __init__(self, store: Store) -> None:
        self.cluster = MemoryCluster()
        self.store = store
        self.now = 1_000_000

    def tick(self) -> int:
        self.now += 10
        return self.now

    def collector(self, part: Collection[TopicPartition] | None, owner: str = "x") -> Collector:
        made = CollectorSettings("dc1", W, max_wait_ms=0)
        sharing = Told(part)
        collector = Collector(self.store, self.cluster, made, owner, self.tick, sharing)
        collector.start()
        return collector

    def counted(self) -> dict[int, str]:
        """Sequences by partition."""
        with self.store.read() as connection:
            rows = connection.execute(select(observations)).mappings().all()
        merged = merge_observations(observation_from_row(row) for row in rows)
        assert all(seen.count == seen.ranges.size for seen in merged.values())
        return {key.partition: str(seen.ranges) for key, seen in merged.items()}

    def later(self, ms: int) -> None:
        self.now += ms


@contextmanager
def several_in(folder: Path) -> Iterator[Several]:
    with open_store(f"sqlite:///{folder / f'{uuid.uuid4()}.db'}") as store:
        yield Several(store)


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Several]:
    with several_in(tmp_path) as made:
        yield made


def write(several: Several, first: int, count: int) -> None:
    for _, partition in PLACES:
        several.cluster.log("t", partition).append(stamped(first, count, partition=partition))


def steps(several: Several, *collectors: Collector, rounds: int = 6) -> None:
    for _ in range(rounds):
        for collector in collectors:
            collector.step()
        several.later(500)


def part(collector: Collector, *places: TopicPartition) -> None:
    sharing: Any = collector._sharing
    sharing.part = set(places)


def test_each_counts_its_part_and_one_is_in_charge(several: Several) -> None:
    several.cluster.log(AUDIT_TOPIC)
    write(several, 0, 5)
    one = several.collector({("t", 0), (AUDIT_TOPIC, 0)})
    two = several.collector({("t", 1), ("t", 2)})
    steps(several, two, one)
    assert several.counted() == {0: "0-4", 1: "0-4", 2: "0-4"}
    assert (one.in_charge, two.in_charge) == (True, False)
    assert sorted(two.ledger.positions) == [("t", 1), ("t", 2)]


def test_a_partition_moves_in_the_middle_of_everything(several: Several) -> None:
    write(several, 0, 5)
    one, two = several.collector(PLACES), several.collector(())
    steps(several, one, two)
    write(several, 5, 5)
    part(two, ("t", 1))  # it is told before the other one is: both want it
    two.step()
    write(several, 10, 5)
    one.step()
    assert one.counters.refused == 1
    part(one, ("t", 0), ("t", 2))
    steps(several, one, two)
    assert several.counted() == {0: "0-14", 1: "0-14", 2: "0-14"}
    assert sorted(one.ledger.positions) == [("t", 0), ("t", 2)]


def test_a_paused_collector_is_refused_and_goes_on_with_what_is_still_its_own(
    several: Several,
) -> None:
    """It slept, the others have its partitions; when it wakes it still believes in them."""
    write(several, 0, 5)
    paused = several.collector(PLACES, "paused")
    steps(several, paused)
    assert paused.in_charge
    other = several.collector(PLACES, "other")
    write(several, 5, 5)
    steps(several, other)
    write(several, 10, 5)
    for _ in range(3):
        paused.step()
    assert paused.counters.refused >= 1
    assert (paused.in_charge, other.in_charge) == (False, True)
    part(paused)
    steps(several, paused, other)
    assert several.counted() == {0: "0-14", 1: "0-14", 2: "0-14"}
    assert not paused.ledger.positions


def test_who_was_refused_by_a_zombie_takes_it_again(several: Several) -> None:
    """The zombie's taking came last; then it hears that it is out. The partition is not nobody's
    for longer than a moment."""
    write(several, 0, 5)
    right = several.collector(PLACES, "right")
    steps(several, right)
    zombie = several.collector(PLACES, "zombie")
    zombie.step()
    write(several, 5, 5)
    right.step()
    right.step()
    assert not right.ledger.positions
    part(zombie)
    several.later(RETAKE_MS)
    steps(several, zombie, right, rounds=12)
    assert several.counted() == {0: "0-9", 1: "0-9", 2: "0-9"}
    assert right.in_charge


def test_the_only_collector_does_not_wait_for_the_group(several: Several) -> None:
    write(several, 0, 5)
    only = several.collector(None)
    only.step()
    only.step()
    assert several.counted() == {0: "0-4", 1: "0-4", 2: "0-4"}
    second = several.collector(None)
    second.step()
    assert not second.ledger.positions  # somebody counts already: the group will tell
    only.close()
    several.later(1000)
    second.step()
    second.step()
    assert second.in_charge


def test_an_empty_cluster_is_counted_up_to_now_by_one(several: Several) -> None:
    """A new user started the stack and sent to one of its clusters. The dashboards said of the
    others that no collector had ever counted them: none was in charge where there was nothing to
    count."""
    one, two = several.collector(set()), several.collector(set(), "y")
    steps(several, one, two)
    assert [one.in_charge, two.in_charge].count(True) == 1
    assert several.now - one.ledger.last_in_charge() <= 2000
    write(several, 0, 5)
    part(one, *PLACES[1:])
    part(two, PLACES[0])
    steps(several, one, two)
    assert (one.in_charge, two.in_charge) == (False, True)
    assert several.counted() == {0: "0-4", 1: "0-4", 2: "0-4"}


def test_a_collector_that_may_see_no_topic_counts_nothing(several: Several) -> None:
    """Without rights the list of topics is as empty as that of a new cluster."""
    several.cluster.hidden.add(AUDIT_TOPIC)
    collector = several.collector(set())
    steps(several, collector)
    assert not collector.in_charge
    assert collector.ledger.last_in_charge() == 0
    several.cluster.hidden.clear()
    steps(several, collector)
    assert collector.in_charge


def test_closing_leaves_the_group(several: Several) -> None:
    write(several, 0, 1)
    only = several.collector(None)
    sharing: Any = only._sharing
    only.step()
    only.close()
    assert sharing.closed
    assert not only.in_charge


def test_new_topics_are_found_among_several(several: Several) -> None:
    """The one in charge lets all partitions be known at once, before anybody counts them: a window
    whose partition nobody has begun to count is not complete."""
    write(several, 0, 1)
    one, two = several.collector({("t", 0)}), several.collector({("t", 1)})
    steps(several, one, two)
    several.cluster.log("late", 0).append(stamped(0, 3))
    several.later(2000)
    steps(several, one, two, rounds=2)
    with several.store.read() as connection:
        known = {(row["topic"], row["counted_through"]) for row in queries.all_progress(connection)}
    assert ("late", 0) in known
    part(two, ("t", 1), ("late", 0))
    steps(several, one, two)
    with several.store.read() as connection:
        rows = [row for row in queries.all_progress(connection) if row["topic"] == "late"]
    assert [row["next_offset"] for row in rows] == [3]


def test_a_recreated_topic_starts_over_whoever_has_it(several: Several) -> None:
    write(several, 0, 5)
    one, two = several.collector({("t", 0)}), several.collector({("t", 1), ("t", 2)})
    steps(several, one, two)
    several.cluster.logs.clear()
    several.cluster.ids["t"] = uuid.uuid4()
    write(several, 5, 2)
    several.later(2000)
    steps(several, one, two)
    assert several.counted() == {0: "0-6", 1: "0-6", 2: "0-6"}
    with several.store.read() as connection:
        found = queries.all_incidents(connection)
    assert sorted(row["partition"] for row in found) == [0, 1, 2]
    assert {row["kind"] for row in found} == {"recreated"}


parts = st.none() | st.frozensets(st.sampled_from(PLACES))
script = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 4)),
        st.tuples(st.just("told"), st.integers(0, 2), parts),
        st.tuples(st.just("step"), st.integers(0, 2)),
        st.tuples(st.just("dies"), st.integers(0, 2)),
        st.tuples(st.just("later"), st.integers(1, 6000)),
    ),
    max_size=25,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(script=script)
def test_whatever_the_group_says_every_record_is_counted_once(
    tmp_path: Path, script: list[tuple[Any, ...]]
) -> None:
    with several_in(tmp_path) as several:
        write(several, 0, 1)
        written = 1
        collectors = [several.collector(None, str(number)) for number in range(3)]
        for what, *arguments in script:
            if what == "write":
                write(several, written, arguments[0])
                written += arguments[0]
            elif what == "told":
                part(collectors[arguments[0]], *(arguments[1] or ()))
            elif what == "step":
                collectors[arguments[0]].step()
            elif what == "dies":
                collectors[arguments[0]] = several.collector(None, "again")
            else:
                several.later(arguments[0])
        for number, collector in enumerate(collectors):
            part(collector, PLACES[number])
        several.later(2 * RETAKE_MS)
        steps(several, *collectors, rounds=12)
        assert several.counted() == {number: f"0-{written - 1}".replace("0-0", "0")
                                     for number in range(3)}  # fmt: skip
        assert [collector.in_charge for collector in collectors] == [True, False, False]


def test_two_at_once_on_one_store(database: str) -> None:
    """Threads of their own, partitions that both want now and then: on PostgreSQL transactions
    truly run side by side. Whatever is refused or deadlocks is done again, and the counts agree."""
    with open_store(database) as store:
        several = Several(store)
        write(several, 0, 5)
        collectors = [several.collector(PLACES, "one"), several.collector(PLACES, "two")]
        failures: list[BaseException] = []

        def run(collector: Collector) -> None:
            try:
                for _ in range(40):
                    collector.step()
                    several.later(200)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(each,)) for each in collectors]
        for thread in threads:
            thread.start()
        for number in range(1, 20):
            write(several, 5 * number, 5)
        for thread in threads:
            thread.join()
        assert not failures
        part(collectors[0], ("t", 0), ("t", 2))
        part(collectors[1], ("t", 1))
        several.later(2 * RETAKE_MS)
        steps(several, *collectors, rounds=40)
        assert several.counted() == {0: "0-99", 1: "0-99", 2: "0-99"}
        with store.read() as connection:
            changed = connection.execute(select(window_changes)).mappings().all()
        assert [row["window"] for row in changed] == [0]


def test_what_a_share_changes() -> None:
    share = Share(Told())
    assert share.wanted(PLACES, in_charge=False, leaderless=False) == set()
    assert share.wanted(PLACES, in_charge=False, leaderless=True) == set(PLACES)
    assert share.wanted(PLACES, in_charge=True, leaderless=False) == set(PLACES)
    wanted = {("t", 0), ("t", 1)}
    assert share.changes(wanted, [("t", 1), ("t", 2)], 0) == ([("t", 0)], [("t", 2)])
    share.refused([("t", 0)], 0)
    assert share.changes(wanted, [("t", 1)], RETAKE_MS - 1) == ([], [])
    assert share.changes(wanted, [("t", 1)], RETAKE_MS) == ([("t", 0)], [])
