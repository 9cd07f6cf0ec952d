"""Two counters that agree say nothing; one that is broken is reported, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tallying import DEPLOYMENT, LATE, PERIOD, W, claim_of, key_of, knowing, shared_of, tally_of

from tallymark.deployment import LakeSettings
from tallymark_audit.events.claim_book import CarriedKey, PartKey, Reporter
from tallymark_audit.judge.verdicts import State, Verdict
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Claim
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.counted import recounts
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.schema.rows import Row
from tallymark_spark_jobs.reconcile import ledger
from tallymark_spark_jobs.reconcile.judging.groups import judge_group
from tallymark_spark_jobs.reconcile.outcome import Outcome
from tallymark_spark_jobs.reconcile.shapes.tallies import ClaimPart, Seen

KEYS = [key_of(window * W, instance) for window in range(4) for instance in (1, 2)]
CLAIMS = [claim_of("dc1", key, [(0, 49)]) for key in KEYS]
EDGES = shared_of(CLAIMS).edges


def truth() -> dict[tuple[str, int], list[int]]:
    """By cluster and number of the cell, its sequences in their order. All kinds of faults: the
    first window is clean, the second lost some, the third has copies, the fourth both."""
    found = {("dc1", number): list(range(50)) for number in range(len(KEYS))}
    for number, key in enumerate(KEYS):
        window = key.window // W
        lost = {7, 8, 30} if window in (1, 3) else set[int]()
        copies = [3, 3, 40] if window in (2, 3) else list[int]()
        found["aggregate", number] = [one for one in range(50) if one not in lost] + copies
    return found


def judged(counts: dict[tuple[str, int], list[int]]) -> tuple[Verdict, ...]:
    seen = [
        Seen(cluster, tally_of(KEYS[number], held)) for (cluster, number), held in counts.items()
    ]
    found = judge_group(knowing(shared_of(CLAIMS), seen), ["t"], seen, CLAIMS)
    assert not found.unresolved
    return tuple(found.verdicts)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as opened:
        yield opened


def compared(
    store: Store, collector: tuple[Verdict, ...], spark: tuple[Verdict, ...]
) -> tuple[Row, ...]:
    with store.write() as connection:
        record_verdicts(connection, collector, COLLECTOR, LATE - 1)
    run = Outcome(PERIOD, LATE, spark, {}, {}, idle=False, edges=EDGES)
    ledger.record(store, run, LATE, LATE + 1)
    return ledger.disagreements(store, run)


def test_two_that_count_right_agree_on_every_fault(store: Store) -> None:
    verdicts = judged(truth())
    states = {one.state for one in verdicts}
    assert states == {State.COMPLETE, State.LOSS, State.DUPLICATION, State.MIXED}
    assert compared(store, verdicts, verdicts) == ()
    with store.read() as connection:
        assert list(recounts.to_do(connection, "aggregate")) == []


Break = Callable[[list[int]], list[int]]
BREAKS: dict[str, Break] = {
    "forgets one": lambda held: held[1:],
    "counts one twice": lambda held: [*held, held[0]],
    "takes one for another": lambda held: [*held[1:], held[1]],
    "counts none": lambda held: [],
}


@pytest.mark.soak_cases("4", "5", "6", "7")
@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("cluster", ["dc1", "aggregate"])
@pytest.mark.parametrize("broken", ["collector", "spark"])
@pytest.mark.parametrize("number", range(len(KEYS)))
def test_a_broken_counter_is_reported(
    store: Store, number: int, broken: str, cluster: str, how: str
) -> None:
    counts = truth()
    counts[cluster, number] = BREAKS[how](counts[cluster, number])
    right, wrong = judged(truth()), judged({at: held for at, held in counts.items() if held})
    both = (wrong, right) if broken == "collector" else (right, wrong)
    found = compared(store, *both)
    window = KEYS[number].window
    assert {row["window"] for row in found} == {window}
    expected = {"dc1": {"producer-to-dc1", "dc1-to-aggregate"}, "aggregate": {"dc1-to-aggregate"}}
    assert {row["edge"] for row in found} <= expected[cluster]
    assert all(row["spark_judged_at"] == LATE for row in found)


def test_what_the_collector_decided_later_is_no_disagreement(store: Store) -> None:
    right = judged(truth())
    with store.write() as connection:
        late = [replace(one, state=State.COMPLETE, missing=0, duplicates=0) for one in right]
        record_verdicts(connection, late, COLLECTOR, LATE + 50)
    run = Outcome(PERIOD, LATE, right, {}, {}, idle=False, edges=EDGES)
    ledger.record(store, run, LATE, LATE + 1)
    assert ledger.disagreements(store, run) == ()


def test_the_hop_into_the_lake_is_judged_like_any_other() -> None:
    """What the load reports of its commits is compared with what Spark counts in the log, not with
    what the load counted there."""
    deployment = DEPLOYMENT.model_copy(update={"lake": LakeSettings(clusters=("aggregate",))})
    name = "lake-aggregate/t@1"
    counts = {at: held for at, held in truth().items() if KEYS[at[1]].window == 0}
    loaded = [
        ClaimPart("aggregate", PartKey(name, key, commit), 1, Claim(key, ranges, ranges, count=25))
        for key in KEYS
        if key.window == 0
        for commit, ranges in enumerate((RangeSet([(0, 24)]), RangeSet([(25, 49)])))
    ]
    states: list[set[tuple[str, int]]] = []
    for reports in (loaded, loaded[:-1], [*loaded, replace_part(loaded[0], 7)]):
        seen = [Seen(at, tally_of(KEYS[number], held)) for (at, number), held in counts.items()]
        shared = knowing(shared_of(CLAIMS, deployment), seen)
        book = shared.facts.books["aggregate"]
        book.reporters[name] = Reporter(
            name, "lake", "lake", consumer_group="lake", last_heard=LATE
        )
        book.copied[CarriedKey(name, "t", 0)] = LATE, 10_000
        told = judge_group(shared, ["t"], seen, [*CLAIMS, *reports]).verdicts
        states.append(
            {
                (str(one.state), one.missing + one.duplicates)
                for one in told
                if one.edge == "aggregate-to-lake"
            }
        )
    assert states == [{("COMPLETE", 0)}, {("LOSS", 25)}, {("DUPLICATION", 25)}]


def replace_part(claim: ClaimPart, commit: int) -> ClaimPart:
    """The same rows, brought by another commit too."""
    return claim._replace(part=claim.part._replace(part=commit))
