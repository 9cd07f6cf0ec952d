"""Where audits of the count-by-window kind went wrong, told one by one; none of it happens here.

Every test plays one story through the small world of :mod:`audit_world`, or through the verdict
function alone, and says what others concluded from it.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from audit_parts import W
from audit_world import SILENCE, World

from tallymark.client.producing.stamps import Stamp
from tallymark_audit.collector.counting.cells import count
from tallymark_audit.judge.assemble import producer_facts
from tallymark_audit.judge.unnamed import weigh
from tallymark_audit.judge.verdicts import Clock, ReporterFacts, State, Verdict, judge
from tallymark_audit.judge.watermarks import JudgedWindow, watermark
from tallymark_audit.model import sketches
from tallymark_audit.model.cells import CellKey, Copy, Edge, Summary, window_of
from tallymark_audit.model.hashing import fingerprint
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.record_runs import MAX_TIMESTAMP, Rules, runs_in
from tallymark_audit.model.sides import CellFacts, Claim, Observation
from tallymark_audit.model.time_format import percent
from tallymark_audit.testing import MemoryLog, Told

EDGE = Edge("producer-to-dc1", "producer", "dc1", "producer")
MIRROR = Edge("dc1-to-aggregate", "dc1", "aggregate", "mirror")
KEY = CellKey("t", 0, 0, "web", "00" * 8)
NOW = 1_000_000
CLOCK = Clock(NOW, W, 500, SILENCE, NOW, NOW)
ALIVE = ReporterFacts("p", KEY.instance, "web", 0, NOW, NOW)


def span(first: int, last: int) -> RangeSet:
    return RangeSet.single(first, last)


def claim(sequences: RangeSet, **more: Any) -> Claim:
    fields: dict[str, Any] = {
        "accepted": sequences,
        "acknowledged": sequences,
        "count": sequences.size,
    } | more
    return Claim(KEY, **fields)


def seen(sequences: RangeSet, copies: int = 0, **more: Any) -> Observation:
    again = tuple(Copy(0, 900 + at, sequences.first) for at in range(copies))
    return Observation(KEY, sequences.size + copies, 0, sequences, again, **more)


def verdict(told: Claim | None, there: Observation | None, edge: Edge = EDGE) -> Verdict:
    return judge(edge, "t", 0, [CellFacts(KEY, told, there)], [ALIVE], CLOCK)


def played(*steps: tuple[Any, ...]) -> World:
    world = World(Random(1))
    world.play(steps)
    return world


def states(world: World, edge: str) -> set[str]:
    return {str(world.verdict(edge, window).state) for window in world.windows()}


# --- 3.1 to which window a message belongs ------------------------------------------------------


def test_a_message_without_a_time_is_in_no_window_of_time() -> None:
    """An auditor put such messages into the window of its own clock: two tiers that read them
    minutes apart saw a loss in one window and a surplus in the other."""
    assert window_of(-1, W) == window_of(-12345, W) == -W
    assert window_of(0, W) == 0


def test_both_tiers_choose_the_window_by_the_stamp_whenever_they_read() -> None:
    """Another binned by the time of sending on one side and of reading on the other."""
    log = MemoryLog()
    log.append([Told(Stamp(b"instance", 0, n, "web"), 500 + n * 300) for n in range(4)])
    early, late = (
        count(runs_in(log.batches, "t", 0, 0, Rules(W, MAX_TIMESTAMP, seen_at=at)), 0, {})
        for at in (2_000, 900_000)
    )
    assert {k: s.count for k, s in early.items()} == {k: s.count for k, s in late.items()}
    assert {key.window: one.count for key, one in early.items()} == {0: 2, 1000: 2}


# --- 3.2 late data ------------------------------------------------------------------------------


def test_late_data_changes_the_verdict_of_its_own_window() -> None:
    """Others add it to the window that is open, or to a row without a history."""
    world = played(("send", "aa", 0, 5, 0, "stored"), ("report", "aa", "delivered"))
    window = min(world.windows())
    world.settle()
    assert world.verdict("producer-to-dc1", window).state is State.COMPLETE
    world.send("bb", 0, 2, world.now - window, "acknowledged but lost")
    world.report("bb", "delivered")
    assert world.verdict("producer-to-dc1", window).state in (State.SETTLING, State.UNKNOWN)
    world.settle()
    found = world.verdict("producer-to-dc1", window)
    assert (found.state, found.missing) == (State.LOSS, 2)


def test_a_watermark_never_jumps_over_an_older_hole() -> None:
    """A verifier walked the hours from the newest back, and stopped at the first complete one: an
    incomplete hour before it was published as if it were complete."""
    windows = [
        JudgedWindow(0, State.COMPLETE),
        JudgedWindow(W, State.LOSS),
        JudgedWindow(2 * W, State.COMPLETE),
    ]
    assert watermark(windows, 3 * W, W).through == W


# --- 3.3 restarts -------------------------------------------------------------------------------


def test_a_producer_that_is_killed_takes_no_claim_with_it() -> None:
    """A client library counted in memory: each crash lost up to a minute of counts, and what was
    lost with them nobody ever missed."""
    world = played(
        ("send", "aa", 0, 5, 0, "stored"),
        ("send", "aa", 0, 3, 0, "acknowledged but lost"),
        ("crash", "aa", True),
    )
    world.settle()
    (found,) = [world.verdict("producer-to-dc1", at) for at in world.windows()]
    assert (found.state, found.missing, str(found.cells[0].missing)) == (State.LOSS, 3, "5-7")


def test_without_a_journal_its_windows_are_not_green() -> None:
    world = played(
        ("send", "aa", 0, 5, 0, "stored"),
        ("report", "aa", "delivered"),
        ("send", "aa", 0, 3, 0, "acknowledged but lost"),
        ("crash", "aa", False),
    )
    world.settle()
    assert states(world, "producer-to-dc1") == {"UNKNOWN"}


def test_a_counter_that_crashes_counts_nothing_twice() -> None:
    """A collector stored the offset it had processed instead of the next one: each restart counted
    one record again, per partition."""
    world = played(
        ("send", "aa", 0, 5, 0, "stored"),
        ("collect", "dc1", 0, 50, True),
        ("collect", "dc1", 0, 50, True),
        ("collect", "dc1", 0, 50, False),
    )
    world.settle()
    assert states(world, "producer-to-dc1") == {"COMPLETE"}


# --- 3.4 audit events come twice, late, or not at all -------------------------------------------


@pytest.mark.parametrize("fate", ["repeated", "lost", "delayed"])
def test_whatever_becomes_of_audit_events_the_next_one_heals(fate: str) -> None:
    """Counts that are added up need every event exactly once; others look ids up in a cache with a
    time to live, which fails open."""
    world = played(
        ("send", "aa", 0, 5, 0, "stored"),
        ("report", "aa", fate),
        ("send", "aa", 0, 5, 0, "retried into a duplicate"),
        ("report", "aa", fate),
    )
    world.settle()
    (found,) = [world.verdict("producer-to-dc1", at) for at in world.windows()]
    assert (found.state, found.claimed, found.duplicates) == (State.DUPLICATION, 10, 5)


# --- 3.5 counts that cancel ---------------------------------------------------------------------


def test_fifty_lost_and_fifty_repeated_are_not_perfect() -> None:
    """Every system that compares counts calls this complete."""
    found = verdict(claim(span(0, 99)), seen(span(0, 49), copies=50))
    assert (found.claimed, found.missing, found.duplicates) == (100, 50, 50)
    assert found.state is State.MIXED


def test_neither_do_they_cancel_where_only_counts_are_left() -> None:
    """The same in a cell with more ranges than are kept: as many, but not the same."""
    told = Claim(KEY, summary=Summary(100, 100, 0, 0, fingerprint(span(0, 99))))
    hashes = fingerprint(span(0, 98)) + fingerprint(span(0, 0))
    there = Observation(KEY, 100, fingerprint=hashes & ((1 << 64) - 1))
    assert verdict(told, there).state is State.MIXED
    same = Observation(KEY, 100, fingerprint=fingerprint(span(0, 99)))
    found = verdict(told, same)
    assert (found.state, found.reasons) == (
        State.COMPLETE,
        ("more ranges than are kept: counted and hashed, not named",),
    )


def test_where_numbers_leave_it_open_nothing_is_complete() -> None:
    """Ten promised, two in doubt, eleven there: perhaps one in doubt arrived, perhaps one was lost
    and both arrived."""
    told = Claim(KEY, summary=Summary(12, 10, 0, 2, fingerprint(span(0, 9))))
    there = Observation(KEY, 11, fingerprint=12345)
    found = verdict(told, there)
    assert found.state is State.UNKNOWN
    assert weigh(told, replace(there, count=9), EMPTY).missing == 1
    assert weigh(told, replace(there, count=13), EMPTY).surplus == 1


@pytest.mark.parametrize("gone", [0, 99, 50])
def test_the_first_and_the_last_message_are_missed_too(gone: int) -> None:
    """Gaps in sequences show a loss in the middle only; the producer's own claim closes the ends,
    and a producer of which nothing arrived."""
    found = verdict(claim(span(0, 99)), seen(span(0, 99) - span(gone, gone)))
    assert [str(cell.missing) for cell in found.cells] == [str(gone)]
    assert verdict(claim(span(0, 99)), None).missing == 100


def test_out_of_order_is_neither_lost_nor_repeated() -> None:
    """A tester took a message that came late for a loss, and set itself back: its published loss
    of 0.01 % was of its own making."""
    world = played(
        ("send", "aa", 0, 5, 0, "delayed on the way"),
        ("send", "aa", 0, 5, 0, "stored"),
        ("flush", "reversed"),
        ("mirror", "dc1", 0, "shuffled"),
    )
    world.settle()
    assert states(world, "producer-to-dc1") == states(world, "dc1-to-aggregate") == {"COMPLETE"}


def test_a_restart_is_a_new_run_with_numbers_of_its_own() -> None:
    """Numbers that began at 0 again looked like a flood of duplicates."""
    world = played(
        ("send", "aa", 0, 5, 0, "stored"),
        ("crash", "aa", True),
        ("send", "aa", 0, 5, 0, "stored"),
    )
    world.settle()
    assert states(world, "producer-to-dc1") == {"COMPLETE"}


def test_sequences_that_cross_a_window_leave_no_hole_in_either() -> None:
    """An hourly job looked at least and greatest number of the hour, and lost what had slipped
    into the next one."""
    world = played(
        ("send", "aa", 0, 5, 0, "stored"),
        ("send", "aa", 0, 5, 900, "stored"),
        ("send", "aa", 0, 5, 0, "stored"),
        ("send", "aa", 0, 5, -1500, "stored"),
    )
    world.settle()
    assert len(world.windows()) > 1
    assert states(world, "producer-to-dc1") == {"COMPLETE"}


# --- 3.6 no data --------------------------------------------------------------------------------


def test_no_data_is_not_complete() -> None:
    """x/0 is infinite, more than 99.9 %, so complete: a unit test of the verifier asserted it."""
    silent = replace(ALIVE, last_heard=0, complete_through=0)
    assert judge(EDGE, "t", 0, [], [silent], CLOCK).state is State.UNKNOWN
    down = replace(CLOCK, downstream_through=0)
    assert judge(EDGE, "t", 0, [], [ALIVE], down).state is State.UNKNOWN
    assert percent(0, 0) == "-"


def test_one_tier_that_agrees_does_not_excuse_the_other() -> None:
    """A compaction passed as soon as any one tier of reference agreed."""
    world = played(("send", "aa", 0, 5, 0, "stored"), ("mirror", "dc1", 0, "dropped"))
    world.settle()
    assert states(world, "producer-to-dc1") == {"COMPLETE"}
    assert states(world, "dc1-to-aggregate") == {"LOSS"}


# --- 3.7 clocks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [-90_000_000, 900_000_000])
def test_a_record_with_an_absurd_time_is_judged_all_the_same(delay: int) -> None:
    """What was filtered for its time was out of the audit: its loss was nobody's."""
    world = played(("send", "aa", 0, 5, delay, "acknowledged but lost"), ("report", "aa", "lost"))
    world.now += max(0, -delay) + 10_000
    world.settle()
    (found,) = [world.verdict("producer-to-dc1", at) for at in world.windows()]
    assert (found.state, found.missing) == (State.LOSS, 5)


