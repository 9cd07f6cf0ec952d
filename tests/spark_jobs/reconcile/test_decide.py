"""From counted runs and claims to verdicts, named losses, exit codes; without Spark."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tallymark.deployment import AuditSettings, Deployment, Mirror
from tallymark_audit.events.event_codec import encode_event
from tallymark_audit.events.events import AuditEvent, CellReport, Copied, Gap
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.cells import FOREVER, CellKey, Copy
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.model.ranges import EMPTY, RangeSet
from tallymark_audit.model.sides import Observation
from tallymark_audit.store import open_store
from tallymark_audit.store.counted import counts, recounts
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.reading import queries
from tallymark_spark_jobs.counting.tally import CellTally
from tallymark_spark_jobs.reconcile import ledger
from tallymark_spark_jobs.reconcile.judging.decide import Decision, decide
from tallymark_spark_jobs.reconcile.judging.spark_facts import Facts
from tallymark_spark_jobs.reconcile.outcome import Exit, Outcome, idle_through, to_json
from tallymark_spark_jobs.reconcile.reading.claims import Claims, read_claims
from tallymark_spark_jobs.reconcile.report import print_outcome
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.reconcile.shapes.resolve import Stretch
from tallymark_spark_jobs.reconcile.shapes.search import (
    Identity,
    LogSpan,
    Search,
    located,
    search_plan,
)
from tallymark_spark_jobs.reconcile.shapes.tallies import Seen, observations, parts

W = 5_000
DEPLOYMENT = Deployment(audit=AuditSettings(window_ms=W, settle_min_ms=5_000))
PERIOD = Period(None, 100_000)
LATE = 1_000_000
ONE, TWO = "11" * 8, "22" * 8


def run(
    cluster: str, first: int | None, last: int | None, instance: str = ONE, **more: Any
) -> Seen:
    count = last - first + 1 if first is not None and last is not None else 1
    offset = first or 0
    key = CellKey(
        more.pop("topic", "t"),
        more.pop("origin_partition", 0),
        more.pop("window", 0),
        "web-1" if instance else "",
        instance,
    )
    fields: dict[str, Any] = {
        "aborted": False,
        "messages": count,
        "extra": 0,
        "bytes": 10 * count,
        "malformed": 0,
        "ranges": () if first is None or last is None else ((first, last),),
        "copies": (),
        "digest_xor": 0,
        "digest_sum": 0,
        "first_partition": 0,
        "last_partition": 0,
        "first_offset": offset,
        "last_offset": offset + count - 1,
        "min_timestamp": 1,
        "max_timestamp": 2,
    }
    return Seen(cluster, CellTally(key, **{**fields, **more}))


def claims_of(*reports: tuple[str, str, int, int], aborted: RangeSet = EMPTY) -> Claims:
    """(cluster, instance, first, last) acknowledged but for what was ``aborted``, each by a
    reporter that has closed."""
    events = [
        AuditEvent(
            kind="producer",
            reporter=f"producer-{instance}",
            server="web-1",
            application="app",
            instance=instance,
            event_number=0,
            covers_from=0,
            emitted_at=10_000,
            window_ms=W,
            complete_through=FOREVER,
            closed=True,
            cells=(
                CellReport(
                    "t",
                    0,
                    0,
                    count=last - first + 1,
                    accepted=RangeSet.single(first, last),
                    acknowledged=RangeSet.single(first, last) - aborted,
                    aborted=RangeSet.single(first, last) & aborted,
                ),
            ),
        )
        for _, instance, first, last in reports
    ]
    pairs = [
        (cluster, encode_event(event))
        for (cluster, _, _, _), event in zip(reports, events, strict=True)
    ]
    return read_claims(pairs, W)


def judged(runs: list[Seen], claims: Claims, **more: Any) -> Decision:
    facts = Facts(as_of=LATE, observed=observations(runs), books=claims.books)
    return decide(DEPLOYMENT, replace(facts, **more), ["t"], PERIOD)


def outcome_of(decision: Decision, **more: Any) -> Outcome:
    fields: dict[str, Any] = {
        "period": PERIOD,
        "as_of": LATE,
        "verdicts": decision.verdicts,
        "places": {},
        "deferred": {},
        "idle": False,
    }
    return Outcome(**{**fields, **more})


CLAIMS = claims_of(("dc1", ONE, 0, 99), ("dc2", TWO, 0, 9))
HEALTHY = [
    run("dc1", 0, 99),
    run("dc2", 0, 9, TWO),
    run("aggregate", 0, 99),
    run("aggregate", 0, 9, TWO, first_offset=200, last_offset=209),
]
LOSSY = [
    *HEALTHY[:2],
    run("aggregate", 0, 39),
    run("aggregate", 45, 99, messages=56, extra=1, copies=(Copy(0, 77, 50),)),
    HEALTHY[3],
]


def test_what_is_all_there_is_complete_on_every_edge() -> None:
    decision = judged(HEALTHY, CLAIMS)
    assert {(one.edge, one.state) for one in decision.verdicts} == {
        ("producer-to-dc1", State.COMPLETE),
        ("producer-to-dc2", State.COMPLETE),
        ("dc1-to-aggregate", State.COMPLETE),
        ("dc2-to-aggregate", State.COMPLETE),
    }
    assert outcome_of(decision).state is Exit.COMPLETE


def test_a_loss_and_a_copy_are_found_apart_and_on_their_edge_only() -> None:
    decision = judged(LOSSY, CLAIMS)
    bad = [one for one in decision.verdicts if one.state is not State.COMPLETE]
    (verdict,) = bad
    assert (verdict.edge, verdict.state) == ("dc1-to-aggregate", State.MIXED)
    assert (verdict.missing, verdict.duplicates) == (5, 1)
    assert verdict.cells[0].missing == RangeSet.single(40, 44)
    assert verdict.cells[0].copies == ((0, 77, 50),)
    assert outcome_of(decision).state is Exit.DISCREPANCIES


def test_a_window_that_cannot_be_judged_is_unknown_and_the_others_are_judged() -> None:
    """What was counted of one window made no sense, and the reconciliation of the night ended with
    an error and without a verdict on anything."""
    runs = [*HEALTHY, run("dc1", 200, 209, window=W), run("dc1", 300, 309, window=2 * W)]
    observed = observations(runs)
    for window in (W, 2 * W):
        ((key, seen),) = observed["dc1", "t"][window].items()
        nonsense: Any = "no sequences"
        observed["dc1", "t"][window] = {key: replace(seen, ranges=nonsense)}
    decision = judged([], CLAIMS, observed=observed, retained_from={("dc2", "t"): 1})
    verdicts = {(one.edge, one.window): one for one in decision.verdicts}
    for edge in ("producer-to-dc1", "dc1-to-aggregate"):
        assert verdicts[edge, 0].state is State.COMPLETE
        for window in (W, 2 * W):
            unjudged = verdicts[edge, window]
            assert unjudged.state is State.UNKNOWN
            assert unjudged.reasons[0].startswith("cannot be judged: AttributeError: ")
    assert decision.deferred == (("producer-to-dc2", "t", 0), ("dc2-to-aggregate", "t", 0))
    outcome = outcome_of(decision)
    assert outcome.state is Exit.UNDECIDED
    said = io.StringIO()
    print_outcome(Console(file=said, width=200), outcome)
    assert "UNKNOWN, 4 windows: cannot be judged: AttributeError" in said.getvalue()


def test_the_search_reads_only_where_the_missing_can_be() -> None:
    decision = judged(LOSSY, CLAIMS)
    plan = search_plan(decision.verdicts, LOSSY, derive_edges(DEPLOYMENT))
    identity = Identity("t", 0, ONE)
    assert plan == {
        "dc1": Search({identity: RangeSet.single(40, 44)}, [Stretch("dc1", "t", 0, 0, 99)])
    }
    found = [LogSpan("dc1", "t", 0, 138, 141, 38, 41), LogSpan("dc1", "t", 0, 150, 152, 42, 44)]
    cell = next(one for one in decision.verdicts if one.cells).cells[0]
    assert located(cell, {identity: found}) == [
        LogSpan("dc1", "t", 0, 140, 141, 40, 41),
        LogSpan("dc1", "t", 0, 150, 152, 42, 44),
    ]


def test_what_a_cluster_lost_but_a_mirror_has_is_found_in_the_mirror() -> None:
    runs = [run("dc1", 0, 89), *HEALTHY[1:]]
    decision = judged(runs, CLAIMS)
    bad = {one.edge: one.state for one in decision.verdicts if one.state is not State.COMPLETE}
    assert bad["producer-to-dc1"] is State.LOSS
    plan = search_plan(decision.verdicts, runs, derive_edges(DEPLOYMENT))
    assert plan["aggregate"].wanted == {Identity("t", 0, ONE): RangeSet.single(90, 99)}


def test_a_topic_of_which_only_claims_are_left_is_a_loss() -> None:
    decision = judged([], CLAIMS)
    assert {one.edge: one.missing for one in decision.verdicts} == {
        "producer-to-dc1": 100,
        "producer-to-dc2": 10,
    }


def test_topics_that_are_not_audited_are_left_alone() -> None:
    audit = DEPLOYMENT.audit.model_copy(update={"topics": "other.*"})
    deployment = DEPLOYMENT.model_copy(update={"audit": audit})
    facts = Facts(as_of=LATE, observed=observations(LOSSY), books=CLAIMS.books)
    assert decide(deployment, facts, ["t"], PERIOD) == Decision((), ())


def test_a_window_that_has_just_ended_is_undecided() -> None:
    decision = judged(LOSSY, CLAIMS, as_of=7_000)
    states = {one.state for one in decision.verdicts}
    assert State.SETTLING in states
    outcome = outcome_of(decision)
    assert outcome.settling
    assert outcome.state is Exit.UNDECIDED


def test_what_changed_a_moment_ago_gets_its_settle_time() -> None:
    """Old records that are being back-filled: the mirror has not caught up, nothing is lost."""
    decision = judged(LOSSY, CLAIMS, changed={("dc1", "t"): {0: LATE - 1_000}})
    assert {one.state for one in decision.verdicts if one.edge.startswith("dc1")} == {
        State.SETTLING
    }


def test_a_retired_reporter_holds_nothing_up() -> None:
    claims = claims_of(("dc1", ONE, 0, 99))
    (name,) = claims.books["dc1"].reporters
    book = claims.books["dc1"]
    book.reporters[name] = replace(book.reporters[name], closed=False, complete_through=0)
    runs = [run("dc1", 0, 99), run("aggregate", 0, 99)]
    silent = judged(runs, claims)
    assert {one.state for one in silent.verdicts if one.edge == "producer-to-dc1"} == {
        State.UNKNOWN
    }
    retired = judged(runs, claims, retired={"dc1": frozenset({name})})
    assert {one.state for one in retired.verdicts} == {State.COMPLETE}


def test_windows_older_than_the_log_are_left_to_the_collector() -> None:
    decision = judged(LOSSY, CLAIMS, retained_from={("aggregate", "t"): 2_000})
    assert set(decision.deferred) == {("dc1-to-aggregate", "t", 0), ("dc2-to-aggregate", "t", 0)}
    assert {one.edge for one in decision.verdicts} == {"producer-to-dc1", "producer-to-dc2"}
    lost = outcome_of(decision, deferred=dict.fromkeys(decision.deferred, State.LOSS))
    assert lost.state is Exit.DISCREPANCIES
    unknown = outcome_of(decision, deferred=dict.fromkeys(decision.deferred, State.UNKNOWN))
    assert unknown.state is Exit.UNDECIDED


def test_nothing_at_all_is_complete_only_when_every_reporter_says_so() -> None:
    nothing = Decision((), ())
    assert outcome_of(nothing).state is Exit.UNDECIDED
    assert outcome_of(nothing, idle=True).state is Exit.COMPLETE
    assert not idle_through({}, 100, LATE)
    assert idle_through(CLAIMS.books, 100, LATE)
    assert not idle_through(CLAIMS.books, LATE + 1, LATE)


def test_records_without_a_stamp_are_counted_and_damaged_events_reported() -> None:
    runs = [
        run("dc1", None, None, "", messages=5, malformed=1),
        run("aggregate", None, None, "", messages=3),
    ]
    decision = judged(runs, CLAIMS)
    by_edge = {one.edge: one for one in decision.verdicts}
    assert by_edge["dc1-to-aggregate"].state is State.LOSS
    assert by_edge["dc1-to-aggregate"].missing == 2
    claims = read_claims([("dc1", b"garbage"), ("dc1", b"")], W)
    assert (claims.damaged, claims.books) == (2, {})
    assert "dc1" in claims.example


RENAMING = Deployment(
    audit=DEPLOYMENT.audit,
    mirrors=(
        Mirror(source="dc1", target="aggregate", rename="{source}.{topic}"),
        Mirror(source="dc2", target="aggregate", renames={"t": "u"}),
    ),
)


def decided(runs: list[Seen], claims: Claims, deployment: Deployment) -> dict[str, Any]:
    """Verdicts by edge and topic, as Spark comes to them from runs and events."""
    facts = Facts(as_of=LATE, observed=observations(runs), books=claims.books, parts=parts(runs))
    topics = {one.tally.key.topic for one in runs}
    decision = decide(deployment, facts, topics, PERIOD)
    return {f"{one.edge} {one.topic}": one for one in decision.verdicts}


def test_renamed_topics_are_judged_by_their_name_upstream() -> None:
    """Compared by name they were both lost upstream and strangers downstream."""
    runs = [
        run("dc1", 0, 99),
        run("dc2", 0, 9, TWO),
        run("aggregate", 0, 95, topic="dc1.t"),
        run("aggregate", 0, 9, TWO, topic="u"),
    ]
    found = decided(runs, CLAIMS, RENAMING)
    assert {name: one.state for name, one in found.items()} == {
        "producer-to-dc1 t": State.COMPLETE,
        "producer-to-dc2 t": State.COMPLETE,
        "dc1-to-aggregate t": State.LOSS,
        "dc2-to-aggregate t": State.COMPLETE,
    }
    assert str(found["dc1-to-aggregate t"].cells[0].missing) == "96-99"


def test_two_topics_with_one_name_downstream_are_undecided() -> None:
    one = Mirror(source="dc1", target="aggregate", renames={"t.*": "all"})
    deployment = Deployment(audit=DEPLOYMENT.audit, mirrors=(one,))
    runs = [
        run("dc1", 0, 99),
        run("dc1", 0, 99, topic="t2"),
        run("aggregate", 0, 99, topic="all"),
    ]
    found = decided(runs, CLAIMS, deployment)
    assert found["dc1-to-aggregate t"].state is State.UNKNOWN
    assert "into one topic all" in found["dc1-to-aggregate t2"].reasons[0]


def test_what_was_aborted_is_explained_and_owed_to_no_mirror() -> None:
    runs = [
        run("dc1", 0, 89),
        run("dc1", 90, 99, aborted=True),
        run("dc2", 0, 9, TWO),
        run("aggregate", 0, 89),
        run("aggregate", 0, 9, TWO),
    ]
    claims = claims_of(("dc1", ONE, 0, 99), ("dc2", TWO, 0, 9), aborted=RangeSet.single(90, 99))
    found = decided(runs, claims, DEPLOYMENT)
    assert found["producer-to-dc1 t"].state is State.EXPLAINED
    assert found["producer-to-dc1 t"].cells[0].explanations[0].reason == "aborted"
    assert found["dc1-to-aggregate t"].state is State.COMPLETE
    # Reported as committed: what its log has aborted is lost there, and still owed to no mirror.
    found = decided(runs, CLAIMS, DEPLOYMENT)
    assert found["producer-to-dc1 t"].state is State.LOSS
    assert found["producer-to-dc1 t"].cells[0].missing == RangeSet.single(90, 99)
    assert found["dc1-to-aggregate t"].state is State.COMPLETE


def event(kind: str, reporter: str, **fields: Any) -> tuple[str, bytes]:
    """An event on the aggregate's audit topic."""
    told: dict[str, Any] = {
        "kind": kind,
        "tier": kind,
        "reporter": reporter,
        "server": "host",
        "application": "app",
        "instance": "",
        "event_number": 0,
        "covers_from": 0,
        "emitted_at": LATE,
        "window_ms": W,
        "complete_through": LATE,
    }
    return "aggregate", encode_event(AuditEvent(**(told | fields)))


