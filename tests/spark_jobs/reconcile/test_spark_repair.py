"""What Spark found lost is repaired, with collectors that counted it before it was lost."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from collected_store import collected_store
from eventually import eventually
from sqlalchemy import select

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.deployment import (
    AuditSettings,
    BrokerAddress,
    Cluster,
    Deployment,
    Mirror,
    dump_toml,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.judge.verdicts import State
from tallymark_audit.proof.drill.faults import at_rest
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor
from tallymark_audit.store import Store
from tallymark_audit.store.judged.verdicts import COLLECTOR
from tallymark_audit.store.reading import queries, window_evidence
from tallymark_audit.store.schema.tables import verdicts
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.reconcile.outcome import Outcome
from tallymark_spark_jobs.reconcile.run import Job, reconcile
from tallymark_spark_jobs.reconcile.shapes.period import Period

pytestmark = [pytest.mark.spark, pytest.mark.process]
W = 1000
EACH = 600
NAMES = ("dc1", "aggregate")
EDGE = "dc1-to-aggregate"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("tests", log, "local[2]") as session:
        yield session


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[dict[str, BrokerThread]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(BrokerThread(tmp_path / name)) for name in NAMES}


@pytest.fixture
def deployment(brokers: dict[str, BrokerThread], tmp_path: Path) -> Deployment:
    made = Deployment(
        data_dir=tmp_path / "data",
        clusters=tuple(
            Cluster(name=name, brokers=(BrokerAddress(port=brokers[name].settings.port),))
            for name in NAMES
        ),
        mirrors=(Mirror(source="dc1", target="aggregate"),),
        audit=AuditSettings(window_ms=W, settle_min_ms=500, content_check=True),
    )
    (tmp_path / "tallymark.toml").write_text(dump_toml(made))
    return made


@pytest.fixture
def store(deployment: Deployment) -> Iterator[Store]:
    with collected_store(deployment, NAMES) as opened:
        yield opened


def fill(deployment: Deployment) -> int:
    """Six windows of records in small segments, here and copied there; the end of the last one."""
    source, target = (deployment.cluster(name).bootstrap_servers for name in NAMES)
    for servers in (source, target):
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic("metrics", 1, configs={"segment.bytes": "4096"})
    now = time.time_ns() // 1_000_000
    end = now - now % W
    audit = AuditInterceptor(W, content_check=True)
    with Producer(bootstrap_servers=source, server="web", interceptors=[audit]) as producer:
        for n in range(EACH):
            producer.send(
                "metrics", b"%d" % n, partition=0, timestamp=end - 6 * W + n * 6 * W // EACH
            )
            if n % 20 == 19:
                producer.flush()
    with (
        SimpleConsumer(bootstrap_servers=source) as consumer,
        Producer(bootstrap_servers=target, stamp=False, interceptors=[]) as producer,
    ):
        at = 0
        while at < EACH:
            fetched = consumer.fetch("metrics", 0, at, max_bytes=2000)
            for record in fetched.records():
                if record.offset >= at:
                    producer.send(
                        "metrics",
                        record.value,
                        key=record.key,
                        partition=0,
                        timestamp=record.timestamp,
                        headers=record.headers,
                    )
            producer.flush()
            at = fetched.next_offset
    return end


def states(store: Store) -> list[str]:
    with store.read() as connection:
        return [row["state"] for row in queries.windows(connection, EDGE)]


def lose_a_segment(broker: BrokerThread) -> None:
    """A closed segment in the middle of the log is gone when the broker starts again."""
    broker.stop()
    (folder,) = broker.settings.log_dirs[0].glob("metrics-0")
    segments = sorted(folder.glob("*.log"))
    assert len(segments) > 4
    for file in folder.glob(f"{segments[2].stem}.*"):
        file.unlink()
    broker.start()


def change_values(broker: BrokerThread) -> None:
    """Values in a closed segment are others when the broker starts again, under a right CRC."""
    broker.stop()
    (folder,) = broker.settings.log_dirs[0].glob("metrics-0")
    at_rest.change_values(sorted(folder.glob("*.log"))[2], random.Random(1))
    broker.start()


def run(spark: Any, deployment: Deployment, store: Store, end: int) -> Outcome:
    job = Job(deployment, Period(None, end))
    return reconcile(spark, job, store, Steps(lambda text: None))


def test_a_segment_that_vanished_after_it_was_counted_is_repaired_to_complete(
    spark: Any,
    brokers: dict[str, BrokerThread],
    deployment: Deployment,
    store: Store,
    tmp_path: Path,
) -> None:
    """A segment of 129 records went after the collector had counted it; Spark said LOSS 129, repair
    copied 129, and the log held every record once. The collector, which had never taken the lost
    ones off, said DUPLICATION 129 and fired the alert, and ``repair --verify`` returned 3."""
    end = fill(deployment)
    eventually(lambda: states(store) == [State.COMPLETE] * 6, seconds=60)
    lose_a_segment(brokers["aggregate"])
    found = run(spark, deployment, store, end)
    lost = sum(verdict.missing for verdict in found.verdicts if verdict.edge == EDGE)
    assert lost > 20
    command = [sys.executable, "-m", "tallymark", "audit", "repair", "--apply", "--verify"]
    done = subprocess.run(
        [*command, "--settings", str(tmp_path / "tallymark.toml")],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{lost} messages copied" in done.stdout
    assert states(store) == [State.COMPLETE] * 6
    again = run(spark, deployment, store, end)
    assert {v.state for v in again.verdicts if v.edge == EDGE} == {State.COMPLETE}
    assert again.disagreements == ()
    with store.read() as connection:
        for window in {v.window for v in found.verdicts}:
            history = window_evidence.evidence(connection, EDGE, "metrics", window).history
            assert State.DUPLICATION not in {row["state"] for row in history}
        told = [one for one in queries.all_incidents(connection) if one["kind"] == "recounted"]
    assert sum(one["count"] for one in told if one["cluster"] == "aggregate") >= lost


@pytest.mark.soak
def test_values_that_changed_after_they_were_counted_are_corrupt(
    spark: Any,
    brokers: dict[str, BrokerThread],
    deployment: Deployment,
    store: Store,
) -> None:
    """Values changed under a valid CRC, after they were counted, were noticed by nobody: Spark
    counted stamps, whatever ``content_check`` said. Now both sides' hashes are compared, and the
    collector, asked to count again, comes to the same."""
    end = fill(deployment)
    eventually(lambda: states(store) == [State.COMPLETE] * 6, seconds=60)
    assert {v.state for v in run(spark, deployment, store, end).verdicts} == {State.COMPLETE}
    change_values(brokers["aggregate"])
    found = run(spark, deployment, store, end)
    wrong = {(v.edge, v.state) for v in found.verdicts if v.state is not State.COMPLETE}
    assert wrong == {(EDGE, State.CORRUPT)}
    eventually(lambda: queried(store) >= {State.CORRUPT})


def queried(store: Store) -> set[str]:
    """What the collector says of the edge."""
    query = select(verdicts.c.state).where(verdicts.c.edge == EDGE, verdicts.c.source == COLLECTOR)
    with store.read() as connection:
        return set(connection.scalars(query))