# --- 3.8 batches --------------------------------------------------------------------------------


def test_records_are_counted_and_not_batches() -> None:
    """One packed record that held many was counted as one."""
    log = MemoryLog()
    log.append([Told(Stamp(b"instance", 0, n, "web")) for n in range(500)])
    (one,) = count(runs_in(log.batches, "t", 0, 0, Rules(W, MAX_TIMESTAMP)), 0, {}).values()
    assert (len(log.batches), one.count, one.ranges) == (1, 500, span(0, 499))


# --- 3.9 samples --------------------------------------------------------------------------------


def test_one_message_of_a_million_is_found_and_never_rounded_away() -> None:
    """A sample of one in a hundred misses it; 99.9999 % is shown as 100 %, and passes 99.9 %."""
    whole = span(0, 999_999)
    found = verdict(claim(whole), seen(whole - span(123_456, 123_456)))
    assert (found.state, str(found.cells[0].missing)) == (State.LOSS, "123456")
    assert percent(found.observed, found.claimed) == "99.9999"


# --- 3.10 transactions --------------------------------------------------------------------------


def test_what_was_aborted_is_explained_and_no_loss() -> None:
    """The producer's count has it, a reader of committed records never sees it: a loss for ever."""
    world = played(("send", "aa", 0, 5, 0, "stored"), ("send", "aa", 0, 3, 0, "aborted"))
    world.settle()
    (found,) = [world.verdict("producer-to-dc1", at) for at in world.windows()]
    assert (found.state, found.explained) == (State.EXPLAINED, 3)
    assert [(why.reason, str(why.ranges)) for why in found.cells[0].explanations] == [
        ("aborted", "5-7")
    ]
    assert states(world, "dc1-to-aggregate") == {"COMPLETE"}


