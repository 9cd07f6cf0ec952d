"""Counting again, beside counting on: what was asked for is read once more and put in place of what
was counted, whoever dies in between.

The cluster is in memory; the store is a real SQLite file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from tallymark.deployment import AuditSettings, Deployment
from tallymark.errors import UserError
from tallymark_audit.cli.scrubbing import plan
from tallymark_audit.collector.collector import Collector, CollectorSettings, wall_clock
from tallymark_audit.collector.counting.cells import count
from tallymark_audit.collector.counting.comparison import changed_cells, difference
from tallymark_audit.collector.judging.locate import OffsetRange, offset_ranges
from tallymark_audit.collector.limits.window_bound import MOST_WINDOWS, overflow_window
from tallymark_audit.collector.recounting.slow_scrub import PASS_MS
from tallymark_audit.judge.verdicts import Clock, State, Verdict, judge
from tallymark_audit.model.cells import CellKey, Edge
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.model.sides import CellFacts, Observation
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import counts, recounts
from tallymark_audit.store.counted.deleted import note_deleted
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.tables import archive, observations
from tallymark_audit.testing import MemoryCluster, Told, stamped

W = 1000
CELL = CellKey("t", 0, 0, "web", b"instance".hex())


@dataclass
class Rig:
    """One cluster, one store, one collector, and a clock that a test moves."""

    store: Store
    cluster: MemoryCluster
    compacted: bool = False
    scrub_rate: int = 0
    contents: bool = True
    now: int = 1_000_000

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A collector, in place of the one before."""
        settings = CollectorSettings(
            "dc1",
            W,
            max_wait_ms=0,
            content_check=self.contents,
            scrub_rate=self.scrub_rate,
            settled_ms=10 * W,
        )
        self.collector = Collector(
            self.store,
            self.cluster,
            settings,
            "one",
            clock=lambda: self.now,
            compacted=lambda topic: self.compacted,
        )
        self.collector.start()

    def count(self) -> None:
        for _ in range(20):
            self.now += 1000
            self.collector.step()

    def again(self, *windows: int) -> None:
        """Have windows counted again, and let it be done."""
        self.ask(*windows)
        self.work()

    def ask(self, *windows: int) -> None:
        with self.store.write() as connection:
            recounts.ask_for_windows(connection, "dc1", "t", windows, self.now)

    def work(self, steps: int = 10) -> None:
        for _ in range(steps):
            self.now += 1000
            self.collector.recounting.step(self.now)

    def cell(self, window: int = 0) -> Observation | None:
        with self.store.read() as connection:
            found = counts.cells_of_window(connection, "dc1", "t", 0, window)
        return next((one for one in found if one.key == CELL._replace(window=window)), None)

    def ranges(self, window: int = 0) -> RangeSet:
        cell = self.cell(window)
        return cell.ranges if cell else RangeSet()

    def asked(self) -> list[recounts.RecountRequest]:
        with self.store.read() as connection:
            return list(recounts.to_do(connection, "dc1"))

    def slow(self) -> list[recounts.RecountRequest]:
        with self.store.read() as connection:
            return recounts.of_job(connection, recounts.SLOW)

    def incidents(self) -> list[str]:
        with self.store.read() as connection:
            return [row["kind"] for row in queries.all_incidents(connection)]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with open_store(f"sqlite:///{tmp_path}/audit.db") as store:
        cluster = MemoryCluster()
        log = cluster.log()
        for first in range(0, 50, 10):
            log.append(stamped(first, 10))
        log.append(stamped(50, 10, timestamp=W))
        made = Rig(store, cluster)
        made.count()
        yield made