@pytest.mark.parametrize(
    ("through", "emitted_at", "state"),
    [
        (100, LATE, State.LOSS),
        (60, LATE, State.SETTLING),
        (60, LATE - DEPLOYMENT.audit.silence_ms - 1, State.UNKNOWN),
    ],
)
def test_a_mirror_that_lags_has_not_lost(through: int, emitted_at: int, state: State) -> None:
    """A nightly job called everything lost that the mirror had not come to yet."""
    runs = [run("dc1", 0, 99), run("aggregate", 0, 59)]
    told = event(
        "mirror",
        "mirror-dc1-to-aggregate",
        emitted_at=emitted_at,
        copied=(Copied("t", 0, "t", "", through),),
    )
    claims = read_claims([told], W)
    assert decided(runs, claims, DEPLOYMENT)["dc1-to-aggregate t"].state is state


def test_what_retention_took_is_lost_with_that_reason() -> None:
    runs = [run("dc1", 0, 99), run("aggregate", 60, 99)]
    told = event(
        "mirror",
        "mirror-dc1-to-aggregate",
        copied=(Copied("t", 0, "t", "", 100),),
        gaps=(Gap("t", 0, 0, 49, "retention"),),
    )
    found = decided(runs, read_claims([told], W), DEPLOYMENT)["dc1-to-aggregate t"]
    assert (found.state, found.missing) == (State.LOSS, 60)
    assert str(found.cells[0].expired) == "0-49"


