"""How many cells a partition may open, and what is judged of records that it could not pay for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.collector.counting.cells import count
from tallymark_audit.collector.limits.openings import HOUR, UNREPORTED, Budget, admit, head_of
from tallymark_audit.collector.limits.patience import LONGEST_MS, REST_MS, Patience
from tallymark_audit.collector.limits.window_bound import overflow_window
from tallymark_audit.judge.assemble import producer_facts
from tallymark_audit.judge.verdicts import GOOD, Clock, ReporterFacts, State, judge
from tallymark_audit.model.cells import OVERFLOW, CellKey, Edge
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.model.sides import Claim, Observation
from tallymark_audit.store.counted.openings import Spent
from tallymark_audit.store.counted.positions import Position

W = 60_000
NOW = 1_000_000 * W
PLACE = ("t", 0)
PRODUCER = Edge("producer-to-dc1", "producer", "dc1", "producer")


def cells(number: int, window: int = NOW, first: int = 0) -> list[CellKey]:
    return [CellKey("t", 0, window, "web", f"{first + n:016x}") for n in range(number)]


def test_a_thousand_producers_that_start_at_once_are_all_told_apart() -> None:
    """A fleet restarts, twice in a minute, before anybody of it has reported."""
    budget = Budget(2_000, W)
    once = admit(budget, Spent(), cells(1_000), (), PLACE, NOW, NOW)
    again = admit(budget, once.spent, cells(1_000, first=1_000), (), PLACE, NOW, NOW + 500)
    assert not once.refused
    assert not again.refused


def test_fifty_thousand_random_runs_open_what_the_settings_allow() -> None:
    """Fifty thousand stamps of random runs within a second made as many rows of the store."""
    made = admit(Budget(2_000, W), Spent(), cells(50_000), (), PLACE, NOW, NOW)
    assert len(made.refused) == 48_000
    assert set(made.refused.values()) == {CellKey("t", 0, NOW, OVERFLOW, "")}


def test_an_hour_of_it_opens_no_more_than_an_hour_may() -> None:
    """Who goes on for an hour has five minutes' worth, and as much again in the time."""
    budget, spent, opened = Budget(100, W), Spent(), 0
    for minute in range(60):
        now = NOW + minute * W
        made = admit(budget, spent, cells(1_000, now, minute * 1_000), (), PLACE, now, now)
        opened, spent = opened + 1_000 - len(made.refused), made.spent
    assert opened <= 2 * HOUR * 100


