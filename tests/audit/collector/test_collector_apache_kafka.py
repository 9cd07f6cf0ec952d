"""The collector beside Apache Kafka: real transactions, and its group protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_kinds import new_topic
from confluent_kafka import Producer as Confluent
from eventually import eventually
from sqlalchemy import select

from tallymark.client import Admin
from tallymark.client.producing.stamps import Stamp, encode_stamp
from tallymark.deployment import AuditSettings, BrokerAddress, Cluster, Deployment
from tallymark.processes.apache_kafka import ApacheKafkaServer
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.sides import Observation, merge_observations
from tallymark_audit.service import CollectorService
from tallymark_audit.store import Store, open_store
from tallymark_audit.store.schema.rows import observation_from_row
from tallymark_audit.store.schema.tables import observations

pytestmark = [pytest.mark.apache_kafka, pytest.mark.process]
SECONDS = 30.0
TIMESTAMP = 1_700_000_000_000


@pytest.fixture
def topic(apache_kafka: ApacheKafkaServer) -> str:
    """A topic, beside the audit topic, which other tests may have made already."""
    name = new_topic("audited")
    with Admin(bootstrap_servers=apache_kafka.bootstrap_servers) as admin:
        admin.create_topic(name, 1)
        admin.create_topic(AUDIT_TOPIC, 1, if_not_exists=True)
    return name


@pytest.fixture
def deployment(apache_kafka: ApacheKafkaServer, topic: str, tmp_path: Path) -> Deployment:
    port = int(apache_kafka.bootstrap_servers.rsplit(":", 1)[1])
    return Deployment(
        data_dir=tmp_path / "data",
        clusters=(Cluster(name="dc1", brokers=(BrokerAddress(port=port),)),),
        mirrors=(),
        audit=AuditSettings(window_ms=60_000, topics=topic),
    )


@pytest.fixture
def store(deployment: Deployment) -> Iterator[Store]:
    with open_store(deployment.audit_store) as opened:
        yield opened


def seen(store: Store) -> Observation | None:
    with store.read() as connection:
        rows = connection.execute(select(observations)).mappings().all()
    cells = merge_observations(observation_from_row(row) for row in rows)
    return next(iter(cells.values()), None)


def test_transactions_of_apache_kafka(
    apache_kafka: ApacheKafkaServer, deployment: Deployment, store: Store, topic: str
) -> None:
    producer = Confluent(
        {
            "bootstrap.servers": apache_kafka.bootstrap_servers,
            "transactional.id": topic,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(SECONDS)

    def transaction(first: int, count: int) -> None:
        producer.begin_transaction()
        for sequence in range(first, first + count):
            stamp = encode_stamp(Stamp(b"instance", 0, sequence, "web"))
            headers: list[tuple[str, str | bytes | None]] = [("tm", stamp)]
            producer.produce(topic, b"v", partition=0, timestamp=TIMESTAMP, headers=headers)
        assert producer.flush(SECONDS) == 0

    service = CollectorService(deployment, "dc1")
    try:
        transaction(0, 5)
        producer.commit_transaction(SECONDS)
        transaction(5, 5)
        producer.abort_transaction(SECONDS)
        transaction(10, 5)
        producer.commit_transaction(SECONDS)
        transaction(15, 5)  # open: nobody knows yet
        eventually(lambda: (found := seen(store)) is not None and found.count == 10)
        found = seen(store)
        assert found is not None
        assert (str(found.ranges), str(found.aborted)) == ("0-4, 10-14", "5-9")
        producer.commit_transaction(SECONDS)
        eventually(lambda: (found := seen(store)) is not None and found.count == 15)
        eventually(lambda: service.counters.partitions == 2 and service.counters.in_charge)
        service.check()
    finally:
        service.close()
        producer.purge()


@pytest.mark.soak
def test_two_collectors_share_the_partitions(
    apache_kafka: ApacheKafkaServer, deployment: Deployment, store: Store, topic: str
) -> None:
    with Admin(bootstrap_servers=apache_kafka.bootstrap_servers) as admin:
        admin.create_partitions({topic: 4})
    first = CollectorService(deployment, "dc1")
    try:
        eventually(lambda: first.counters.partitions == 5)
        second = CollectorService(deployment, "dc1")
        try:
            eventually(lambda: {first.counters.partitions, second.counters.partitions} == {2, 3})
            assert first.counters.in_charge != second.counters.in_charge
        finally:
            second.close()
        eventually(lambda: first.counters.partitions == 5 and first.counters.in_charge)
        first.check()
    finally:
        first.close()