def test_where_a_mirror_stood_still_in_the_topic_of_before_says_nothing_of_this_one() -> None:
    """Its word that it cannot read on was of a topic that has been deleted and made again since;
    what it has to copy of the new one was UNKNOWN for ever."""
    told = event(
        "mirror",
        "mirror-dc1-to-aggregate",
        emitted_at=LATE,
        copied=(Copied("t", 0, "t", "", 40),),
        gaps=(Gap("t", 0, 40, 40, "damaged", 500),),
    )
    runs, claims = [run("dc1", 0, 99), run("aggregate", 0, 39)], read_claims([told], W)
    for began, state in [(0, State.UNKNOWN), (1_000, State.SETTLING)]:
        facts = Facts(LATE, observations(runs), claims.books, parts=parts(runs))
        facts = replace(facts, began={("dc1", "t"): began})
        found = decide(DEPLOYMENT, facts, ["t"], PERIOD).verdicts
        (one,) = [one for one in found if one.edge == "dc1-to-aggregate"]
        assert one.state is state


def test_a_group_is_judged_by_what_its_runs_say() -> None:
    runs = [run("aggregate", 0, 99)]
    cell = CellReport("t", 0, 0, "web-1", ONE, acknowledged=RangeSet.single(0, 89),
                      accepted=RangeSet.single(0, 89))  # fmt: skip
    told = event(
        "consumer",
        "consumer-" + "c" * 16,
        instance="c" * 16,
        consumer_group="g",
        cells=(cell,),
        copied=(Copied("t", 0, "", "", 100),),
        closed=True,
    )
    found = decided(runs, read_claims([told], W), DEPLOYMENT)["aggregate-to-group:g t"]
    assert (found.state, str(found.cells[0].missing)) == (State.LOSS, "90-99")


