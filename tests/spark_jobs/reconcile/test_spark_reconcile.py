"""The whole reconciliation: three real clusters, real claims, a mirror that loses and repeats."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.client.producing.stamps import Stamp, stamp_of
from tallymark.deployment import AuditSettings, BrokerAddress, Cluster, Deployment, dump_toml
from tallymark.protocol.records.batch import Record
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.repair.plan_file import read_plan
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor
from tallymark_audit.store import open_store
from tallymark_audit.store.reading import queries
from tallymark_spark_jobs.cli import reconcile as command
from tallymark_spark_jobs.engine import running
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.reconcile.judging import in_tasks
from tallymark_spark_jobs.reconcile.outcome import Exit, Outcome, to_json
from tallymark_spark_jobs.reconcile.reading import count_tasks
from tallymark_spark_jobs.reconcile.run import Job, reconcile
from tallymark_spark_jobs.reconcile.shapes.period import Period

pytestmark = pytest.mark.spark
W = 5_000
EACH = 400
CLUSTERS = ("dc1", "dc2", "aggregate")
Message = tuple[str, int, int]
"""Instance, origin partition, sequence."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("tests", log, "local[2]") as session:
        yield session


@dataclass
class Stack:
    """Three running clusters, and what was done to the aggregate."""

    deployment: Deployment
    end: int
    lost: set[Message] = field(default_factory=set[Message])
    repeated: set[Message] = field(default_factory=set[Message])
    places: dict[Message, tuple[str, int, int]] = field(
        default_factory=dict[Message, tuple[str, int, int]]
    )


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    brokers = {name: BrokerThread(folder / name) for name in CLUSTERS}
    try:
        addresses = {name: broker.start().settings.port for name, broker in brokers.items()}
        deployment = Deployment(
            data_dir=folder / "data",
            clusters=tuple(
                Cluster(name=name, brokers=(BrokerAddress(port=port),))
                for name, port in addresses.items()
            ),
            audit=AuditSettings(window_ms=W, settle_min_ms=0),
        )
        now = time.time_ns() // 1_000_000
        stack = Stack(deployment, now - now % W)
        for cluster in deployment.clusters:
            with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                admin.create_topic("metrics", 2)
        for name in CLUSTERS[:2]:
            publish(deployment, name, stack.end)
            mirror(deployment, name, stack)
        yield stack
    finally:
        for broker in brokers.values():
            broker.stop()


def publish(deployment: Deployment, cluster: str, end: int) -> None:
    """Two producers at once, so that their messages lie between one another; four windows."""
    servers = deployment.cluster(cluster).bootstrap_servers
    one, other = (
        Producer(
            bootstrap_servers=servers,
            server=f"{cluster}-{letter}",
            linger_ms=2,
            interceptors=[AuditInterceptor(W)],
        )
        for letter in "ab"
    )
    with one, other:
        for n in range(EACH):
            for producer in (one, other):
                at = end - 4 * W + n * (4 * W) // EACH
                producer.send("metrics", b"value", partition=n % 2, timestamp=at)


def mirror(deployment: Deployment, name: str, stack: Stack) -> None:
    """Copy into the aggregate as the mirror does, but lose and repeat some of dc1."""
    rng = random.Random(3)
    source = deployment.cluster(name).bootstrap_servers
    target = deployment.cluster("aggregate").bootstrap_servers
    with (
        SimpleConsumer(bootstrap_servers=source) as consumer,
        Producer(bootstrap_servers=target, audit=False) as producer,
    ):
        for partition in (0, 1):
            for record in everything(consumer, partition):
                stamp = stamp_of(record.headers)
                assert isinstance(stamp, Stamp)
                message = (stamp.instance.hex(), stamp.partition, stamp.sequence)
                stack.places[message] = (name, partition, record.offset)
                copies = 1
                if name == "dc1" and rng.random() < 0.02:
                    copies = rng.choice((0, 0, 2))
                if copies == 0:
                    stack.lost.add(message)
                if copies == 2:
                    stack.repeated.add(message)
                for _ in range(copies):
                    producer.send(
                        "metrics",
                        record.value,
                        partition=partition,
                        timestamp=record.timestamp,
                        headers=record.headers,
                    )


def everything(consumer: SimpleConsumer, partition: int) -> list[Record]:
    records: list[Record] = []
    end = consumer.end_offsets("metrics")[partition]
    offset = 0
    while offset < end:
        fetched = consumer.fetch("metrics", partition, offset)
        records += fetched.records()
        offset = fetched.next_offset
    return records


def run(spark: Any, stack: Stack, **more: Any) -> Outcome:
    job = Job(stack.deployment, Period(None, stack.end), **more)
    with open_store(stack.deployment.audit_store) as store:
        return reconcile(spark, job, store, Steps(lambda text: None))


@pytest.fixture(scope="module")
def outcome(spark: Any, stack: Stack) -> Outcome:
    """The first run."""
    return run(spark, stack)