def test_what_was_committed_and_is_aborted_in_the_log_is_lost() -> None:
    """The log says why, which does not excuse it: the commit was promised."""
    found = verdict(claim(span(0, 9)), seen(span(0, 5), aborted=span(6, 9)))
    assert (found.state, found.explained, found.missing) == (State.LOSS, 0, 4)
    assert "aborted" in found.reasons[0]


def test_what_a_killed_producer_left_in_doubt_is_explained_by_the_log() -> None:
    """Its coordinator aborted the transaction when its time was over."""
    killed = replace(claim(span(0, 5)), accepted=span(0, 9), in_doubt=span(6, 9))
    found = verdict(killed, seen(span(0, 5), aborted=span(6, 9)))
    assert (found.state, found.missing) == (State.EXPLAINED, 0)
    assert [why.reason for why in found.cells[0].explanations] == ["aborted"]


def test_what_was_in_doubt_and_is_committed_is_complete() -> None:
    killed = replace(claim(span(0, 5)), accepted=span(0, 9), in_doubt=span(6, 9))
    found = verdict(killed, seen(span(0, 9)))
    assert (found.state, found.missing, found.unclaimed) == (State.COMPLETE, 0, 0)


def test_what_was_aborted_and_can_be_read_is_no_part_of_a_complete_window() -> None:
    """All that was claimed is there, and records that must not be."""
    whole = replace(claim(span(0, 5)), accepted=span(0, 9), aborted=span(6, 9))
    found = verdict(whole, seen(span(0, 7)))
    assert (found.state, found.missing, found.unclaimed) == (State.UNCLAIMED, 0, 2)
    assert "aborted" in found.reasons[0]


