"""What a group does when its ZooKeeper falls silent, comes back, or forgets somebody."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest
from connector_cluster import Cluster, names, running_cluster, session_of, take, values
from eventually import eventually
from threads_left import no_thread_is_left

from tallymark.client.connector.connector import ConsumerConnector
from tallymark.coordination import (
    ConsumerRegistry,
    SessionLostError,
    ZooKeeper,
    paths,
)
from tallymark.errors import ConnectError, TallymarkError, UserError
from tallymark.testing.flaky_proxy import FlakyProxy
from tallymark.testing.zookeeper import expire_session, free_port

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def group() -> str:
    return f"group{next(names)}"


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FlakyProxy]:
    """Between one consumer and ZooKeeper."""
    with FlakyProxy(cluster.zookeeper.connect) as proxy:
        yield proxy


def behind(proxy: FlakyProxy, group: str, **settings: object) -> ConsumerConnector:
    fixed = {"session_timeout_ms": 2000, "fetch_max_wait_ms": 50, "consumer_id": "far"}
    return ConsumerConnector(
        zookeeper_connect=f"{proxy.address}/dc1",
        group=group,
        **(fixed | settings),  # type: ignore[arg-type] # settings of many types
    )


@pytest.mark.soak
def test_suspended_for_longer_than_the_session(
    cluster: Cluster, group: str, proxy: FlakyProxy
) -> None:
    """Who is cut off hands out nothing from that moment on, though its queue is full; the other
    one goes on from what was committed; when the way is free again they share."""
    topic = cluster.topic(2)
    sent = cluster.publish(topic, 0, 20)
    with (
        behind(proxy, group, auto_commit_interval_ms=100_000) as far,
        cluster.consumer(group, consumer_id="near", start_timeout_ms=50) as near,
    ):
        (far_stream,) = far.create_message_streams({topic: 1})[topic]
        far.commit_offsets()
        proxy.refuse()
        proxy.cut()
        eventually(lambda: not far._gate.is_open)
        assert far_stream.poll(0.1) == []
        refused: list[Exception] = []

        def commit_too_late() -> None:
            try:
                far.commit_offsets({(topic, 0): 1, (topic, 1): 1})
            except (ConnectError, SessionLostError) as error:
                refused.append(error)

        late = threading.Thread(target=commit_too_late)
        late.start()
        streams = near.create_message_streams({topic: 1})[topic]
        assert values(take(streams, sent)) == sorted(sent)
        assert far_stream.poll(0) == []
        near.commit_offsets()
        proxy.listen()
        late.join(30)
        assert len(refused) == 1
        eventually(lambda: far.assignment == {topic: (0,)} and near.assignment == {topic: (1,)})
        more = cluster.publish(topic, 100, 20)
        assert values(take([far_stream, *streams], more)) == sorted(more)


@pytest.mark.parametrize("harm", ["cut", "half_close"])
def test_a_short_interruption_costs_nothing(
    harm: str, cluster: Cluster, group: str, proxy: FlakyProxy
) -> None:
    topic = cluster.topic(1)
    with behind(proxy, group, session_timeout_ms=10_000) as far:
        streams = far.create_message_streams({topic: 1})[topic]
        sent = cluster.publish(topic, 0, 10, 1)
        found = take(streams, sent)
        before = session_of(far).session
        getattr(proxy, harm)()
        more = cluster.publish(topic, 100, 10, 1)
        found += take(streams, more)
        assert values(found) == sorted(sent | more)
        assert session_of(far).session == before


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_that_jumps(
    hours: int, cluster: Cluster, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No session ends of it, nothing rebalances, nothing comes twice."""
    topic = cluster.topic(2)
    real, real_ns = time.time, time.time_ns
    with cluster.consumer(group, session_timeout_ms=10_000) as consumer:
        streams = consumer.create_message_streams({topic: 1})[topic]
        sent = cluster.publish(topic, 0, 10)
        found = take(streams, sent)
        before = session_of(consumer).session
        monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + hours * 3600 * 10**9)
        more = cluster.publish(topic, 100, 10)
        found += take(streams, more)
        consumer.commit_offsets()
        assert values(found) == sorted(sent | more)
        assert session_of(consumer).session == before


def test_a_zookeeper_that_answers_no_more_is_noticed_by_who_keeps_asking(
    cluster: Cluster, group: str, proxy: FlakyProxy
) -> None:
    """kazoo takes every command for a ping, and waits for the answers of real ones only: a
    process whose threads gave a command every now and then never noticed that its ZooKeeper was
    behind a cable that was out. Its partitions had long been given to others, and it went on."""
    topic = cluster.topic(1)
    with behind(proxy, group) as far:
        (stream,) = far.create_message_streams({topic: 1})[topic]
        take([stream], cluster.publish(topic, 0, 1, 1))
        zookeeper = session_of(far)

        def ask() -> None:
            with contextlib.suppress(TallymarkError):
                zookeeper.exists(paths.group(group))

        threads: list[threading.Thread] = []
        proxy.black_hole()
        deadline = time.monotonic() + 60
        while far._gate.is_open and time.monotonic() < deadline:
            threads.append(threading.Thread(target=ask))
            threads[-1].start()
            time.sleep(0.1)
        assert not far._gate.is_open
        proxy.heal()
        proxy.cut()
        for thread in threads:
            thread.join(30)
        more = cluster.publish(topic, 100, 1, 1)
        assert values(take([stream], more)) == sorted(more)


