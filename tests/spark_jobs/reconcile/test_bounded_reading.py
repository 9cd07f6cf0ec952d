"""Which offsets a look reads, and what it does when logs lose their beginnings meanwhile; without
Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tallying import knowing, shared_of

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.deployment import AuditSettings, BrokerAddress, Cluster, Deployment
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.judge.damage import Damage
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.model.sides import Observation
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor
from tallymark_audit.store import open_store
from tallymark_audit.store.counted import counts
from tallymark_spark_jobs.reconcile import forecast
from tallymark_spark_jobs.reconcile.look import Job
from tallymark_spark_jobs.reconcile.reading.claims import claims_by_client
from tallymark_spark_jobs.reconcile.reading.count_tasks import Counting, count_spans, read_rows
from tallymark_spark_jobs.reconcile.reading.damages import damaged, expired, open_notes
from tallymark_spark_jobs.reconcile.reading.evidence import search_spans
from tallymark_spark_jobs.reconcile.reading.open_transactions import OpenAt, named
from tallymark_spark_jobs.reconcile.reading.read_plan import (
    Bounds,
    Planned,
    ReadPlan,
    audit_plan,
    read_plan,
)
from tallymark_spark_jobs.reconcile.reading.survey import survey
from tallymark_spark_jobs.reconcile.shapes.period import Period
from tallymark_spark_jobs.reconcile.shapes.search import Identity
from tallymark_spark_jobs.source.planning import Span

W = 5_000
START = 1_769_817_600_000
EACH = 100
"""Messages of a window."""
pytestmark = pytest.mark.socket


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """A cluster with ten windows of a topic, in order, in small segments."""
    with BrokerThread(tmp_path / "dc1") as broker:
        address = BrokerAddress(port=broker.settings.port)
        found = Deployment(
            data_dir=tmp_path / "data",
            clusters=(Cluster(name="dc1", brokers=(address,)),),
            mirrors=(),
            audit=AuditSettings(window_ms=W, settle_min_ms=0),
        )
        servers = found.clusters[0].bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic("t", 1)
        with Producer(
            bootstrap_servers=servers, server="web-1", interceptors=[AuditInterceptor(W)]
        ) as producer:
            for n in range(10 * EACH):
                producer.send("t", b"value", partition=0, timestamp=START + n * W // EACH)
                if n % 20 == 19:
                    producer.flush()
        yield found


def plan_of(deployment: Deployment, bounds: Bounds) -> ReadPlan:
    return read_plan(survey(deployment), bounds)


def counted(plan: ReadPlan, period: Period) -> pa.Table:
    how = Counting(W, (period.start or 0, period.end))
    return pa.Table.from_batches(count_spans(plan.spans, plan.connections, how))


def test_the_end_of_a_period_bounds_what_is_read(deployment: Deployment) -> None:
    """One minute out of the first tenth of a log read nine tenths of it."""
    second = Period(START + W, START + 2 * W)
    plan = plan_of(deployment, Bounds(second, W // 2))
    ((_, span),) = plan.spans
    assert (span.start, span.end) == (EACH, 2 * EACH + EACH // 2)
    assert [(one.first, one.last) for one in plan.unread] == [(span.end, 10 * EACH - 1)]
    assert span.topic_id
    found = read_rows(counted(plan, second))
    assert [one.tally.messages for one in found.seen] == [EACH]
    assert found.notes[0].messages == EACH
    whole = plan_of(deployment, Bounds(second, None))
    assert (whole.spans[0].span.end, whole.unread) == (10 * EACH, ())


def test_what_stands_behind_an_open_transaction_is_not_known_and_not_lost(
    deployment: Deployment,
) -> None:
    """A reader of committed records stops where it begins. All that was claimed behind it, by
    whomever, was a loss for a run that read only so far."""
    servers = deployment.clusters[0].bootstrap_servers
    period = Period(START, START + 20 * W)
    with Producer(
        bootstrap_servers=servers, transactional_id="id", audit=False, stamp=True
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"open", partition=0, timestamp=START + 10 * W)
        producer.flush()
        with Producer(bootstrap_servers=servers, audit=False, stamp=True) as another:
            another.send("t", b"committed", partition=0, timestamp=START + 11 * W)
        plan = plan_of(deployment, Bounds(period, None))
        with Admin(bootstrap_servers=servers) as admin:
            own = admin.describe_transactions(["id"])["id"].producer_id
        assert plan.open == (("dc1", "t", 0, 10 * EACH, own, "id"),)
        notes = [*read_rows(counted(plan, period)).notes, *open_notes(plan.open)]
        (found,) = damaged(notes)
        whose = f"a transaction of producer {own} (transactional id 'id') is open there"
        assert whose in found.reason
        newest = START + 10 * W - W // EACH
        assert (found.offset, found.end, found.since, found.until) == (10 * EACH, -1, newest, -1)
        damage = Damage(downstream=(found,))
        assert damage.of_window(START + 10 * W) is not None
        assert damage.of_window(newest) is None
        earlier = Bounds(Period(START, START + 2 * W), W)
        assert plan_of(deployment, earlier).open == ()
    assert plan_of(deployment, Bounds(period, None)).open == ()


def test_what_is_not_known_of_an_open_transaction_is_not_said() -> None:
    """Brokers that do not say, or ids that we may not see, hold up no reconciliation."""
    at = OpenAt("dc1", "t", 0, 7)
    by_producer = at._replace(producer=5)
    assert at.whose == "a transaction"
    assert by_producer.whose == "a transaction of producer 5"
    long = by_producer._replace(transactional_id="x" * 200)
    assert long.whose == f"a transaction of producer 5 (transactional id '{'x' * 100}')"


def test_a_cluster_that_goes_away_meanwhile_leaves_the_transaction_unnamed(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic("t", 1)
        reader = SimpleConsumer(bootstrap_servers=servers, request_timeout_ms=500)
        reader.end_offsets("t")
    with reader:
        found = named([OpenAt("dc1", "t", 0, 0)], reader, lambda: Admin(bootstrap_servers=servers))
    assert found == [OpenAt("dc1", "t", 0, 0)]


def test_a_log_is_read_until_a_collector_last_saw_a_window_change(deployment: Deployment) -> None:
    """A copy that came hours later is in the collector's count. Not to read so far would have made
    it a disagreement, with Spark's wrong count as the one that holds."""
    second = Period(START + W, START + 2 * W)
    bounds = Bounds(second, W // 2, {("dc1", "t"): START + 6 * W})
    assert plan_of(deployment, bounds).spans[0].span.end == 6 * EACH + EACH // 2


def test_the_forecast_says_what_a_run_reads(deployment: Deployment) -> None:
    job = Job(deployment, Period(START + W, START + 2 * W), lateness_ms=W)
    with open_store(deployment.audit_store) as store:
        found = forecast.forecast(job, store)
        (one,) = found.ranges
        assert (one.start, one.end) == (EACH, 3 * EACH)
        assert 10 * 2 * EACH < one.bytes < 300 * 2 * EACH
        key = CellKey("t", 0, START + W, "web-1", "11" * 8)
        seen = [Observation(key, 1, first_offset=5, last_offset=5)]
        with store.write() as connection:
            counts.save_observations(connection, "dc1", "t", 0, seen, START + 5 * W)
        later = forecast.forecast(job, store)
        assert later.offsets == 5 * EACH
    told = forecast.to_json(found)
    assert told["offsets"] == 2 * EACH
    assert json.loads(json.dumps(told)) == told
    assert any("pass: every cell" in line for line in forecast.lines_of(found))


def delete_before(deployment: Deployment, topic: str, offset: int) -> None:
    with Admin(bootstrap_servers=deployment.clusters[0].bootstrap_servers) as admin:
        admin.delete_records({(topic, 0): offset})


def test_what_expires_between_plan_and_count_is_left_to_the_collector(
    deployment: Deployment,
) -> None:
    """The beginning of the log expired while a nightly run counted: the run failed, and nothing of
    it was recorded."""
    period = Period(START, START + 10 * W)
    plan = plan_of(deployment, Bounds(period, None))
    delete_before(deployment, "t", 3 * EACH + 50)
    found = read_rows(counted(plan, period))
    (note,) = found.notes
    assert note.expired >= 3 * EACH
    gone = expired(found.notes, START + 100 * W)
    (since,) = gone.values()
    assert START + 3 * W <= since < START + 5 * W
    shared = knowing(shared_of((), deployment), found.seen)
    from dataclasses import replace

    from tallymark_spark_jobs.reconcile.judging.groups import judge_group

    claims = claims_by_client(audit_plan(survey(deployment), AUDIT_TOPIC), W, period)
    facts = replace(shared.facts, as_of=START + 100 * W, books=claims.books, retained_from=gone)
    judged = judge_group(replace(shared, period=period, facts=facts), ["t"], found.seen, ())
    assert {window for _, _, window in judged.deferred} == {
        START + at * W for at in range(10) if START + at * W < since
    }
    assert {one.window for one in judged.verdicts} == {
        START + at * W for at in range(10) if START + at * W >= since
    }
    assert {str(one.state) for one in judged.verdicts} == {"COMPLETE"}


def test_where_all_that_was_planned_expired_every_window_waits() -> None:
    from tallymark_spark_jobs.reconcile.reading.count_tasks import SpanNote

    gone = SpanNote("dc1", "t", 0, 0, 10, expired=10)
    other = SpanNote("dc1", "t", 0, 10, 20, messages=5, oldest=700, newest=800)
    assert expired([gone], 1_000) == {("dc1", "t"): 1_000}
    assert expired([gone, other], 1_000) == {("dc1", "t"): 700}
    assert expired([other], 1_000) == {}


def test_expiry_while_the_lost_are_searched_fails_nothing(deployment: Deployment) -> None:
    plan = plan_of(deployment, Bounds(Period(START, START + 10 * W), None))
    servers = deployment.clusters[0].bootstrap_servers
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        record = consumer.fetch("t", 0, 0).records()[0]
    from tallymark.client.producing.stamps import Stamp, stamp_of

    stamp = stamp_of(record.headers)
    assert isinstance(stamp, Stamp)
    identity = Identity("t", 0, stamp.instance.hex())
    wanted = {"dc1": {identity: RangeSet([(0, 9), (600, 620)])}}
    found = [place for _, place in search_spans(plan.spans, plan.connections, wanted)]
    assert sum(one.last_offset - one.first_offset + 1 for one in found) == 31
    delete_before(deployment, "t", 5 * EACH)
    left = [place for _, place in search_spans(plan.spans, plan.connections, wanted)]
    assert {(one.first_offset, one.last_offset) for one in left} <= {
        (one.first_offset, one.last_offset) for one in found if one.first_offset >= 500
    }
    assert sum(one.last_offset - one.first_offset + 1 for one in left) == 21


def test_reports_that_expire_before_they_are_read_leave_their_time_open(
    deployment: Deployment,
) -> None:
    plan = audit_plan(survey(deployment), AUDIT_TOPIC)
    period = Period(START, START + 10 * W)
    assert claims_by_client(plan, W, period).expired == {}
    delete_before(deployment, AUDIT_TOPIC, plan.spans[0].span.end)
    assert claims_by_client(plan, W, period).expired["dc1"] > START


def test_spans_are_cut_for_tasks_and_cover_the_same() -> None:
    spans = tuple(
        Planned("c", Span("t", partition, 10, 10 + size))
        for partition, size in enumerate((5, 400_000, 0, 1, 777_777))
    )
    plan = ReadPlan({}, spans)
    for parallelism, most in ((2, 1_000_000), (8, 100_000), (1, 10)):
        if most == 10:
            plan = ReadPlan({}, spans[:1])
        tasks = plan.tasks(parallelism, most)
        assert all(sum(one.span.offsets for one in task) <= most for task in tasks)
        assert len(tasks) >= min(parallelism, plan.offsets // 50_000)
        held: dict[int, int] = {}
        for task in tasks:
            for one in task:
                assert one.span.start == held.get(one.span.partition, 10)
                held[one.span.partition] = one.span.end
        assert held == {one.span.partition: one.span.end for one in plan.spans if one.span.offsets}
