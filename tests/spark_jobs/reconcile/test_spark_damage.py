"""One batch of a log has a broken CRC: the reconciliation judges everything else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tallymark import Admin, Producer
from tallymark.deployment import AuditSettings, BrokerAddress, Cluster, Deployment
from tallymark.protocol.records.batch import iterate_batches
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.judge.verdicts import State
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor
from tallymark_audit.store import open_store
from tallymark_audit.store.reading import queries, window_evidence
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.reconcile.outcome import Exit, Outcome, to_json
from tallymark_spark_jobs.reconcile.report import print_outcome
from tallymark_spark_jobs.reconcile.run import Job, reconcile
from tallymark_spark_jobs.reconcile.shapes.period import Period

pytestmark = pytest.mark.spark
W = 5_000


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log: Path = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("tests", log, "local[2]") as session:
        yield session


@dataclass
class Site:
    folder: Path
    deployment: Deployment
    end: int

    def damage(self, topic: str, partition: int, number: int) -> int:
        """Turn a bit in a batch while its broker runs, as disks do; returns its offset."""
        (path,) = (self.folder / "dc1").rglob(f"{topic}-{partition}/*.log")
        data = bytearray(path.read_bytes())
        batches = list(iterate_batches(bytes(data)))
        at = sum(one.header.size for one in batches[: number + 1]) - 1
        data[at] ^= 1
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data[at : at + 1])
        return batches[number].header.base_offset


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Ten messages a partition in each of four windows, one batch each."""
    with BrokerThread(tmp_path / "dc1") as broker:
        address = BrokerAddress(port=broker.settings.port)
        deployment = Deployment(
            data_dir=tmp_path / "data",
            clusters=(Cluster(name="dc1", brokers=(address,)),),
            mirrors=(),
            audit=AuditSettings(window_ms=W, settle_min_ms=0),
        )
        now = time.time_ns() // 1_000_000
        end = now - now % W
        servers = deployment.cluster("dc1").bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic("metrics", 2)
        with Producer(
            bootstrap_servers=servers, linger_ms=60_000, interceptors=[AuditInterceptor(W)]
        ) as producer:
            for window in range(4):
                for number in range(20):
                    at = end - (4 - window) * W + number
                    producer.send("metrics", b"value", partition=number % 2, timestamp=at)
                producer.flush(30)
        yield Site(tmp_path, deployment, end)


def judged(spark: Any, site: Site) -> Outcome:
    with open_store(site.deployment.audit_store) as store:
        period = Period(site.end - 4 * W, site.end)
        return reconcile(spark, Job(site.deployment, period), store, Steps(lambda _: None))


def test_a_damaged_batch_leaves_the_windows_that_it_touches_unknown(spark: Any, site: Site) -> None:
    """The second of four batches of metrics-0 has a flipped bit. `tallymark reconcile` ended with
    an error and no verdict of anything; then nothing behind it was counted."""
    offset = site.damage("metrics", 0, 1)
    outcome = judged(spark, site)
    states = {(one.window - site.end) // W: one for one in outcome.verdicts}
    assert offset == 10
    assert states[-1].state == State.COMPLETE
    for window in (-4, -3, -2):
        assert states[window].state == State.UNKNOWN
        assert any(
            "metrics-0 of dc1 cannot be read at offsets 10 to 19" in why and "CRC" in why
            for why in states[window].reasons
        )
    assert {one.missing for one in outcome.verdicts} == {0, 10}
    lacking = [cell for one in outcome.verdicts for cell in one.cells if cell.missing]
    assert {cell.key.partition for cell in lacking} == {0}
    assert outcome.state is Exit.UNDECIDED
    (told,) = to_json(outcome)["damaged"]
    assert (told["topic"], told["partition"], told["offset"], told["end"]) == ("metrics", 0, 10, 20)
    text = StringIO()
    print_outcome(Console(file=text, width=300), outcome)
    assert "metrics-0 of dc1 cannot be read at offsets 10 to 19" in text.getvalue()
    with open_store(site.deployment.audit_store) as store, store.read() as connection:
        (incident,) = queries.all_incidents(connection)
        edge = "producer-to-dc1"
        evidence = window_evidence.evidence(connection, edge, "metrics", site.end - 2 * W)
    assert (incident["kind"], incident["from_offset"], incident["to_offset"]) == ("damaged", 10, 20)
    assert "CRC" in incident["reason"]
    assert any("at offsets 10 to 19" in why for why in evidence.verdicts[0]["reasons"])


def test_a_damaged_batch_of_the_audit_topic_is_named(spark: Any, site: Site) -> None:
    """Claims cannot be read from there on: no window is UNCLAIMED for it, and the run ends."""
    for partition in range(50):
        with suppress(ValueError, IndexError):
            site.damage(AUDIT_TOPIC, partition, 0)
    outcome = judged(spark, site)
    assert {one.state for one in outcome.verdicts} == {State.UNKNOWN}
    assert {one.topic for one in outcome.damaged} == {AUDIT_TOPIC}
    assert "CRC" in outcome.verdicts[0].reasons[0]


@pytest.mark.soak
def test_a_user_of_the_source_gets_the_error_unless_told_otherwise(spark: Any, site: Site) -> None:
    """As with failOnDataLoss, nothing is left out in silence; who says so gets what stands before
    and behind it, and a row that tells where and why."""
    site.damage("metrics", 0, 2)
    reader = spark.read.format("tallymark").option("subscribe", "metrics")
    reader = reader.option(
        "kafka.bootstrap.servers", site.deployment.cluster("dc1").bootstrap_servers
    )
    with pytest.raises(Exception, match="metrics-0 cannot be read from offset 20 on"):
        reader.load().collect()
    rows = reader.option("failOnCorruptBatch", "false").load().collect()
    (told,) = [row for row in rows if row.timestampType == -1]
    assert (told.partition, told.offset) == (0, 20)
    assert b"CRC" in told.value
    assert told.key.startswith(b"30:")
    offsets = {p: [row.offset for row in rows if row.partition == p] for p in (0, 1)}
    assert sorted(offsets[0]) == [*range(21), *range(30, 40)]
    assert sorted(offsets[1]) == list(range(40))
