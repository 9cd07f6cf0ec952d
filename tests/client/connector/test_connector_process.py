"""The consumer connector with a real ZooKeeper and a real broker."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from connector_cluster import Cluster, names, running_cluster, session_of, take, values
from eventually import eventually

from tallymark.client.admin.admin import Admin
from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.producing.producer import Producer
from tallymark.client.reading.message import Gap, Message
from tallymark.coordination import ConsumerRegistry, OffsetRegistry, Position, ZooKeeper
from tallymark.errors import ClosedError, ConnectError, KafkaError, UserError
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.zookeeper import expire_session, free_port

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def group() -> str:
    return f"group{next(names)}"


def test_a_group_of_one_consumes_commits_and_goes_on(cluster: Cluster, group: str) -> None:
    topic = cluster.topic()
    sent = cluster.publish(topic, 0, 20)
    with cluster.consumer(group) as consumer:
        streams = consumer.create_message_streams({topic: 2})[topic]
        assert consumer.assignment == {topic: (0, 1)}
        found = take(streams, sent)
        assert values(found) == sorted(sent)
        for partition in (0, 1):
            offsets = [m.offset for m in found if m.partition == partition]
            assert offsets == list(range(10))
        with pytest.raises(UserError, match="streams already"):
            consumer.create_message_streams({topic: 1})
    with pytest.raises(ClosedError):
        consumer.commit_offsets()
    consumer.shutdown()
    more = cluster.publish(topic, 100, 4)
    with cluster.consumer(group) as consumer:
        streams = consumer.create_message_streams({topic: 1})[topic]
        assert values(take(streams, more)) == sorted(more)


def test_an_iterator_ends_at_shutdown(cluster: Cluster, group: str) -> None:
    topic = cluster.topic(1)
    sent = cluster.publish(topic, 0, 3, 1)
    consumer = cluster.consumer(group)
    (stream,) = consumer.create_message_streams({topic: 1})[topic]
    found: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def read() -> None:
        for message in stream:
            found.put(message)

    reader = threading.Thread(target=read)
    reader.start()
    assert {found.get(timeout=10).value for _ in sent} == sent
    before = threading.active_count()
    consumer.shutdown()
    reader.join(30)
    assert not reader.is_alive()
    assert threading.active_count() < before


def test_two_consumers_share_and_nothing_is_lost_or_repeated(cluster: Cluster, group: str) -> None:
    """A second consumer joins, then the first one leaves in order."""
    topic = cluster.topic(4)
    first = cluster.publish(topic, 0, 40, 4)
    a = cluster.consumer(group, consumer_id="a")
    streams_a = a.create_message_streams({topic: 1})[topic]
    found = take(streams_a, first)
    with cluster.consumer(group, consumer_id="b") as b:
        streams_b = b.create_message_streams({topic: 1})[topic]
        eventually(lambda: a.assignment == {topic: (0, 1)} and b.assignment == {topic: (2, 3)})
        second = cluster.publish(topic, 1000, 40, 4)
        found += take(streams_a + streams_b, second)
        a.shutdown()
        eventually(lambda: b.assignment == {topic: (0, 1, 2, 3)})
        third = cluster.publish(topic, 2000, 40, 4)
        found += take(streams_b, third)
        assert values(found) == sorted(first | second | third)


def test_a_consumer_that_dies_is_followed_from_its_last_commit(
    cluster: Cluster, group: str
) -> None:
    topic = cluster.topic(1)
    cluster.publish(topic, 0, 10, 1)
    a = cluster.consumer(group, consumer_id="a", enable_auto_commit=False)
    (stream,) = a.create_message_streams({topic: 1})[topic]
    for _ in range(5):
        next(stream)
    a.commit_offsets()
    for _ in range(2):
        next(stream)
    a.commit_offsets({(topic, 0): 6})
    with pytest.raises(KafkaError, match="not owned"):
        a.commit_offsets({(topic, 7): 6})
    with cluster.consumer(group, consumer_id="b", start_timeout_ms=100) as b:
        (stream_b,) = b.create_message_streams({topic: 1})[topic]
        assert b.assignment == {}
        session_of(a).close()  # as if it were killed
        assert next(stream_b).offset == 6
    a.shutdown()


def test_a_lost_session_is_survived_without_a_gap(cluster: Cluster, group: str) -> None:
    topic = cluster.topic(1)
    sent = cluster.publish(topic, 0, 10, 1)
    with cluster.consumer(group) as consumer:
        streams = consumer.create_message_streams({topic: 1})[topic]
        take(streams, sent)
        consumer.commit_offsets()
        expire_session(session_of(consumer))
        more = cluster.publish(topic, 100, 10, 1)
        assert values(take(streams, more)) == sorted(more)
        with ZooKeeper(cluster.connect) as zookeeper:
            owners = ConsumerRegistry(zookeeper, group).owners(topic)
        assert owners == {0: consumer.consumer_id}


def test_new_topics_and_gone_ones_are_followed_by_a_filter(cluster: Cluster, group: str) -> None:
    prefix = f"filter{next(names)}"
    with (
        Admin(bootstrap_servers=cluster.broker.bootstrap_servers) as admin,
        cluster.consumer(group) as consumer,
    ):
        streams = consumer.create_message_streams_by_filter(f"{prefix}.*", 2)
        assert consumer.assignment == {}
        admin.create_topic(f"{prefix}-a", 2)
        sent = cluster.publish(f"{prefix}-a", 0, 10)
        take(streams, sent)
        admin.create_topic(f"{prefix}-b", 1)
        admin.create_topic(f"_{prefix}", 1)
        take(streams, cluster.publish(f"{prefix}-b", 100, 10, 1))
        eventually(lambda: consumer.assignment == {f"{prefix}-a": (0, 1), f"{prefix}-b": (0,)})
        admin.delete_topic(f"{prefix}-a")
        eventually(lambda: consumer.assignment == {f"{prefix}-b": (0,)})


def test_before_partitions_go_the_application_may_finish(cluster: Cluster, group: str) -> None:
    topic = cluster.topic(2)
    sent = cluster.publish(topic, 0, 10)
    done: dict[tuple[str, int], int] = {}

    def before_release() -> Mapping[tuple[str, int], int]:
        return done

    a = cluster.consumer(
        group, consumer_id="a", enable_auto_commit=False, before_release=before_release
    )
    for message in take(a.create_message_streams({topic: 1})[topic], sent):
        done[topic, message.partition] = message.offset + 1
    done["elsewhere", 0] = 5
    with cluster.consumer(group, consumer_id="b") as b:
        streams = b.create_message_streams({topic: 1})[topic]
        eventually(lambda: b.assignment == {topic: (1,)})
        more = cluster.publish(topic, 100, 10)
        a.shutdown()
        assert set(values(take(streams, more))) == more
    with ZooKeeper(cluster.connect) as zookeeper:
        found = OffsetRegistry(zookeeper, group).read([(topic, 0), (topic, 1), ("elsewhere", 0)])
    assert found[topic, 0] == Position(10, found[topic, 0].epoch)
    assert ("elsewhere", 0) not in found


def test_a_log_that_lost_its_tail_is_told_and_what_stands_there_now_is_consumed(
    cluster: Cluster, group: str, tmp_path: Path
) -> None:
    """A power failure takes the unflushed end of a log that was consumed already; new messages
    get the same offsets. A consumer that just went on at its offset left those out."""
    gaps: list[Gap] = []
    with BrokerThread(
        tmp_path, enable_zookeeper=True, zookeeper_connect=f"{cluster.zookeeper.connect}/cut"
    ) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
            for number in range(10):
                producer.send("t", b"old %d" % number, partition=0).result(30)
        with ConsumerConnector(
            zookeeper_connect=f"{cluster.zookeeper.connect}/cut",
            group=group,
            on_gap=gaps.append,
        ) as consumer:
            (stream,) = consumer.create_message_streams({"t": 1})["t"]
            assert [next(stream).offset for _ in range(10)] == list(range(10))
            broker.kill()
            (segment,) = (tmp_path / "broker" / "t-0").glob("*.log")
            with segment.open("r+b") as file:
                file.truncate(segment.stat().st_size // 2 + 5)  # five and a half messages stay
            broker.start()
            with Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer:
                for number in range(8):
                    producer.send("t", b"new %d" % number, partition=0).result(30)
            found = [next(stream) for _ in range(8)]
    assert [message.value for message in found] == [b"new %d" % number for number in range(8)]
    assert [message.offset for message in found] == list(range(5, 13))
    assert gaps == [Gap("t", 0, 5, 10, "truncated")]


def test_a_cluster_without_its_topics_in_zookeeper(cluster: Cluster, tmp_path: Path) -> None:
    """bootstrap_servers name a cluster that keeps its own metadata; the group's registries are
    made in ZooKeeper where there are none."""
    elsewhere = f"{cluster.zookeeper.connect}/elsewhere"
    with (
        BrokerThread(tmp_path, num_partitions=2) as broker,
        Producer(bootstrap_servers=broker.bootstrap_servers, audit=False) as producer,
    ):
        producer.send("t", b"1").result(30)
        with ConsumerConnector(
            zookeeper_connect=elsewhere,
            bootstrap_servers=broker.bootstrap_servers,
            group="g",
            session_timeout_ms=2000,
        ) as consumer:
            (stream,) = consumer.create_message_streams({"t": 1})["t"]
            assert consumer.assignment == {"t": (0, 1)}
            assert next(stream).value == b"1"


def test_the_death_of_a_background_thread_is_raised(
    cluster: Cluster, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consumers that stopped fetching without a word have been waited for, for hours."""
    topic = cluster.topic(1)
    with cluster.consumer(group) as consumer:
        (stream,) = consumer.create_message_streams({topic: 1})[topic]

        def fail(*args: object, **settings: object) -> None:
            raise ZeroDivisionError("a bug")

        client = consumer._link.client()
        monkeypatch.setattr(client, "multifetch_ready", fail)
        with pytest.raises(ZeroDivisionError):
            next(stream)
        with pytest.raises(ZeroDivisionError):
            consumer.commit_offsets()


