"""Every registry on a real ZooKeeper and on the one in memory; each test has its own chroot."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from tallymark.coordination import (
    BadVersionError,
    BrokerInfo,
    BrokerRegistry,
    Check,
    Conflict,
    ConsumerRegistry,
    ControllerElection,
    Create,
    Delete,
    ListenerInfo,
    MalformedNodeError,
    NodeExistsError,
    NoNodeError,
    OffsetRegistry,
    Position,
    SessionLostError,
    SetData,
    Subscription,
    ZooKeeper,
    groups,
    next_block,
    paths,
)
from tallymark.coordination.cluster.cluster_id import cluster_id
from tallymark.errors import UserError


def arrives(changes: queue.SimpleQueue[object], expected: object) -> None:
    """A watch may fire more often than something changes, and in the end tells the truth."""
    while changes.get(timeout=45) != expected:
        pass


# -- nodes ------------------------------------------------------------------------------------


def test_nodes_come_change_and_go(zookeeper: ZooKeeper) -> None:
    with pytest.raises(NoNodeError):
        zookeeper.create("/a/b")
    zookeeper.create("/a/b", b"1", parents=True)
    with pytest.raises(NodeExistsError):
        zookeeper.create("/a/b")
    node = zookeeper.read("/a/b")
    assert (node.data, node.version, node.session) == (b"1", 0, 0)
    assert zookeeper.write("/a/b", b"2", node.version) == 1
    with pytest.raises(BadVersionError):
        zookeeper.write("/a/b", b"3", node.version)
    assert zookeeper.children("/a") == ["b"]
    assert zookeeper.children("/nothing") == []
    assert [n and n.data for n in zookeeper.read_many(["/a/b", "/nothing"])] == [b"2", None]
    zookeeper.delete_tree("/a")
    assert zookeeper.find("/a/b") is None
    zookeeper.delete("/a/b")  # gone already


def test_a_transaction_is_all_or_nothing(zookeeper: ZooKeeper) -> None:
    zookeeper.create("/a", b"1")
    with pytest.raises(BadVersionError) as failed:
        zookeeper.commit([Create("/b"), SetData("/a", b"2", 7), Delete("/a")])
    assert failed.value.path == f"{zookeeper.chroot}/a"
    assert not zookeeper.exists("/b")
    zookeeper.commit([Check("/a", 0), Create("/b"), SetData("/a", b"2"), Delete("/b")])
    assert zookeeper.read("/a").data == b"2"


def test_a_chroot_that_is_not_there_is_said(make_session: Callable[..., ZooKeeper]) -> None:
    with pytest.raises(UserError, match="has no /nowhere: there is no such cluster"):
        make_session("/nowhere").start()


# -- brokers ----------------------------------------------------------------------------------


def test_brokers_come_and_go_and_are_watched(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    changes: queue.SimpleQueue[object] = queue.SimpleQueue()
    registry, theirs = BrokerRegistry(zookeeper), BrokerRegistry(other)
    watch = registry.watch(lambda: changes.put(list(registry.brokers())))
    broker = BrokerInfo(1, "127.0.0.1", 9092, "run-1", 17)
    theirs.register(broker)
    arrives(changes, [1])
    assert registry.brokers() == {1: replace(broker, epoch=2)}
    node = theirs.register(BrokerInfo(2, "::1", 9093))
    arrives(changes, [1, 2])
    assert registry.brokers()[2].address == "[::1]:9093"
    node.release()
    arrives(changes, [1])
    other.close()
    arrives(changes, [])
    watch.cancel()


def test_a_broker_id_in_use_is_an_error_at_once(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    BrokerRegistry(zookeeper).register(BrokerInfo(1, "127.0.0.1", 9092, "run-1"))
    with pytest.raises(UserError, match=r"broker id 1 is in use by 127\.0\.0\.1:9092"):
        BrokerRegistry(other).register(BrokerInfo(1, "127.0.0.1", 9999, "run-2"))


@pytest.mark.slow
def test_a_restarted_broker_waits_for_its_own_entry_of_before(
    make_session: Callable[..., ZooKeeper], zookeeper: ZooKeeper
) -> None:
    """A broker killed with -9 leaves its entry until the session times out; its next start found
    its own id in use and gave up."""
    dead = make_session(zookeeper.chroot).start()
    BrokerRegistry(dead).register(BrokerInfo(1, "127.0.0.1", 9092, "run-1"))
    gone = threading.Timer(0.4, dead.close)  # stands for the timeout
    gone.start()
    registry = BrokerRegistry(zookeeper)
    node = registry.register(BrokerInfo(1, "127.0.0.1", 9095, "run-1"))
    gone.join()
    assert node.is_registered
    assert registry.brokers()[1].port == 9095


def test_registering_twice_in_a_session_is_once(zookeeper: ZooKeeper) -> None:
    """The answer to a create was lost, the deed was done: the node is ours already."""
    registry = BrokerRegistry(zookeeper)
    registry.register(BrokerInfo(1, "127.0.0.1", 9092))
    registry.register(BrokerInfo(1, "127.0.0.1", 9093))
    assert registry.brokers()[1].port == 9093


def test_the_entry_of_apache_kafka_is_read(zookeeper: ZooKeeper) -> None:
    zookeeper.create(
        paths.broker(3),
        b'{"features":{},"listener_security_protocol_map":{"SSL":"SSL"},"endpoints":'
        b'["SSL://kafka3:9094"],"jmx_port":-1,"port":-1,"host":null,"version":5,"timestamp":"17"}',
        parents=True,
    )
    listeners = (ListenerInfo("SSL", "SSL", "kafka3", 9094),)
    expected = BrokerInfo(3, "kafka3", 9094, "", 17, listeners)
    assert BrokerRegistry(zookeeper).brokers() == {3: expected}


def test_all_listeners_and_the_rack_are_told(zookeeper: ZooKeeper) -> None:
    """And ``host`` is null without a plain one, as Apache Kafka writes it."""
    secure = ListenerInfo("OUTSIDE", "SASL_SSL", "::1", 9094)
    plain = ListenerInfo("INSIDE", "PLAINTEXT", "127.0.0.1", 9092)
    both = BrokerInfo(1, "127.0.0.1", 9092, "r", 5, (secure, plain), "rack-a")
    only = BrokerInfo(2, "::1", 9094, "s", 5, (secure,))
    for broker in (both, only):
        BrokerRegistry(zookeeper).register(broker)
    registered = {1: replace(both, epoch=2), 2: replace(only, epoch=2)}
    assert BrokerRegistry(zookeeper).brokers() == registered
    stored = json.loads(zookeeper.read(paths.broker(2)).data)
    assert (stored["host"], stored["port"]) == (None, -1)
    assert stored["endpoints"] == ["OUTSIDE://[::1]:9094"]
    assert stored["listener_security_protocol_map"] == {"OUTSIDE": "SASL_SSL"}
    assert json.loads(zookeeper.read(paths.broker(1)).data)["host"] == "127.0.0.1"
    zookeeper.put(paths.broker(3), b"rubbish")
    with pytest.raises(MalformedNodeError, match="not JSON"):
        BrokerRegistry(zookeeper).brokers()


# -- controller, ids --------------------------------------------------------------------------


def test_one_controller_and_an_epoch_that_counts_them(
    zookeeper: ZooKeeper, other: ZooKeeper
) -> None:
    mine = ControllerElection(zookeeper, 1, lambda: 17)
    theirs = ControllerElection(other, 2, lambda: 17)
    first = mine.elect()
    assert (first.broker_id, first.epoch, first.is_ours) == (1, 1, True)
    seen = theirs.elect()
    assert (seen.broker_id, seen.epoch, seen.is_ours) == (1, 1, False)
    changed = threading.Event()
    watch = theirs.watch(changed.set)
    mine.resign()
    assert changed.wait(30)
    second = theirs.elect()
    assert (second.broker_id, second.epoch, second.is_ours) == (2, 2, True)
    theirs.resign()
    mine.resign()
    assert mine.current() is None
    watch.cancel()


def test_a_cluster_has_one_identity(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    assert cluster_id(zookeeper) == cluster_id(other)
    assert len(cluster_id(zookeeper)) == 22


def test_producer_ids_are_never_given_twice(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    taken: list[range] = []

    def take(session: ZooKeeper, broker: int) -> None:
        taken.extend(next_block(session, broker, 10) for _ in range(10))

    threads = [threading.Thread(target=take, args=pair) for pair in ((zookeeper, 1), (other, 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for block in taken for number in block) == list(range(200))


# -- consumers --------------------------------------------------------------------------------


def test_members_of_a_group(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    mine, theirs = ConsumerRegistry(zookeeper, "g"), ConsumerRegistry(other, "g")
    changed = threading.Event()
    assert mine.members(watch=changed.set) == {}
    node = theirs.membership("b", Subscription({"t": 2}))
    node.establish()
    node.establish()
    assert changed.wait(30)
    mine.membership("a", Subscription({"t.*": 1}, is_filter=True)).establish()
    zookeeper.create(paths.member("g", "unreadable"), b"?")
    assert mine.members() == {
        "a": Subscription({"t.*": 1}, is_filter=True),
        "b": Subscription({"t": 2}),
    }
    node.release()
    assert list(mine.members()) == ["a"]
    assert groups(zookeeper) == ["g"]


def test_a_partition_has_one_owner(zookeeper: ZooKeeper, other: ZooKeeper) -> None:
    mine, theirs = ConsumerRegistry(zookeeper, "g"), ConsumerRegistry(other, "g")
    assert mine.claim("a", [("t", 0), ("t", 1)]) is None
    assert theirs.claim("b", [("t", 2), ("t", 1)]) == Conflict("t", 1, "a")
    assert theirs.claim("b", [("t", 2), ("u", 0)]) is None
    assert mine.owners("t") == {0: "a", 1: "a", 2: "b"}
    theirs.release("b", [("t", 0), ("t", 2), ("u", 0), ("v", 0)])  # t-0 is not b's
    assert mine.owners("t") == {0: "a", 1: "a"}
    zookeeper.close()
    assert theirs.claim("b", [("t", 0), ("t", 1)]) is None


def test_a_claim_of_an_earlier_session_is_not_made(zookeeper: ZooKeeper) -> None:
    registry, offsets = ConsumerRegistry(zookeeper, "g"), OffsetRegistry(zookeeper, "g")
    with pytest.raises(SessionLostError):
        registry.claim("a", [("t", 0)], zookeeper.session + 1)
    with pytest.raises(SessionLostError):
        offsets.commit({("t", 0): Position(1)}, zookeeper.session + 1)
    assert registry.owners("t") == {}
    assert offsets.read([("t", 0)]) == {}


def test_a_claim_without_the_membership_is_not_made(zookeeper: ZooKeeper) -> None:
    """A session may end, and another begin, between the look at its number and the claim; in the
    new one nobody remembers what was claimed."""
    registry = ConsumerRegistry(zookeeper, "fenced")
    with pytest.raises(NoNodeError):
        registry.claim("a", [("t", 0)], zookeeper.session)
    assert registry.owners("t") == {}
    registry.membership("a", Subscription({"t": 1})).establish()
    assert registry.claim("a", [("t", 0)], zookeeper.session) is None
    assert registry.owners("t") == {0: "a"}


def test_a_folder_that_was_tidied_up_is_made_again(zookeeper: ZooKeeper) -> None:
    registry = ConsumerRegistry(zookeeper, "g")
    registry.claim("a", [("t", 0)])
    registry.release("a", [("t", 0)])
    zookeeper.delete_tree("/consumers/g/owners/t")
    assert registry.claim("a", [("t", 0)]) is None


def test_many_partitions_at_once(zookeeper: ZooKeeper) -> None:
    registry, offsets = ConsumerRegistry(zookeeper, "g"), OffsetRegistry(zookeeper, "g")
    many = [("t", partition) for partition in range(600)]
    assert registry.claim("a", many) is None
    offsets.commit({place: Position(place[1], 1) for place in many})
    assert offsets.read(many) == {place: Position(place[1], 1) for place in many}
    registry.release("a", many)
    assert registry.owners("t") == {}


def test_offsets_are_decimal_with_their_epoch_beside(zookeeper: ZooKeeper) -> None:
    registry = OffsetRegistry(zookeeper, "g")
    assert registry.read([("t", 0)]) == {}
    registry.commit({("t", 0): Position(7, 3), ("t", 1): Position(9)})
    registry.commit({("t", 0): Position(8, 4)})
    assert zookeeper.read("/consumers/g/offsets/t/0").data == b"8"
    assert zookeeper.read("/consumers/g/offsets/t/0/epoch").data == b"4 8"
    assert registry.read([("t", 0), ("t", 1), ("t", 2)]) == {
        ("t", 0): Position(8, 4),
        ("t", 1): Position(9),
    }


def test_offsets_set_by_hand_are_taken_without_the_old_epoch(
    zookeeper: ZooKeeper, other: ZooKeeper
) -> None:
    registry = OffsetRegistry(zookeeper, "g")
    registry.commit({("t", 0): Position(7, 3)})
    zookeeper.put("/consumers/g/offsets/t/0", b"2")  # a rewind
    zookeeper.put("/consumers/g/offsets/t/1", b"5")
    zookeeper.put("/consumers/g/offsets/t/2", b"x")
    places = [("t", 0), ("t", 1), ("t", 2)]
    assert registry.read(places) == {("t", 0): Position(2), ("t", 1): Position(5)}
    theirs = OffsetRegistry(other, "g")
    theirs.commit({("t", 1): Position(6, 1)})
    zookeeper.delete_tree("/consumers/g/offsets/t")
    registry.commit({("t", 0): Position(8, 1)})
    theirs.commit({("t", 1): Position(7, 1)})
    assert registry.read(places) == {("t", 0): Position(8, 1), ("t", 1): Position(7, 1)}
