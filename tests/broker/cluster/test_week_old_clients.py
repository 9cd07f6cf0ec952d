"""Clients that heard nothing of their cluster for a week: each broker has another address since,
and the topic was deleted and created again, so leader epochs, topic id and offsets are of another
log. Only the address that they were given leads to a broker still."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from brokers_in_memory import BrokersInMemory
from eventually import eventually

from tallymark import Producer, SimpleConsumer
from tallymark.coordination import paths
from tallymark.testing.flaky_proxy import FlakyProxy


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokersInMemory]:
    with BrokersInMemory(
        tmp_path,
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
        eventually(partial(is_produced, cluster, b"new %d" % number))


def is_produced(cluster: BrokersInMemory, value: bytes) -> bool:
    return cluster.produce("t", value).error_code == 0


@pytest.mark.parametrize("count", [3, 8], ids=["shorter", "longer"])
def test_week_old_clients_find_their_cluster_and_see_that_the_topic_is_another_one(
    cluster: BrokersInMemory, count: int
) -> None:
    """The new topic has the same leader epoch as the old one: where it is longer, a position of
    the old one lies in its middle, and only the topic's id shows it. (What a consumer in a group
    makes of that: ``client/consuming/test_connector_fetch.py``.)"""
    with (
        FlakyProxy(cluster.any_address) as door,
        Producer(bootstrap_servers=door.address, audit=False) as producer,
        SimpleConsumer(bootstrap_servers=door.address) as consumer,
    ):
        for number in range(5):
            producer.send("t", b"old %d" % number, partition=0)
        producer.flush(60)
        before = consumer.fetch("t", 0, 0)
        assert before.next_offset > 0
        a_week_passes(cluster, count)
        door.target = cluster.any_address
        last = producer.send("t", b"last", partition=0)
        producer.flush(60)
        assert last.result(60).offset >= count
        after = consumer.fetch("t", 0, 0)
        assert after.topic_id == cluster.topic("t").topic_id != before.topic_id
        values = cluster.wait_until_equal("t")
        assert values[-1] == b"last"
        assert set(values[:-1]) == {b"new %d" % number for number in range(count)}
