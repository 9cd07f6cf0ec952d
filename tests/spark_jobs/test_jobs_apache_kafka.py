"""Load and reconciliation on Apache Kafka: the same as on our own broker."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from broker_kinds import new_topic
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Producer as Confluent

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.deployment import (
    AuditSettings,
    BrokerAddress,
    Cluster,
    Deployment,
    LakeSettings,
    Mirror,
)
from tallymark.processes.apache_kafka import ApacheKafkaServer
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.judge.verdicts import State
from tallymark_audit.reporters.producer.interceptor import AuditInterceptor
from tallymark_audit.store import open_store
from tallymark_spark_jobs.engine.progress import Steps
from tallymark_spark_jobs.engine.session import spark_session
from tallymark_spark_jobs.lake.opening import Format
from tallymark_spark_jobs.load.job import LoadJob, run_job, topics_to_load
from tallymark_spark_jobs.load.landing import Landed, Lander, LandTask
from tallymark_spark_jobs.load.on_spark import lander_on
from tallymark_spark_jobs.reconcile.run import Job, reconcile
from tallymark_spark_jobs.reconcile.shapes.period import Period

pytestmark = [pytest.mark.apache_kafka, pytest.mark.spark, pytest.mark.process]
SECONDS = 30.0
PARTITIONS = 3
W = 5_000
EACH = 300
LOST = {(0, 7), (0, 8), (2, 50)}
"""Partition and offset upstream of what the copy lacks."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("tests", log, "local[2,2]") as session:
        yield session


def cluster_of(name: str, servers: str) -> Cluster:
    host, _, port = servers.rpartition(":")
    return Cluster(name=name, brokers=(BrokerAddress(host=host, port=int(port)),))


def send(servers: str, topic: str, count: int) -> None:
    """Plain records, and as many in transactions, of which every other one is aborted."""
    with Producer(bootstrap_servers=servers, audit=False, stamp=True) as plain:
        for number in range(count):
            plain.send(topic, b"%d" % number, partition=number % PARTITIONS)
    producer = Confluent({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    for start in range(0, count, 20):
        producer.begin_transaction()
        for number in range(start, start + 20):
            producer.produce(topic, b"of a transaction", partition=number % PARTITIONS)
        end = producer.abort_transaction if start % 40 else producer.commit_transaction
        end(SECONDS)


def read_by_another_client(servers: str, topic: str) -> set[tuple[str, int, int]]:
    """Topic, partition and offset of every record that counts."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": topic,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: set[tuple[str, int, int]] = set()
    ended = 0
    until = time.monotonic() + SECONDS
    while ended < PARTITIONS and time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            ended += 1
        else:
            found.add((topic, cast("int", message.partition()), cast("int", message.offset())))
    consumer.close()
    assert ended == PARTITIONS
    return found


def rows_of(job: LoadJob, topic: str) -> list[tuple[str, int, int]]:
    table = job.lake.table("dc1", topic)
    found: list[tuple[str, int, int]] = []
    for file in table.open().files():
        rows = pq.ParquetFile(Path(table.location) / file.path).read(["partition", "offset"])
        found += [(topic, row["partition"], row["offset"]) for row in rows.to_pylist()]
    return found


@pytest.mark.parametrize("format", ["delta", pytest.param("iceberg", marks=pytest.mark.soak)])
def test_a_load_has_every_message_exactly_once(
    apache_kafka: ApacheKafkaServer, spark: Any, tmp_path: Path, format: Format
) -> None:
    """Its driver dies behind its tasks, it runs again, and twice more: aborted records are in no
    row, markers of transactions are no gap."""
    topic, servers = new_topic("load"), apache_kafka.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, PARTITIONS)
    send(servers, topic, EACH)
    deployment = Deployment(
        clusters=(cluster_of("dc1", servers),),
        data_dir=tmp_path,
        lake=LakeSettings(format=format, topics="load.*"),
    )
    job = LoadJob(deployment, topics=topic)

    def run(lander: Lander) -> int:
        done = run_job(job, topics_to_load(job), lander, Steps(lambda text: None, quiet=True))
        assert not done.results[0].problems
        return done.results[0].rows

    def dies(tasks: Sequence[LandTask]) -> list[Landed]:
        list(lander_on(spark)(tasks))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(dies)
    expected = read_by_another_client(servers, topic)
    assert run(lander_on(spark)) == len(expected) >= EACH
    send(servers, topic, 60)
    run(lander_on(spark))
    assert run(lander_on(spark)) == 0
    rows = rows_of(job, topic)
    assert len(rows) == len(set(rows))
    assert set(rows) == read_by_another_client(servers, topic)


def test_a_reconciliation_names_what_the_copy_lacks(
    apache_kafka: ApacheKafkaServer, spark: Any, tmp_path: Path
) -> None:
    topic, servers = new_topic("reconcile"), apache_kafka.bootstrap_servers
    end = time.time_ns() // 1_000_000 // W * W
    with BrokerThread(tmp_path / "broker") as copies:
        clusters = cluster_of("dc1", servers), cluster_of("copies", copies.bootstrap_servers)
        deployment = Deployment(
            data_dir=tmp_path / "data",
            clusters=clusters,
            mirrors=(Mirror(source="dc1", target="copies"),),
            audit=AuditSettings(window_ms=W, settle_min_ms=0),
        )
        for one in clusters:
            with Admin(bootstrap_servers=one.bootstrap_servers) as admin:
                admin.create_topic(topic, PARTITIONS)
        with Producer(
            bootstrap_servers=servers, server="web-1", interceptors=[AuditInterceptor(W)]
        ) as producer:
            for number in range(EACH):
                at = end - 4 * W + number * (4 * W) // EACH
                producer.send(topic, b"x", partition=number % PARTITIONS, timestamp=at)
        copy(clusters[0], clusters[1], topic)
        job = Job(deployment, Period(None, end), topics=topic)
        with open_store(deployment.audit_store) as store:
            outcome = reconcile(spark, job, store, Steps(lambda text: None, quiet=True))
    by_edge: dict[str, list[Any]] = {}
    for verdict in outcome.verdicts:
        by_edge.setdefault(verdict.edge, []).append(verdict)
    assert {one.state for one in by_edge["producer-to-dc1"]} == {State.COMPLETE}
    assert sum(one.claimed for one in by_edge["producer-to-dc1"]) == EACH
    assert sum(one.missing for one in by_edge["dc1-to-copies"]) == len(LOST)
    found = {
        (place.partition, offset)
        for places in outcome.places.values()
        for place in places
        for offset in range(place.first_offset, place.last_offset + 1)
    }
    assert found == LOST


def copy(source: Cluster, target: Cluster, topic: str) -> None:
    """As a mirror does, but some are lost."""
    with (
        SimpleConsumer(bootstrap_servers=source.bootstrap_servers) as consumer,
        Producer(bootstrap_servers=target.bootstrap_servers, audit=False) as producer,
    ):
        for partition, end in consumer.end_offsets(topic).items():
            offset = 0
            while offset < end:
                fetched = consumer.fetch(topic, partition, offset)
                for record in fetched.records():
                    if (partition, record.offset) not in LOST:
                        producer.send(
                            topic,
                            record.value,
                            partition=partition,
                            timestamp=record.timestamp,
                            headers=record.headers,
                        )
                offset = fetched.next_offset