def test_what_left_the_log_leaves_the_count_and_comes_back_with_it(rig: Rig) -> None:
    """A closed segment was gone after it had been counted: the count went on holding its records.
    When the file is put back, the records are there again."""
    log = rig.cluster.log()
    assert rig.ranges() == RangeSet.single(0, 49)
    gone = log.batches.pop(2)
    rig.again(0)
    assert rig.ranges() == RangeSet.of([*range(20), *range(30, 50)])
    assert rig.ranges(W) == RangeSet.single(50, 59)
    assert rig.incidents() == ["recounted"]
    rig.again(0)
    assert rig.incidents() == ["recounted"], "nothing is new the second time"
    log.batches.insert(2, gone)
    rig.again(0)
    assert rig.ranges() == RangeSet.single(0, 49)
    assert rig.asked() == []


def test_all_records_of_a_cell_may_be_gone_and_come_back(rig: Rig) -> None:
    """Of a cell with nothing left the place is remembered: else it could never be seen again."""
    rig.cluster.log().append(stamped(0, 1, timestamp=5 * W))
    rig.count()
    gone = rig.cluster.log().batches.pop(5)
    rig.again(W)
    cell = rig.cell(W)
    assert cell is not None
    assert (cell.count, cell.first_offset, cell.last_offset) == (0, 50, 59)
    rig.cluster.log().batches.insert(5, gone)
    rig.again(W)
    assert rig.ranges(W) == RangeSet.single(50, 59)


def test_copies_that_came_before_it_was_counted_again_are_counted_once(rig: Rig) -> None:
    """Repair was quicker than the collector: its copies came on top of what had been lost."""
    log = rig.cluster.log()
    del log.batches[2]
    log.append(stamped(20, 10))
    rig.count()
    cell = rig.cell()
    assert cell is not None
    assert cell.duplicate_count == 10
    rig.again(0)
    cell = rig.cell()
    assert cell is not None
    assert (cell.count, cell.duplicate_count) == (50, 0)


def test_what_retention_deleted_is_not_lost(rig: Rig) -> None:
    """Retention deletes from the front of a log: what reached below its start stays as counted."""
    rig.cluster.log().expire(2)
    rig.again(0)
    assert rig.ranges() == RangeSet.single(0, 49)
    assert rig.incidents() == []
    assert rig.asked() == []


def test_what_retention_deletes_while_it_is_read_is_not_lost(rig: Rig) -> None:
    """Between two fetches the offsets that were to be read next are gone."""

    class Expiring(MemoryCluster):
        def multifetch(self, *told: Any, **how: Any) -> Any:
            found = MemoryCluster.multifetch(self, *told, **how)
            if rig.asked() and not self.log().start:
                self.log().expire(2)
            return found

    rig.cluster = Expiring(rig.cluster.logs, rig.cluster.ids, at_once=1)
    rig.start()
    rig.count()
    rig.again(0)
    assert rig.cluster.log().start == 20
    assert rig.ranges() == RangeSet.single(0, 49)
    assert rig.incidents() == []
    assert rig.asked() == []


def made_again(rig: Rig) -> None:
    """The topic is deleted and made again while its window is open; the same instance goes on."""
    rig.cluster.logs.clear()
    rig.cluster.ids.clear()
    log = rig.cluster.log()
    for first in range(60, 90, 10):
        log.append(stamped(first, 10))
    rig.count()


def test_what_the_log_before_held_is_not_lost_when_it_is_counted_again(rig: Rig) -> None:
    """A topic was deleted and made again within a window, and its producer went on. A scrub counted
    the window again, found in the new log only what had come since, and took the rest off: a LOSS
    of 50 records that nobody had lost."""
    made_again(rig)
    whole = RangeSet.of([*range(50), *range(60, 90)])
    assert rig.ranges() == whole
    rig.again(0)
    assert rig.ranges() == whole
    assert rig.incidents() == ["recreated"]
    assert rig.asked() == []
    with rig.store.read() as connection:
        assert offset_ranges(connection, "dc1", CELL) == [OffsetRange(0, 0, 29)]