def test_what_is_spent_comes_back_with_time_and_not_with_a_clock_that_goes_back() -> None:
    budget = Budget(10, W)
    spent = admit(budget, Spent(), cells(10), (), PLACE, NOW, NOW).spent
    assert budget.left(spent, NOW) == 0
    assert budget.left(spent, NOW - W) == 0
    assert budget.left(spent, NOW + W // 2) == 5 * UNREPORTED
    assert budget.left(spent, NOW + W) == 10 * UNREPORTED


def test_runs_that_have_reported_cost_nothing_in_windows_of_about_now() -> None:
    """Ten thousand producers go on, window by window: their cells are no news."""
    budget, keys = Budget(10, W), cells(10_000)
    made = admit(budget, Spent(), keys, {key.run for key in keys}, PLACE, NOW, NOW)
    assert not made.refused
    assert budget.left(made.spent, NOW) == 10 * UNREPORTED


def test_what_lies_far_back_in_a_log_costs_nothing_while_it_is_read() -> None:
    """A collector that was away for a week reads a week of windows at once."""
    budget, then = Budget(10, W), NOW - 10_000 * W
    keys = [cells(1, then + n * W)[0] for n in range(5)]
    made = admit(budget, Spent(), keys, {keys[0].run}, PLACE, then, NOW)
    assert budget.left(made.spent, NOW) == 10 * UNREPORTED


def test_stamps_all_over_time_open_a_bounded_number_of_windows() -> None:
    """A record without a stamp, or of a run that reports, in each window of a year."""
    bare = [CellKey("t", 0, NOW - n * 10 * W, "", "") for n in range(5_000)]
    named = [key._replace(server="web", instance="a" * 16) for key in bare]
    for keys in (bare, named):
        made = admit(Budget(10, W), Spent(), keys, {("web", "a" * 16)}, PLACE, NOW, NOW)
        assert len(made.refused) >= 5_000 - 10 * UNREPORTED - 1
        assert set(made.refused.values()) == {CellKey("t", 0, overflow_window(W), OVERFLOW, "")}


def test_few_records_of_another_time_do_not_move_the_time_of_a_log() -> None:
    runs = [SeenRun(cells(1)[0], 0, 0, count=100, max_timestamp=NOW)]
    runs += [SeenRun(cells(1)[0], n, n, count=1, max_timestamp=5 * NOW) for n in range(40)]
    assert head_of(runs) == NOW
    assert head_of([]) == -1


class Tight:
    """A ledger of two partitions; ``t`` has spent much."""

    def __init__(self, behind: bool) -> None:
        topics = (AUDIT_TOPIC, 100 if behind else 10), ("t", 10), ("u", 10)
        self.positions = {
            (topic, 0): Position(topic, 0, next_offset=10, high_watermark=end)
            for topic, end in topics
        }
        self.opener = self

    def is_tight(self, place: TopicPartition, now: int) -> bool:
        return place[0] == "t"


def test_runs_are_no_strangers_before_their_reports_are_read() -> None:
    """A new store is filled from old logs: the runs in them have all reported, further on in an
    audit topic that is not read yet."""
    patience, ledger = Patience(), Tight(behind=True)
    places = list(ledger.positions)
    others = [place for place in places if place[0] != "t"]
    assert patience.without_waiting(places, ledger, NOW) == others
    assert patience.without_waiting(places, ledger, NOW + LONGEST_MS - 1) == others
    assert patience.without_waiting(places, ledger, NOW + LONGEST_MS) == places
    assert patience.without_waiting(places, ledger, NOW + REST_MS) == others
    assert patience.without_waiting(places, Tight(behind=False), NOW + REST_MS) == places


@given(
    fates=st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=8),
    reported=st.sets(st.integers(0, 7)),
    most=st.integers(1, 3),
    strangers=st.integers(0, 5),
    batch=st.integers(1, 4),
)
def test_overflow_never_completes_a_loss_nor_invents_one(
    fates: list[list[bool]], reported: set[int], most: int, strangers: int, batch: int
) -> None:
    """Runs send records of which some are lost, forged ones come between them, and the partition
    can pay for few: whatever falls into the overflow cell, a window in which something is lost is
    not complete, and one in which nothing is lost shows no loss."""
    budget, spent = Budget(most, W), Spent()
    seen: dict[CellKey, Observation] = {}
    names = [f"{n:016x}" for n in range(len(fates))]
    runs: list[SeenRun] = []
    for name, fate in zip(names, fates, strict=True):
        key = CellKey("t", 0, NOW, "web", name)
        runs += [SeenRun(key, n, len(runs) + n, count=1) for n, kept in enumerate(fate) if kept]
    runs += [SeenRun(key, 0, 10**6, count=1) for key in cells(strangers, NOW, 10**6)]
    runs.sort(key=lambda run: (run.first, run.key))
    for start in range(0, len(runs), batch):
        some = runs[start : start + batch]
        new = [key for key in dict.fromkeys(run.key for run in some) if key not in seen]
        known = {("web", names[n]) for n in reported if n < len(names)}
        made = admit(budget, spent, new, known, PLACE, NOW, NOW + start)
        spent = made.spent
        for run in some:
            run.key = made.refused.get(run.key, run.key)
        seen |= count(some, 0, seen)
    claims = {
        key: Claim(key, accepted=sent, acknowledged=sent)
        for name, fate in zip(names, fates, strict=True)
        for key in [CellKey("t", 0, NOW, "web", name)]
        for sent in [RangeSet.single(0, len(fate) - 1)]
    }
    later = NOW + 100 * W
    clock = Clock(later, W, 500, 3000, later, later)
    heard = [ReporterFacts(f"producer-{n}", n, "web", 0, later, later) for n in names]
    hidden = sum(cell.count for key, cell in seen.items() if key.overflow)
    facts = producer_facts(claims, seen)
    found = judge(PRODUCER, "t", NOW, facts, heard, clock, hidden=hidden)
    lost = sum(fate.count(False) for fate in fates)
    if lost or hidden or strangers:
        assert found.state not in GOOD
    if not lost:
        assert found.state not in (State.LOSS, State.MIXED)
    assert found.missing <= lost
    if not hidden:
        assert found.missing == lost
        assert (found.state is State.LOSS) == bool(lost)
