"""From a broker to the webhook: a message that is really there twice is found, told, measured, and
told to be over once a person has accepted it."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
from eventually import eventually
from webhook_receiver import webhook_receiver

from tallymark.client import Producer, SimpleConsumer
from tallymark.deployment import (
    AlertSettings,
    AuditSettings,
    BrokerAddress,
    Cluster,
    Deployment,
    dump_toml,
)
from tallymark.testing.broker_thread import BrokerThread
from tallymark_audit.cli.alerts import wait_for
from tallymark_audit.collector.collector import wall_clock
from tallymark_audit.metrics.endpoint import CollectorMetrics
from tallymark_audit.service import CollectorService
from tallymark_audit.store import open_store
from tallymark_audit.store.judged import verdicts as judged
from tallymark_audit.store.reading import paging, queries
from tallymark_audit.store.schema.rows import Row

pytestmark = pytest.mark.process
EDGE = "producer-to-dc1"


def publish(bootstrap_servers: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers, server="web-1") as producer:
        for number in range(100):
            producer.send("clicks", b"x", key=str(number).encode(), partition=0)


def append_again(bootstrap_servers: str) -> None:
    """The first record once more, with its own stamp and time."""
    with SimpleConsumer(bootstrap_servers=bootstrap_servers) as reader:
        first = next(iter(next(iter(reader.fetch("clicks", 0, 0).batches)).records()))
    with Producer(bootstrap_servers=bootstrap_servers, audit=False) as producer:
        producer.send(
            "clicks",
            first.value,
            key=first.key,
            partition=0,
            timestamp=first.timestamp,
            headers=first.headers,
        ).result(30)


@pytest.mark.soak
def test_a_copy_is_told_and_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with BrokerThread(tmp_path, num_partitions=1) as broker, webhook_receiver() as receiver:
        port = int(broker.bootstrap_servers.rsplit(":", 1)[1])
        alerts = AlertSettings(webhook=receiver.url, send_interval_ms=1000)
        audit = AuditSettings(
            window_ms=1000,
            settle_min_ms=500,
            report_interval_ms=100,
            silence_ms=60_000,
            metrics_port=0,
            alerts=alerts,
        )
        dc1 = Cluster(name="dc1", brokers=(BrokerAddress(port=port),))
        deployment = Deployment(
            data_dir=tmp_path / "data", clusters=(dc1,), mirrors=(), audit=audit
        )
        settings = tmp_path / "tallymark.toml"
        settings.write_text(dump_toml(deployment))
        monkeypatch.setenv("TALLYMARK_SETTINGS", str(settings))
        service = CollectorService(deployment, "dc1")
        metrics = CollectorMetrics(deployment, [service])
        try:
            publish(broker.bootstrap_servers)
            append_again(broker.bootstrap_servers)
            eventually(lambda: receiver.taken, seconds=150, what="the webhook hears of it")
            (told,) = receiver.taken[0]["alerts"]
            assert told["labels"]["alertname"] == "TallymarkDuplicateMessages"
            assert (told["labels"]["edge"], told["labels"]["topic"]) == (EDGE, "clicks")
            with urllib.request.urlopen(f"http://{metrics.address}/metrics") as answer:
                text = answer.read().decode()
            line = f'tallymark_audit_excess_messages{{edge="{EDGE}",topic="clicks"}} 1.0'
            assert line in text
            assert 'tallymark_collector_in_charge{cluster="dc1"} 1.0' in text

            with open_store(deployment.audit_store) as store:
                with store.read() as connection:
                    (row,) = queries.windows(connection, EDGE, states=["DUPLICATION"])
                with store.write() as connection:
                    judged.accept(
                        connection, EDGE, "clicks", row["window"], "ann", "", wall_clock()
                    )
                eventually(lambda: len(receiver.taken) > 1, seconds=150, what="its end is told")
                assert receiver.taken[1]["status"] == "resolved"

                def mark() -> Row | None:
                    with store.read() as connection:
                        return next(
                            iter(paging.watermarks_of(connection, [(EDGE, "clicks")])), None
                        )

                through = row["window"] + audit.window_ms
                done = wait_for(mark, through, 60)
                assert done is not None
                assert done["through"] >= through
        finally:
            metrics.close()
            service.close()
        service.check()