def test_exactly_the_lost_messages_are_named_with_where_they_still_are(
    stack: Stack, outcome: Outcome
) -> None:
    assert outcome.state is Exit.DISCREPANCIES
    clean = {v.edge for v in outcome.verdicts if v.state is State.COMPLETE}
    assert {"producer-to-dc1", "producer-to-dc2", "dc2-to-aggregate"} <= clean
    bad = {v.edge for v in outcome.verdicts if v.state is not State.COMPLETE}
    assert bad == {"dc1-to-aggregate"}
    named: set[Message] = set()
    copies: set[Message] = set()
    places: dict[Message, tuple[str, int, int]] = {}
    for verdict in to_json(outcome)["verdicts"]:
        for cell in verdict["cells"]:
            who = (cell["instance"], cell["partition"])
            named |= {
                (*who, n) for a, b in RangeSet.from_list(cell["missing"]) for n in range(a, b + 1)
            }
            copies |= {(*who, sequence) for _, _, sequence in cell["copies"]}
            assert cell["server"] in ("dc1-a", "dc1-b")
            for place in cell["located"]:
                for step in range(place["last_sequence"] - place["first_sequence"] + 1):
                    key = (*who, place["first_sequence"] + step)
                    places[key] = (
                        place["cluster"],
                        place["partition"],
                        place["first_offset"] + step,
                    )
    assert stack.lost
    assert named == stack.lost
    assert copies == stack.repeated
    assert places == {message: stack.places[message] for message in stack.lost}


def test_a_second_run_changes_nothing_but_the_list_of_runs(
    spark: Any, stack: Stack, outcome: Outcome
) -> None:
    second = run(spark, stack)
    assert outcome.verdicts == second.verdicts
    assert second.disagreements == ()
    assert set(second.seconds) == {"claims", "count", "judge", "find", "record"}
    with open_store(stack.deployment.audit_store) as store, store.read() as connection:
        rows = queries.windows(connection)
        assert len(rows) == len(second.verdicts)
        assert {row["revision"] for row in rows} == {0}
        assert len(queries.all_runs(connection)) >= 2


@pytest.mark.soak_cases("16")
@pytest.mark.parametrize("few", [16, 1])
def test_judged_in_tasks_it_is_the_same(
    spark: Any, stack: Stack, outcome: Outcome, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too large for the driver is judged by topic and window, from claims that were folded
    in tasks; with one range a cell at most, the cells that lost messages are read again exactly."""
    monkeypatch.setattr(count_tasks, "FEW_RANGES", few)
    monkeypatch.setattr(in_tasks, "CELLS_A_GROUP", 4)
    large = run(spark, stack, small=0)
    assert large.verdicts == outcome.verdicts
    assert large.places == outcome.places
    assert large.state is outcome.state


def test_what_a_slow_mirror_brought_late_is_read_before_it_is_called_lost(
    spark: Any, stack: Stack, outcome: Outcome
) -> None:
    """dc2 was mirrored after all of dc1: its first window lies behind younger records of dc1, where
    a look at the first window ends. Everything of dc2 would have been lost."""
    first = Period(stack.end - 4 * W, stack.end - 3 * W)
    said: list[str] = []
    job = Job(stack.deployment, first, lateness_ms=0)
    with open_store(stack.deployment.audit_store) as store:
        found = reconcile(spark, job, store, Steps(said.append))
    expected = [one for one in outcome.verdicts if first.holds(one.window)]
    assert list(found.verdicts) == expected
    assert found.unread
    assert any("reading on behind the period" in line for line in said)


def test_the_command_prints_the_table_and_returns_three(
    spark: Any, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def started(*_: object) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr(running, "spark_session", started)
    settings = tmp_path / "stack.toml"
    settings.write_text(dump_toml(stack.deployment))
    result, page = tmp_path / "result.json", tmp_path / "report.html"
    arguments = ["--settings", str(settings), "--topic", "metr.*"]
    plan, text = tmp_path / "plan.json", tmp_path / "report.md"
    everything = [*arguments, "--all", "--json", str(result), "--report", str(page)]
    everything += ["--repair-plan", str(plan)]
    shown = CliRunner().invoke(command, everything)
    assert shown.exit_code == Exit.DISCREPANCIES
    assert f"{len(stack.lost)} missing" in shown.stdout
    assert all(edge in shown.stdout for edge in ("producer-to-dc2", "dc1-to-aggregate"))
    assert "counting the beginning of the logs" in shown.stderr
    assert "looking for what is missing in dc1" in shown.stderr
    assert json.loads(result.read_text())["exit"] == Exit.DISCREPANCIES
    assert "DISCREPANCIES" in page.read_text()
    items = read_plan(plan).items
    assert sum(item.count for item in items) == len(stack.lost)
    again = CliRunner().invoke(command, [*arguments, "--all", "--report", str(text)])
    assert again.exit_code == Exit.DISCREPANCIES
    markdown = text.read_text()
    assert "| dc1-to-aggregate | metrics |" in markdown
    assert f"{len(stack.lost)} missing" in markdown
    assert markdown.count("```") % 2 == 0
    dry = CliRunner().invoke(command, [*arguments, "--all", "--dry-run", "--json"])
    assert dry.exit_code == 0
    told = json.loads(dry.stdout)
    assert told["offsets"] == 8 * EACH - len(stack.lost) + len(stack.repeated)
    assert {one["cluster"] for one in told["ranges"]} == set(CLUSTERS)
    # A range before all of it, for which the closed producers vouch.
    empty = CliRunner().invoke(command, [*arguments, "--from", "2020-01-01", "--to", "2020-01-02"])
    assert empty.exit_code == Exit.COMPLETE
    assert "nothing was published or seen" in empty.stdout
