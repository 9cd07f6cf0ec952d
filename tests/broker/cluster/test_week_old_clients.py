"""Clients that heard nothing of their cluster for a week: each broker has another address since,
and the topic was deleted and created again, so leader epochs, topic id and offsets are of another
log. Only the address that they were given leads to a broker still."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from brokers_in_memory import BrokersInMemory, eventually

from tallymark import ConsumerConnector, Producer
from tallymark.client.reading.message import Gap
from tallymark.coordination import paths
from tallymark.testing.flaky_proxy import FlakyProxy


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokersInMemory]:
    with BrokersInMemory(
        tmp_path,
        offsets_topic_num_partitions=1,
        group_initial_rebalance_delay_ms=0,
        auto_create_topics_enable=False,
    ) as brokers:
        brokers.create("t", min_insync_replicas=2)
        yield brokers


def a_week_passes(cluster: BrokersInMemory, count: int) -> None:
    """The topic is another one with ``count`` messages, and no broker is where it was."""
    topic_id = cluster.topic("t").topic_id
    for broker in cluster.brokers.values():
        broker.stop()
        broker.settings = broker.settings.model_copy(update={"port": 0})
    for path in (paths.topic("t"), paths.CHANGES):
        cluster.zookeeper.delete_tree(path)
    for node_id in cluster.brokers:
        note = f"{paths.DELETED_TOPICS}/{node_id}-{topic_id.hex}"
        cluster.zookeeper.create(note, parents=True)
    for broker in cluster.brokers.values():
        broker.start()
    cluster.create("t", min_insync_replicas=2)
    for number in range(count):
        value = b"new %d" % number
        eventually(lambda value=value: cluster.produce("t", value).error_code == 0)  # type: ignore[misc]


@pytest.mark.parametrize("count", [3, 8], ids=["shorter", "longer"])
def test_week_old_clients_find_their_cluster_and_miss_nothing_of_the_new_topic(
    cluster: BrokersInMemory, count: int
) -> None:
    """The consumer's position lay in the middle of the new topic, which has the same leader epoch:
    it went on there, and left out the beginning without a word."""
    gaps: list[Gap] = []
    values: list[bytes | None] = []
    with (
        FlakyProxy(cluster.any_address) as door,
        Producer(bootstrap_servers=door.address, audit=False) as producer,
    ):
        for number in range(5):
            producer.send("t", b"old %d" % number, partition=0)
        producer.flush(60)
        connector = ConsumerConnector(
            bootstrap_servers=door.address,
            group="g",
            auto_offset_reset="smallest",
            enable_auto_commit=False,
            on_gap=gaps.append,
        )
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        over = threading.Event()

        def read() -> None:
            while not over.is_set():
                values.extend(message.value for message in stream.poll(0.1))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            eventually(lambda: len(values) == 5, 60)
            door.refuse()
            door.cut()
            a_week_passes(cluster, count)
            door.target = cluster.any_address
            door.listen()
            last = producer.send("t", b"last", partition=0)
            producer.flush(60)
            assert last.result(60).offset >= count
            eventually(lambda: b"last" in values, 60)
        finally:
            over.set()
            reader.join(60)
            connector.shutdown()
    assert values[5:] == cluster.wait_until_equal("t")
    assert set(values[5:]) >= {b"new %d" % number for number in range(count)}
    assert [(gap.topic, gap.to_offset, gap.reason) for gap in gaps] == [("t", 5, "truncated")]