def test_the_report_names_the_loss(tmp_path: Path) -> None:
    decision = judged(LOSSY, CLAIMS)
    places = {Identity("t", 0, ONE): [LogSpan("dc1", "t", 0, 140, 143, 40, 43)]}
    outcome = outcome_of(decision, places=places)
    out = io.StringIO()
    print_outcome(Console(file=out, width=120), outcome)
    shown = out.getvalue()
    for text in (
        "5 missing of server web-1, instance 1111111111111111: sequences 40-44",
        "in dc1: t-0 offsets 140-143 (sequences 40-43)",
        "in no other cluster: sequences 44",
        "(sequence at partition:offset): 50 at 0:77",
        "DISCREPANCIES: 5 missing, 1 duplicated",
    ):
        assert text in shown
    raw = json.loads(json.dumps(to_json(outcome)))
    assert raw["outcome"] == "discrepancies"
    (verdict,) = raw["verdicts"]
    assert verdict["cells"][0]["missing"] == [40, 44]
    assert verdict["cells"][0]["located"] == [places[Identity("t", 0, ONE)][0]._asdict()]


def test_the_store_holds_the_verdicts_once_however_often_a_run_is_repeated(tmp_path: Path) -> None:
    decision = judged(LOSSY, CLAIMS)
    places = {Identity("t", 0, ONE): [LogSpan("dc1", "t", 0, 140, 144, 40, 44)]}
    outcome = outcome_of(decision, places=places)
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as store:
        for _ in range(2):
            ledger.record(store, outcome, LATE, LATE + 1)
        assert ledger.disagreements(store, outcome) == ()
        with store.read() as connection:
            rows = queries.windows(connection)
            assert len(rows) == 4
            assert {row["source"] for row in rows} == {"spark"}
            assert {row["revision"] for row in rows} == {0}
            bad = next(row for row in rows if row["edge"] == "dc1-to-aggregate")
            assert bad["cells"][0]["located"][0]["first_offset"] == 140
            assert [one["outcome"] for one in queries.all_runs(connection)] == ["discrepancies"] * 2