def test_sessions_expire_under_two_consumers_in_turn(cluster: Cluster, group: str) -> None:
    """Nothing is skipped, every partition is owned again, and nothing rebalances for ever."""
    topic = cluster.topic(4)
    with (
        cluster.consumer(group, consumer_id="a") as a,
        cluster.consumer(group, consumer_id="b") as b,
    ):
        streams = [
            *a.create_message_streams({topic: 1})[topic],
            *b.create_message_streams({topic: 1})[topic],
        ]
        everything: set[bytes] = set()
        taken: set[bytes | None] = set()
        for round_, consumer in enumerate((a, b, a)):
            sent = cluster.publish(topic, 1000 * round_, 40, 4)
            everything |= sent
            taken |= {m.value for m in take(streams, sent)}
            expire_session(session_of(consumer))
        eventually(lambda: a.assignment == {topic: (0, 1)} and b.assignment == {topic: (2, 3)})
        assert everything <= taken


def test_two_groups_get_everything_each(cluster: Cluster, group: str) -> None:
    topic = cluster.topic(2)
    sent = cluster.publish(topic, 0, 20)
    with (
        cluster.consumer(f"{group}-x") as x,
        cluster.consumer(f"{group}-y", consumer_id="y1") as y1,
        cluster.consumer(f"{group}-y", consumer_id="y2", start_timeout_ms=0) as y2,
    ):
        ours = x.create_message_streams({topic: 1})[topic]
        theirs = [
            *y1.create_message_streams({topic: 1})[topic],
            *y2.create_message_streams({topic: 1})[topic],
        ]
        assert values(take(ours, sent)) == sorted(sent)
        assert set(values(take(theirs, sent))) == sent
        assert x.assignment == {topic: (0, 1)}
        eventually(lambda: y1.assignment == {topic: (0,)} and y2.assignment == {topic: (1,)})


def test_a_member_node_that_somebody_deleted_or_overwrote_is_put_right(
    cluster: Cluster, group: str
) -> None:
    """The consumer saw that it was no member, believed that its node stood, and asked again and
    again without a pause, for ever."""
    topic = cluster.topic(1)
    with (
        cluster.consumer(group, consumer_id="a") as consumer,
        ZooKeeper(cluster.connect) as zookeeper,
    ):
        streams = consumer.create_message_streams({topic: 1})[topic]
        node = paths.member(group, "a")
        zookeeper.delete(node)
        eventually(lambda: zookeeper.exists(node))
        zookeeper.write(node, b"no subscription")
        zookeeper.create(paths.member(group, "b"), b'{"elsewhere":1}', ephemeral=True)
        eventually(lambda: "a" in ConsumerRegistry(zookeeper, group).members())
        sent = cluster.publish(topic, 0, 5, 1)
        take(streams, sent)


@pytest.mark.parametrize(
    ("address", "stage"),
    [("127.0.0.1:{port}", "connect failed"), ("no-such-host.invalid:2181", "resolve failed")],
)
def test_no_zookeeper_at_the_start(address: str, stage: str) -> None:
    address = address.format(port=free_port())
    began = time.monotonic()
    with pytest.raises(ConnectError, match=stage) as failed:
        ConsumerConnector(zookeeper_connect=address, group="g", connect_timeout_ms=500)
    assert failed.value.address == address
    assert time.monotonic() - began < 10


def test_a_mute_zookeeper_at_the_start(cluster: Cluster, proxy: FlakyProxy) -> None:
    proxy.black_hole()
    with pytest.raises(ConnectError, match="api failed: connected, but no session within"):
        behind(proxy, "g", connect_timeout_ms=500)


def test_leaving_while_zookeeper_is_silent_is_bounded_and_leaves_nothing(
    cluster: Cluster, group: str, proxy: FlakyProxy
) -> None:
    topic = cluster.topic(1)
    with no_thread_is_left(), behind(proxy, group) as far:
        far.create_message_streams({topic: 1})
        proxy.black_hole()
        began = time.monotonic()
        far.shutdown(timeout=1.0)
        assert time.monotonic() - began < 10
    proxy.cut()
    with ZooKeeper(cluster.connect) as zookeeper:
        registry = ConsumerRegistry(zookeeper, group)
        eventually(lambda: not registry.members() and not registry.owners(topic))


def test_a_wrong_chroot_is_told_with_what_to_do(cluster: Cluster) -> None:
    with pytest.raises(UserError, match="there is no such cluster there; start a broker"):
        ConsumerConnector(zookeeper_connect=f"{cluster.zookeeper.connect}/dc7", group="g")