def test_a_report_of_the_commit_counts_for_more_than_a_journal_that_knows_of_none() -> None:
    done = claim(span(0, 9))
    for unclear in (
        replace(done, acknowledged=EMPTY, aborted=span(0, 9)),
        replace(done, acknowledged=EMPTY, in_doubt=span(0, 9)),
    ):
        for both in (done.merge(unclear), unclear.merge(done)):
            assert (both.claimed, both.aborted, both.in_doubt) == (span(0, 9), EMPTY, EMPTY)
            assert verdict(both, seen(span(0, 9))).state is State.COMPLETE


def test_offsets_are_never_subtracted() -> None:
    """Markers of transactions and compaction take offsets without being messages."""
    log = MemoryLog()
    log.append([Told(Stamp(b"instance", 0, n, "web")) for n in range(5)], producer=7)
    log.end_transaction(7, commit=True)
    log.append([Told(Stamp(b"instance", 0, n, "web")) for n in range(5, 9)])
    (one,) = count(runs_in(log.batches, "t", 0, 0, Rules(W, MAX_TIMESTAMP)), 0, {}).values()
    assert (one.last_offset - one.first_offset + 1, one.count) == (10, 9)


# --- 3.11 renames and fan-in --------------------------------------------------------------------


def test_two_sources_flow_into_one_topic_of_another_name() -> None:
    """Metrics go by the remote name, and the sum of the sources hides which one lost."""
    world = played(
        ("send", "aa", 0, 5, 0, "stored"),
        ("send", "cc", 0, 5, 0, "stored"),
        ("mirror", "dc2", 0, "half"),
        ("mirror", "dc1", 0, "twice"),
    )
    world.settle()
    assert states(world, "dc1-to-aggregate") == {"DUPLICATION"}
    assert states(world, "dc2-to-aggregate") == {"LOSS"}
    assert states(world, "producer-to-aggregate") == {"COMPLETE"}