@pytest.mark.parametrize(
    ("collector", "asks"),
    [
        ({}, False),  # the same
        ({"state": State.COMPLETE, "missing": 0}, True),
        ({"state": State.CORRUPT}, True),
        ({"state": State.UNKNOWN}, False),
    ],
)
def test_collectors_count_again_what_they_have_otherwise(
    tmp_path: Path, collector: dict[str, Any], asks: bool
) -> None:
    """A segment vanished after it was counted. The collector's count went on holding it, so it took
    what repair brought back for duplicates: what Spark finds otherwise has to be counted again, at
    both ends of the hop, where the window was seen."""
    decision = judged(LOSSY, CLAIMS)
    (loss,) = [one for one in decision.verdicts if one.missing]
    edge = next(one for one in derive_edges(DEPLOYMENT) if one.name == loss.edge)
    seen = [
        Observation(CellKey("t", 0, window, "web-1", ONE), 1, first_offset=5, last_offset=5)
        for window in (loss.window, loss.window + W)
    ]
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as store:
        with store.write() as connection:
            for cluster in (edge.upstream, edge.downstream):
                counts.save_observations(connection, cluster, "t", 3, seen, LATE)
            record_verdicts(connection, [replace(loss, **collector)], COLLECTOR, LATE)
        ledger.record(store, replace(outcome_of(decision), edges=(edge,)), LATE, LATE + 1)
        with store.read() as connection:
            asked = [
                (cluster, one.place, one.first)
                for cluster in (edge.upstream, edge.downstream)
                for one in recounts.to_do(connection, cluster)
            ]
    both = [(cluster, ("t", 3), loss.window) for cluster in (edge.upstream, edge.downstream)]
    assert asked == (both if asks else [])


@pytest.mark.parametrize("state", [State.OPEN, State.SETTLING])
def test_what_is_still_settling_is_not_recorded(tmp_path: Path, state: State) -> None:
    """It would hide what the collector has decided meanwhile."""
    decision = judged(HEALTHY, CLAIMS)
    early = tuple(replace(one, state=state) for one in decision.verdicts)
    with open_store(f"sqlite:///{tmp_path / 'audit.db'}") as store:
        ledger.record(store, outcome_of(Decision(early, ())), LATE, LATE)
        with store.read() as connection:
            assert queries.windows(connection) == []
