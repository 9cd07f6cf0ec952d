"""A small day in three clusters, mirrored by hand, and what reconciling it costs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from support.own_broker import OwnBroker

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.deployment import AuditSettings, BrokerAddress, Cluster, Deployment, Mirror
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor
from tallymark_audit.store import open_store
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.reconcile.run import Job, reconcile
from tallymark_spark_jobs.reconcile.shapes.period import Period

DAY = 86_400_000
PARTITIONS = 8


def runs(
    stack: ExitStack, folder: Path, messages: int, windows: int, processor: Callable[[], float]
) -> None:
    """Three clusters with ``messages`` in all, over a day of so many windows; Spark is started, and
    two runs are taken."""
    window_ms = DAY // windows
    brokers = {
        name: stack.enter_context(OwnBroker(folder / name)) for name in ("dc1", "dc2", "aggregate")
    }
    deployment = Deployment(
        data_dir=folder / "data",
        clusters=tuple(
            Cluster(name=name, brokers=(BrokerAddress(port=broker.port),))
            for name, broker in brokers.items()
        ),
        mirrors=tuple(Mirror(source=name, target="aggregate") for name in ("dc1", "dc2")),
        audit=AuditSettings(window_ms=window_ms, settle_min_ms=0),
    )
    now = time.time_ns() // 1_000_000
    end = now - now % window_ms
    for cluster in deployment.clusters:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topic("metrics", PARTITIONS)
    for name in ("dc1", "dc2"):
        _fill(deployment, name, messages // 4, end, window_ms)
    began, used = time.monotonic(), processor()
    steps = Steps(lambda text: print(text, file=sys.stderr), quiet=True)
    with steps.step("start", "starting Spark"):
        spark = stack.enter_context(spark_session("bench", folder / "spark.log", "local[2]"))
    with open_store(deployment.audit_store) as store:
        for number in (1, 2):
            outcome = reconcile(spark, Job(deployment, Period(end - DAY, end)), store, steps)
            taken, cpu = time.monotonic() - began, processor() - used
            told = ", ".join(f"{name} {seconds:.1f}" for name, seconds in outcome.seconds.items())
            print(
                f"run {number}: {messages:,} messages, {len(outcome.verdicts):,} windows, "
                f"{outcome.state.name}: {taken:.1f} s, {cpu:.1f} CPU-s ({told})"
            )
            began, used = time.monotonic(), processor()


def _fill(deployment: Deployment, name: str, messages: int, end: int, window_ms: int) -> None:
    """Publish a day into a cluster, and copy it into the aggregate as a mirror does."""
    source = deployment.cluster(name).bootstrap_servers
    target = deployment.cluster("aggregate").bootstrap_servers
    value = b"v" * 200
    with Producer(
        bootstrap_servers=source, server=f"{name}-web", interceptors=[AuditInterceptor(window_ms)]
    ) as producer:
        for n in range(messages):
            at = end - DAY + n * DAY // messages
            producer.send("metrics", value, partition=n % PARTITIONS, timestamp=at)
    with (
        SimpleConsumer(bootstrap_servers=source) as consumer,
        Producer(bootstrap_servers=target, audit=False) as producer,
    ):
        for partition, last in consumer.end_offsets("metrics").items():
            at = 0
            while at < last:
                fetched = consumer.fetch("metrics", partition, at, max_bytes=1 << 20)
                for record in fetched.records():
                    producer.send(
                        "metrics",
                        record.value,
                        partition=partition,
                        timestamp=record.timestamp,
                        headers=record.headers,
                    )
                at = fetched.next_offset
