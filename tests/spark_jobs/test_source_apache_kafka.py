"""The source against Apache Kafka: transactions, topics made anew, records that expire. (What a
Spark session adds is tested with our own broker.)"""

from __future__ import annotations

import time
from typing import Any

import pytest
from broker_kinds import new_topic
from confluent_kafka import Producer as Confluent

from tallymark.client import Admin, Producer
from tallymark.errors import UserError
from tallymark.processes.apache_kafka import ApacheKafkaServer
from tallymark_spark_jobs.source.log_reader import plan_spans, read_batches
from tallymark_spark_jobs.source.options import SourceOptions, parse_options
from tallymark_spark_jobs.source.planning import Span

pytestmark = [pytest.mark.apache_kafka, pytest.mark.process]

SECONDS = 20.0


@pytest.fixture
def topic() -> str:
    return new_topic("spark")


def options(kafka: ApacheKafkaServer, topic: str, **given: str) -> SourceOptions:
    named = {name.replace("_", "."): value for name, value in given.items()}
    place = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    return parse_options({**place, **named})


def read(how: SourceOptions, spans: list[Span] | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for span in plan_spans(how) if spans is None else spans:
        for batch in read_batches(how, span):
            found += batch.to_pylist()
    return found


def make(kafka: ApacheKafkaServer, topic: str, *values: bytes) -> None:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topic(topic, 1)
    with Producer(bootstrap_servers=kafka.bootstrap_servers, audit=False) as producer:
        for value in values:
            producer.send(topic, value).result(SECONDS)


def test_records_of_aborted_transactions(apache_kafka: ApacheKafkaServer, topic: str) -> None:
    """They were among the records whatever ``kafka.isolation.level`` said, which was refused."""
    make(apache_kafka, topic, b"plain")
    producer = Confluent(
        {"bootstrap.servers": apache_kafka.bootstrap_servers, "transactional.id": topic}
    )
    producer.init_transactions(SECONDS)
    for value, commits in ((b"kept", True), (b"aborted", False), (b"open", None)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        assert producer.flush(SECONDS) == 0
        if commits is not None:
            end = producer.commit_transaction if commits else producer.abort_transaction
            end(SECONDS)
    columns = {"columns": "value,offset"}
    everything = options(apache_kafka, topic, **columns, kafka_isolation_level="read_uncommitted")
    all_of_it = read(everything)
    assert [row["value"] for row in all_of_it] == [b"plain", b"kept", b"aborted", b"open"]
    committed = options(apache_kafka, topic, **columns)
    assert [row["value"] for row in read(committed)] == [b"plain", b"kept"]
    stamps = read(options(apache_kafka, topic, mode="stamps", columns="offset,stamped"))
    assert [row["stamped"] for row in stamps] == [0, 0, 2]
    producer.abort_transaction(SECONDS)


def test_a_topic_that_was_made_anew_is_not_read(
    apache_kafka: ApacheKafkaServer, topic: str
) -> None:
    make(apache_kafka, topic, b"a", b"b")
    how = options(apache_kafka, topic, columns="value")
    spans = plan_spans(how)
    assert spans[0].topic_id
    assert spans[0].leader_epoch >= 0
    assert [row["value"] for row in read(how, spans)] == [b"a", b"b"]
    with Admin(bootstrap_servers=apache_kafka.bootstrap_servers) as admin:
        admin.delete_topic(topic)
        until = time.monotonic() + SECONDS
        while topic in admin.topics() and time.monotonic() < until:
            time.sleep(0.1)
    make(apache_kafka, topic, b"c", b"d")
    with pytest.raises(UserError, match=f"{topic}-0: the topic was deleted or made anew"):
        read(how, spans)


def test_what_expires_between_plan_and_read(apache_kafka: ApacheKafkaServer, topic: str) -> None:
    make(apache_kafka, topic, b"a", b"b", b"c")
    how = options(apache_kafka, topic, columns="value")
    spans = plan_spans(how)
    with Admin(bootstrap_servers=apache_kafka.bootstrap_servers) as admin:
        admin.delete_records({(topic, 0): 2}).check()
    with pytest.raises(UserError, match=f"{topic}-0: offset 0 was deleted"):
        read(how, spans)
    passing = {"failOnDataLoss": "false"}
    how = options(apache_kafka, topic, columns="value", **passing)
    assert read(how, spans) == [{"value": b"c"}]
    how = options(apache_kafka, topic, mode="stamps", columns="offset,stamped,instance", **passing)
    assert read(how, spans) == [
        {"offset": 0, "stamped": 4, "instance": "2:-1"},
        {"offset": 2, "stamped": 0, "instance": ""},
    ]


def test_times_bound_what_is_read(apache_kafka: ApacheKafkaServer, topic: str) -> None:
    make(apache_kafka, topic)
    with Producer(bootstrap_servers=apache_kafka.bootstrap_servers, audit=False) as producer:
        for at in range(10):
            producer.send(topic, b"%d" % at, timestamp=1_000 * (at + 1)).result(SECONDS)
    bounds = {"startingTimestamp": "3000", "endingTimestamp": "5000", "endingLateness": "1000"}
    how = options(apache_kafka, topic, columns="value", **bounds)
    (span,) = plan_spans(how)
    assert (span.start, span.end, span.left_out) == (2, 5, 10)
    assert [row["value"] for row in read(how, [span])] == [b"2", b"3"]
