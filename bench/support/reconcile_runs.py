"""A small day in three clusters, mirrored by hand, and what reconciling it costs: with all counted,
or with the counts that a load has kept."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from click.testing import CliRunner
from support.own_broker import OwnBroker

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.deployment import (
    AuditSettings,
    BrokerAddress,
    Cluster,
    Deployment,
    LakeSettings,
    Mirror,
    dump_toml,
)
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor
from tallymark_audit.store import open_store
from tallymark_spark_jobs.cli.load import load
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.reconcile.run import Job, reconcile
from tallymark_spark_jobs.reconcile.shapes.period import Period

DAY = 86_400_000
PARTITIONS = 8
STICKY = 20
"""So many messages of a topic go to one partition, then the next is taken, as batches do it."""


def runs(
    stack: ExitStack,
    folder: Path,
    messages: int,
    windows: int,
    processor: Callable[[], float],
    topics: int = 1,
    trusted: bool = False,
) -> None:
    """Three clusters with ``messages`` in all, over a day of so many windows, in so many topics;
    Spark is started, and two runs are taken. ``trusted``: all is loaded before, and the runs trust
    what the load has counted."""
    window_ms = DAY // windows
    deployment = _three_clusters(
        stack,
        folder,
        window_ms,
        LakeSettings(clusters=("dc1", "dc2", "aggregate")) if trusted else None,
    )
    names = [f"metrics-{number}" for number in range(topics)]
    now = time.time_ns() // 1_000_000
    end = now - now % window_ms
    for cluster in deployment.clusters:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            for name in names:
                admin.create_topic(name, PARTITIONS)
    for name in ("dc1", "dc2"):
        _fill(deployment, name, names, messages // 4, end, window_ms)
    if trusted:
        _load(deployment, folder)
    began, used = time.monotonic(), processor()
    steps = Steps(lambda text: print(text, file=sys.stderr), quiet=True)
    with steps.step("start", "starting Spark"):
        spark = stack.enter_context(spark_session("bench", folder / "spark.log", "local[2]"))
    job = Job(deployment, Period(end - DAY, end), trust_load_counts=trusted)
    with open_store(deployment.audit_store) as store:
        for number in (1, 2):
            outcome = reconcile(spark, job, store, steps)
            taken, cpu = time.monotonic() - began, processor() - used
            told = ", ".join(f"{name} {seconds:.1f}" for name, seconds in outcome.seconds.items())
            print(
                f"run {number}: {messages:,} messages, {len(outcome.verdicts):,} verdicts, "
                f"{outcome.state.name}: {taken:.1f} s, {cpu:.1f} CPU-s ({told})"
            )
            for note in outcome.notes:
                print(f"  {note}")
            began, used = time.monotonic(), processor()


def _three_clusters(
    stack: ExitStack, folder: Path, window_ms: int, lake: LakeSettings | None
) -> Deployment:
    brokers = {
        name: stack.enter_context(OwnBroker(folder / name)) for name in ("dc1", "dc2", "aggregate")
    }
    return Deployment(
        data_dir=folder / "data",
        clusters=tuple(
            Cluster(name=name, brokers=(BrokerAddress(port=broker.port),))
            for name, broker in brokers.items()
        ),
        mirrors=tuple(Mirror(source=name, target="aggregate") for name in ("dc1", "dc2")),
        audit=AuditSettings(window_ms=window_ms, settle_min_ms=0),
        lake=lake,
    )


def _load(deployment: Deployment, folder: Path) -> None:
    """Load every cluster, without Spark."""
    settings = folder / "settings.toml"
    settings.write_text(dump_toml(deployment))
    began = time.monotonic()
    for cluster in deployment.clusters:
        words = ["--settings", str(settings), "--here", "--cluster", cluster.name]
        done = CliRunner().invoke(load, words)
        if done.exit_code not in (0, 4):
            raise SystemExit(f"loading {cluster.name}: {done.output} {done.exception!r}")
    print(f"loaded in {time.monotonic() - began:.1f} s")


def _fill(
    deployment: Deployment, name: str, topics: Sequence[str], messages: int, end: int, window: int
) -> None:
    """Publish a day into a cluster, and copy it into the aggregate as a mirror does."""
    source = deployment.cluster(name).bootstrap_servers
    target = deployment.cluster("aggregate").bootstrap_servers
    value = b"v" * 200
    for hour in range(24):  # a producer claims some thousand windows at a time, not a whole day's
        with Producer(
            bootstrap_servers=source,
            server=f"{name}-web",
            interceptors=[AuditInterceptor(window)],
        ) as producer:
            for n in range(hour * messages // 24, (hour + 1) * messages // 24):
                at = end - DAY + n * DAY // messages
                turn = n // len(topics)
                partition = turn // STICKY % PARTITIONS
                topic = topics[n % len(topics)]
                producer.send(topic, value, partition=partition, timestamp=at)
    with (
        SimpleConsumer(bootstrap_servers=source) as consumer,
        Producer(bootstrap_servers=target, audit=False) as producer,
    ):
        for topic in topics:
            _copy(consumer, producer, topic)


def _copy(consumer: SimpleConsumer, producer: Producer, topic: str) -> None:
    for partition, last in consumer.end_offsets(topic).items():
        at = 0
        while at < last:
            fetched = consumer.fetch(topic, partition, at, max_bytes=1 << 20)
            for record in fetched.records():
                producer.send(
                    topic,
                    record.value,
                    partition=partition,
                    timestamp=record.timestamp,
                    headers=record.headers,
                )
            at = fetched.next_offset