def test_wrong_settings_and_no_zookeeper(cluster: Cluster) -> None:
    with pytest.raises(UserError, match="did you mean 'smallest'"):
        cluster.consumer("g", auto_offset_reset="earliest")
    with pytest.raises(UserError, match="cannot be a group"):
        cluster.consumer("a/b")
    with pytest.raises(UserError, match="there is no such cluster"):
        ConsumerConnector(zookeeper_connect=f"{cluster.zookeeper.connect}/nowhere", group="g")
    session = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConnectError, match="ZooKeeper is not there"):
        ConsumerConnector(zookeeper_connect=session, group="g", connect_timeout_ms=200)


def test_zookeeper_restarts_in_the_middle(cluster: Cluster, group: str) -> None:
    """Consumption stops while nobody knows who owns what, and goes on where it was, without a
    rebalance and without a repetition. (The last test: it takes the cluster's ZooKeeper.)"""
    topic = cluster.topic(2)
    first = cluster.publish(topic, 0, 10)
    with cluster.consumer(group, session_timeout_ms=10_000) as consumer:
        streams = consumer.create_message_streams({topic: 1})[topic]
        found = take(streams, first)
        leaving = cluster.consumer("leaving")
        leaving.create_message_streams({topic: 1})
        cluster.zookeeper.kill()
        eventually(lambda: not consumer._gate.is_open)
        began = time.monotonic()
        leaving.shutdown()
        assert time.monotonic() - began < 20  # its own limit is 10
        second = cluster.publish(topic, 100, 10)
        assert streams[0].poll(0.2) == []
        cluster.zookeeper.start()
        found += take(streams, second)
        assert values(found) == sorted(first | second)
        consumer.commit_offsets()