def test_what_the_log_before_held_is_not_lost_when_the_new_one_is_cut(rig: Rig) -> None:
    """The new log of a topic that was made again was cut: the cell was rebuilt from it alone. What
    is left can be counted again, and is not looked for beyond the cut."""
    made_again(rig)
    rig.cluster.log().cut(2)
    rig.cluster.log().append(stamped(0, 10, timestamp=7 * W))
    rig.count()
    assert "truncated" in rig.incidents()
    rig.again(0)
    cell = rig.cell() or Observation(CELL)
    assert not RangeSet.single(0, 49) - cell.ranges
    assert (cell.first_offset, cell.last_offset) == (-1, 19)
    assert rig.asked() == []


def test_of_a_compacted_topic_nothing_is_taken_off(rig: Rig) -> None:
    """What has a later record of its key is to vanish there."""
    rig.compacted = True
    del rig.cluster.log().batches[2]
    rig.again(0)
    assert rig.ranges() == RangeSet.single(0, 49)
    assert rig.asked() == []


def test_a_collector_that_dies_in_between_is_followed_by_one_that_goes_on(rig: Rig) -> None:
    """The store fails just when a window that was counted again is written: all of it or nothing
    holds, and it is done once more."""
    del rig.cluster.log().batches[2]
    rig.ask(0, W)
    advance, failing = recounts.advance, [True]

    def fails(*told: object) -> None:
        advance(*told)  # type: ignore[arg-type]
        if failing.pop() if failing else False:
            raise OperationalError("UPDATE", {}, Exception("the disk is full"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recounts, "advance", fails)
        with pytest.raises(OperationalError):
            rig.work()
    assert rig.ranges() == RangeSet.single(0, 49)
    assert len(rig.asked()) == 2
    rig.start()
    rig.count()
    rig.work()
    assert rig.ranges().size == 40
    assert rig.asked() == []


def test_changed_stamps_are_gone_under_the_old_name_and_there_under_the_new(rig: Rig) -> None:
    """Under a valid CRC a record says it is of another producer: the one is missing, the other
    nobody has claimed."""
    log = rig.cluster.log()
    kept, log.batches[2:] = log.batches[3:], []
    log.append(stamped(20, 10, instance=b"another!"))
    log.batches += kept
    rig.again(0)
    assert rig.ranges().size == 40
    with rig.store.read() as connection:
        found = counts.cells_of_window(connection, "dc1", "t", 0, 0)
    other = next(one for one in found if one.key.instance == b"another!".hex())
    assert (other.ranges, other.first_offset) == (RangeSet.single(20, 29), 20)


def test_a_window_that_is_still_counted_is_counted_again_to_its_new_end(rig: Rig) -> None:
    """What came while a window was read again is in it, once."""
    log = rig.cluster.log()
    rig.cluster.at_once = 1
    rig.ask(0)
    rig.collector.recounting.step(rig.now - 1000)  # which is late at once: one fetch
    log.append(stamped(60, 10))
    rig.count()
    rig.work()
    cell = rig.cell()
    assert cell is not None
    assert (cell.count, cell.ranges.size) == (60, 60)
    assert rig.asked() == []


def test_a_log_that_cannot_be_read_is_tried_again(rig: Rig) -> None:
    del rig.cluster.log().batches[2]
    log = rig.cluster.logs.pop(("t", 0))
    rig.ask(0)
    rig.cluster.logs["t", 1] = log  # the cluster is there, the partition is not
    rig.work(3)
    assert len(rig.asked()) == 1
    rig.cluster.logs["t", 0] = rig.cluster.logs.pop(("t", 1))
    rig.work(30)
    assert rig.ranges().size == 40


def test_unstamped_records_are_counted_again_too(rig: Rig) -> None:
    log = rig.cluster.log()
    log.append([Told(None, 3 * W)])
    log.append([Told(None, 3 * W), Told(None, 3 * W)])
    log.append([Told(None, 3 * W)])
    rig.count()
    del log.batches[-2]
    rig.again(3 * W)
    with rig.store.read() as connection:
        (bare,) = counts.cells_of_window(connection, "dc1", "t", 0, 3 * W)
    assert bare.count == 2


def test_changed_values_are_noticed_until_they_are_what_they_were(rig: Rig) -> None:
    """Values changed under a valid CRC after they were counted: nobody noticed."""
    log = rig.cluster.log()
    kept, log.batches[1:] = log.batches[2:], []
    log.append([one._replace(value=b"other") for one in stamped(10, 10)])
    changed, log.batches[2:] = log.batches[1], kept
    for _ in range(2):  # it still shows when it is counted once more
        rig.again(0)
        cell = rig.cell() or Observation(CELL)
        assert cell.ranges == RangeSet.single(0, 49)
        assert [block.block for block in cell.rewritten] == [0]
    assert rig.incidents() == ["recounted"]
    cell = rig.cell() or Observation(CELL)
    assert judged(cell).state is State.CORRUPT
    assert "after they were counted" in judged(cell).reasons[0]
    log.batches[1] = changed
    kept, log.batches[1:] = log.batches[2:], []
    log.append(stamped(10, 10))
    log.batches += kept
    rig.again(0)
    cell = rig.cell() or Observation(CELL)
    assert cell.rewritten == ()
    assert judged(cell).state is State.COMPLETE


def test_contents_that_are_hashed_for_the_first_time_have_not_changed(rig: Rig) -> None:
    """``content_check`` was switched on when records had been counted for months. A scrub said of
    every cell that it was not as it had been counted, and wrote an incident for every window."""
    log, window = rig.cluster.log(), 3 * W
    rig.contents = False
    rig.start()
    log.append(stamped(60, 10, timestamp=window))
    rig.count()
    assert (rig.cell(window) or Observation(CELL)).blocks == ()
    rig.contents = True
    rig.start()
    rig.count()
    asked = recounts.RecountRequest("t", 0, "scrub 1", window, window + 1, window, rig.now)
    with rig.store.write() as connection:
        recounts.ask(connection, "dc1", [asked])
    rig.work()
    assert (rig.cell(window) or Observation(CELL)).blocks
    assert rig.incidents() == []
    with rig.store.read() as connection:
        (done,) = recounts.of_job(connection, "scrub 1")
    assert (done.windows, done.cells, done.done) == (1, 0, True)
    log.batches.pop()
    log.append([one._replace(value=b"other") for one in stamped(60, 10, timestamp=window)])
    rig.again(window)
    assert rig.incidents() == ["recounted"], "from then on a change shows"


def judged(cell: Observation) -> Verdict:
    """What becomes of the cell, if its producer has claimed just that."""
    claim = replace(cell, blocks=(), rewritten=()).as_claim()
    edge = Edge("producer-to-dc1", "producer", "dc1", "producer")
    clock = Clock(10**9, W, 0, 1000, downstream_through=10**9, upstream_through=10**9)
    return judge(edge, "t", 0, [CellFacts(cell.key, claim, cell)], [], clock)


def test_a_batch_that_cannot_be_read_any_more_holds_up_nothing(rig: Rig) -> None:
    """Bytes of a closed segment rotted after they were counted. The window stays as it was counted,
    the incident names the offset, and the others are counted again."""
    log = rig.cluster.log()
    log.damage(2)
    rig.ask(0, W)
    rig.work(30)
    assert rig.asked() == []
    assert rig.ranges() == RangeSet.single(0, 49)
    with rig.store.read() as connection:
        (told,) = queries.all_incidents(connection)
    assert (told["kind"], told["partition"], told["from_offset"]) == ("unreadable", 0, 20)


def test_nobody_waits_for_a_deleted_topic_to_be_counted_again(rig: Rig) -> None:
    """A topic was deleted, and a scrub of all that was ever counted waited for its partitions
    until its time was over: no collector has them any more."""
    rig.cluster.log("other").append(stamped(0, 10))
    rig.now = wall_clock()
    rig.count()
    deployment = Deployment(audit=AuditSettings(window_ms=W))
    asked = plan(rig.store, deployment, ["dc1"], None, (None, rig.now))
    assert {one.place for _, one in asked.wanted} == {("t", 0), ("other", 0)}
    with rig.store.write() as connection:
        recounts.ask(connection, "dc1", [one for _, one in asked.wanted])
    rig.ask(0)
    del rig.cluster.logs["t", 0]
    rig.count()  # the collector sees that it is gone
    rig.work()
    with rig.store.read() as connection:
        assert all(one.done for one in recounts.of_job(connection, asked.job))
    assert rig.asked() == []
    later = plan(rig.store, deployment, ["dc1"], None, (None, rig.now))
    assert {one.place for _, one in later.wanted} == {("other", 0)}


def test_a_scrub_of_a_misspelt_topic_is_an_error(rig: Rig) -> None:
    """``tallymark audit scrub --topic nosuch`` said that nothing was counted that could be read
    again, and ended with 0, as one that found all complete."""
    rig.now = wall_clock()
    rig.count()
    deployment = Deployment(audit=AuditSettings(window_ms=W))
    with pytest.raises(UserError, match="no topic that was counted matches 'nosuch' as a whole"):
        plan(rig.store, deployment, ["dc1"], "nosuch", (None, rig.now))
    assert plan(rig.store, deployment, ["dc1"], "t", (None, rig.now)).topics == {"t"}


def test_the_overflow_window_is_not_counted_again(rig: Rig) -> None:
    """A producer with a broken clock opened too many windows; what came beyond was counted in the
    overflow window. No record says of itself that it is of that one: a scrub found it empty, and
    called all of it lost."""
    years = 10**12
    for number in range(MOST_WINDOWS + 5):
        rig.cluster.log().append(stamped(60 + number, 1, timestamp=years + number * W))
    rig.cluster.at_once = 200
    rig.collector.step()
    overflow = overflow_window(W)
    there = rig.ranges(overflow)
    assert there
    rig.again(overflow)
    asked = recounts.RecountRequest(
        "t", 0, "scrub 1", recounts.FIRST, 10 * W, recounts.FIRST, rig.now
    )
    with rig.store.write() as connection:
        recounts.ask(connection, "dc1", [asked])
    rig.work()
    assert rig.ranges(overflow) == there
    assert "recounted" not in rig.incidents()
    assert rig.asked() == []
    with rig.store.read() as connection:
        (done,) = recounts.of_job(connection, "scrub 1")
    assert done.windows == 2


def test_nothing_is_asked_of_partitions_that_are_deleted(rig: Rig) -> None:
    """The nightly count doubted a window of a topic that was deleted since: the request was never
    done. The slow scrub tried the deleted partition for ever, too."""
    rig.scrub_rate = 1 << 20
    rig.start()
    rig.count()
    with rig.store.write() as connection:
        note_deleted(connection, "dc1", [("t", 0)], rig.now)
        assert recounts.ask_for_windows(connection, "dc1", "t", [0], rig.now) == 0
        late = recounts.RecountRequest("t", 0, recounts.RECONCILE, 0, 1, 0, rig.now)
        recounts.ask(connection, "dc1", [late])
    assert rig.asked() == []
    rig.now += 60_000
    rig.work()
    assert rig.slow() == []


def test_a_row_that_is_broken_while_its_window_is_read_stops_nothing(rig: Rig) -> None:
    """A row of a window was broken by hand while the window was read again. To put the new count in
    its place failed at every step, and nothing else was ever counted again."""
    rig.cluster.at_once = 1
    rig.ask(0, W)
    rig.collector.recounting.step(rig.now - 1000)  # which is late at once: one fetch
    with rig.store.write() as connection:
        broken = observations.update().where(observations.c.window == 0)
        connection.execute(broken.values(ranges="nonsense"))
    rig.work()
    assert rig.asked() == []
    assert rig.incidents() == ["absurd"]


def test_requests_and_archived_windows_are_read_in_pages(rig: Rig) -> None:
    """For each window that a scrub of a year read again, it loaded all windows that were archived
    since, and all open requests. In pages it finds the same; ``ends`` that make no sense are of no
    partition, and end nothing."""
    rows = [
        {
            "cluster": "dc1", "topic": "old", "window": n, "cells": 1,
            "packed": b"", "packed_at": 1,
            "ends": {10: "nonsense", 1200: [[1, 5]]}.get(n, [[0, 5]]),
        }
        for n in range(1201)
    ]  # fmt: skip
    some = [recounts.RecountRequest("old", 0, "scrub 1", n, n + 1, n, 1) for n in range(1201)]
    with rig.store.write() as connection:
        connection.execute(archive.insert(), rows)
        recounts.ask(connection, "dc1", some)
    assert rig.asked() == some
    with rig.store.read() as connection:
        first = recounts.RecountRequest("old", 1, "scrub 2", 0, 2000, 0, 1)
        assert recounts.next_window(connection, "dc1", first) == 1200
        assert recounts.next_window(connection, "dc1", first, leave_out=1200) is None
        assert recounts.next_window(connection, "dc1", replace(first, end=1200)) is None
        again = replace(first, partition=0, next_window=10)
        assert recounts.next_window(connection, "dc1", again) == 11
    with rig.store.write() as connection:
        assert recounts.ask_for_windows(connection, "dc1", "old", [9, 10, 11], 1) == 2


def test_the_slow_scrub_goes_on_where_it_was_and_finds_what_is_gone(rig: Rig) -> None:
    """A collector with ``audit.scrub_rate`` finds by itself what was lost at rest, window after
    window, no faster than it may; one that starts anew begins with the next, not with the first."""
    rig.scrub_rate, rig.cluster.at_once = 1, 20
    rig.cluster.log().append(stamped(0, 1, timestamp=10**9))  # of a window that has not ended
    rig.start()
    rig.count()
    rig.now += 60_000
    rig.collector.recounting.step(rig.now)
    (at,) = rig.slow()
    assert (at.windows, at.next_window) == (1, 1), "the first window, and then its time is spent"
    rig.work(3)
    assert rig.slow() == [at]
    del rig.cluster.log().batches[5]
    rig.start()
    rig.count()
    rig.now += 60_000
    rig.collector.recounting.step(rig.now)
    assert rig.ranges(W) == RangeSet()
    assert rig.incidents() == ["recounted"]
    (at,) = rig.slow()
    assert at.windows == 2


def test_the_slow_scrub_rests_when_all_was_read(rig: Rig) -> None:
    rig.scrub_rate = 1 << 20
    rig.start()
    rig.count()
    rig.now += 60_000
    rig.work()
    (at,) = rig.slow()
    assert at.windows == 2
    rig.now += 2 * PASS_MS
    rig.work()
    (at,) = rig.slow()
    assert at.windows == 4


def runs(ranges: list[tuple[int, int]]) -> list[SeenRun]:
    return [
        SeenRun(CELL, first, 1000 + first, count=size, min_timestamp=5, max_timestamp=6)
        for first, size in ranges
    ]


SOME = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=8)


@given(SOME, SOME)
def test_counting_again_gives_what_is_there_however_often(
    first: list[tuple[int, int]], then: list[tuple[int, int]]
) -> None:
    """Whatever the log held and holds: what is kept afterwards is what it holds, and to do the same
    again changes nothing."""
    before = count(runs(first), 0, {})
    now = count(runs(then), 0, {})
    changed = changed_cells(before.values(), now, log_start=0)
    held = {**before, **{seen.key: seen for seen in changed}}
    kept, there = held.get(CELL, Observation(CELL)), now.get(CELL, Observation(CELL))
    assert (kept.count, kept.ranges) == (there.count, there.ranges)
    assert changed_cells(held.values(), now, log_start=0) == []
    fewer, more = difference(before.values(), changed)
    assert more - fewer == there.count - before.get(CELL, Observation(CELL)).count
