"""Three brokers that are one cluster: what is acknowledged by all survives one of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker_kinds import skip_without_jars

from tallymark.client import Admin, Producer, SimpleConsumer
from tallymark.processes.apache_kafka import ApacheKafkaCluster

pytestmark = [pytest.mark.apache_kafka, pytest.mark.process, pytest.mark.soak]


def test_a_topic_of_three_replicas_is_written_and_read_without_one_of_its_brokers(
    tmp_path: Path,
) -> None:
    skip_without_jars()
    with ApacheKafkaCluster(tmp_path) as cluster:
        servers = cluster.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic("t", 1, {"min.insync.replicas": "2"}, replication_factor=3)
        with Producer(bootstrap_servers=servers, audit=False) as producer:
            producer.send("t", b"before").result(60)
            cluster.brokers[1].kill()
            producer.send("t", b"after").result(60)
        with SimpleConsumer(bootstrap_servers=servers) as consumer:
            records = consumer.fetch("t", 0, 0).records()
            assert [record.value for record in records] == [b"before", b"after"]