# --- 3.12 mirrors -------------------------------------------------------------------------------


def test_a_mirror_that_skips_is_found_though_it_is_alive_and_caught_up() -> None:
    """Heartbeats prove that a mirror lives; its lag is 0; nothing compares what arrived."""
    world = played(("send", "aa", 0, 5, 0, "stored"), ("mirror", "dc1", 0, "dropped"))
    world.settle()
    (found,) = [world.verdict("dc1-to-aggregate", at) for at in world.windows()]
    assert (found.state, str(found.cells[0].missing)) == (State.LOSS, "0-4")


def test_what_retention_took_before_it_was_copied_is_not_passed_over() -> None:
    """The mirror saw the gap, and raised no alarm."""
    world = played(
        ("send", "aa", 0, 5, 0, "stored"),
        ("collect", "dc1", 0, 50, False),
        ("expire", "dc1", 0),
    )
    world.settle()
    (found,) = [world.verdict("dc1-to-aggregate", at) for at in world.windows()]
    assert (found.state, found.missing, str(found.cells[0].expired)) == (State.LOSS, 5, "0-4")
    assert "deleted upstream" in found.reasons[0]


def test_a_lag_is_not_a_loss() -> None:
    """Counts that are compared while the mirror is behind give false alarms every morning."""
    world = played(("send", "aa", 0, 5, 0, "stored"), ("collect", "dc1", 0, 50, False))
    world.now += 60_000
    for name in world.clusters:
        for partition in (0, 1):
            world.collect(name, partition, 50, False)
    world.mirror_reports("dc1", "delivered")
    world.collect("aggregate", 0, 50, False)
    (window,) = world.windows()
    assert world.verdict("dc1-to-aggregate", window).state is State.SETTLING


# --- 3.13 others --------------------------------------------------------------------------------


def test_percentiles_are_merged_from_counts_and_not_by_the_greatest() -> None:
    """The greatest P95 of a hundred hosts is no P95 of anything."""
    slow: sketches.Sketch = {}
    fast: sketches.Sketch = {}
    sketches.add(slow, 10_000, 10)
    sketches.add(fast, 10, 990)
    both = sketches.quantile(sketches.merged((slow, fast)), 0.95)
    assert both is not None
    assert both == pytest.approx(10, rel=0.03)


def test_counts_have_no_bound() -> None:
    """A counter of 32 bits ran over."""
    many = span(0, 2**40)
    found = verdict(claim(many), seen(many))
    assert (found.state, found.claimed) == (State.COMPLETE, 2**40 + 1)


def test_a_tier_that_says_nothing_is_missed() -> None:
    """A stranger's records were counted into whatever tier they turned up in."""
    facts = producer_facts({}, {KEY: seen(span(0, 4))})
    found = judge(EDGE, "t", 0, facts, [], CLOCK)
    assert (found.state, found.unclaimed) == (State.UNCLAIMED, 5)
