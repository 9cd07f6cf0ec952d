"""Every topic config of Kafka 4.1 is accepted and kept, by our broker as by Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from admin_wire import SET, TOPIC, change, config, create, describe, fresh
from broker_kinds import KINDS, OURS, AnyBroker, either_broker
from eventually import eventually

from tallymark.errors import CODES
from tallymark.protocol import messages as m
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.wire import WireClient

GIVEN = {
    "cleanup.policy": "compact,delete",
    "compression.gzip.level": "9",
    "compression.lz4.level": "17",
    "compression.type": "uncompressed",
    "compression.zstd.level": "-5",
    "delete.retention.ms": "5000",
    "file.delete.delay.ms": "1000",
    "flush.messages": "100000",
    "flush.ms": "1000",
    "follower.replication.throttled.replicas": "0:0,1:0",
    "index.interval.bytes": "8192",
    "leader.replication.throttled.replicas": "*",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "86400000",
    "max.message.bytes": "2000000",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "3600000",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.25",
    "min.compaction.lag.ms": "10",
    "min.insync.replicas": "2",
    "preallocate": "true",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "1000000000",
    "retention.ms": "86400001",
    "segment.bytes": "1048577",
    "segment.index.bytes": "1000000",
    "segment.jitter.ms": "100",
    "segment.ms": "3600000",
    "unclean.leader.election.enable": "true",
}


@pytest.fixture(scope="module", params=KINDS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AnyBroker]:
    yield from either_broker(request, tmp_path_factory.mktemp("data"))


def values(wire: WireClient, topic: str) -> dict[str, str | None]:
    return {each.name: each.value for each in describe(wire, TOPIC, topic).configs}


def test_what_kafka_knows_is_taken_and_told(
    wire: WireClient, request: pytest.FixtureRequest
) -> None:
    """Terraform modules and topic operators write a topic with all its configs. Ours refused the
    topic for ``min.insync.replicas=2`` and eleven names that it had never heard of."""
    topic = fresh()
    assert create(wire, topic, configs=GIVEN).error_code == 0
    eventually(lambda: describe(wire, TOPIC, topic).error_code == 0)
    ours = OURS in request.node.name
    assert values(wire, topic) == GIVEN | ({"flush.before.expose": "false"} if ours else {})


def test_they_can_be_changed_one_by_one(wire: WireClient) -> None:
    topic = fresh()
    create(wire, topic)
    eventually(lambda: describe(wire, TOPIC, topic).error_code == 0)
    for name, value in GIVEN.items():
        changed = change(wire, topic, (name, SET, value))
        assert (changed.error_code, name) == (0, name)
        eventually(lambda n=name, v=value: config(wire, topic, n).value == v)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression.type", "none"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("min.insync.replicas", "0"),
        ("remote.storage.enable", "true"),
        ("leader.replication.throttled.replicas", "0"),
        ("segment.index.bytes", "3"),
        ("local.retention.ms", "-3"),
        ("message.format.version", "3.0"),
    ],
)
def test_what_kafka_refuses_is_refused(wire: WireClient, name: str, value: str) -> None:
    answer = create(wire, fresh(), configs={name: value})
    assert answer.error_code == CODES["INVALID_CONFIG"]
    assert answer.error_message


def test_a_partition_has_all_the_replicas_that_it_can_ask_for(wire: WireClient) -> None:
    """``min.insync.replicas`` above the number of replicas: acks=all is what there is."""
    topic = fresh()
    create(wire, topic, configs={"min.insync.replicas": "3"})
    batch = encode_batch([(b"k", b"v", (), 1)])
    part = m.ProduceRequestPartition(index=0, records=batch)
    request = m.ProduceRequest(
        acks=-1,
        timeout_ms=5000,
        topic_data=[m.ProduceRequestTopic(name=topic, partition_data=[part])],
    )
    eventually(lambda: wire.ask(request, 11).responses[0].partition_responses[0].error_code == 0)
