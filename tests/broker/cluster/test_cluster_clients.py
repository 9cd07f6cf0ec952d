"""A cluster of processes under foreign clients: killed members, balancers, named listeners."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from broker_process import BrokerProcess
from cluster_members import (
    create,
    delete,
    leaders,
    member,
    metadata,
    topic,
    zookeeper_or_skip,
)
from confluent_kafka import Consumer, Producer, TopicPartition
from eventually import eventually

from tallymark.errors import CODES
from tallymark.testing.zookeeper import ZooKeeperServer, free_port

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with zookeeper_or_skip(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


class Balancer:
    """A TCP load balancer: each connection goes to the next of ``targets``, round robin. It knows
    nothing of what it carries. ``counts`` are connections by target."""

    def __init__(self, targets: Sequence[str], port: int = 0) -> None:
        self._targets = [(host, int(port)) for host, port in (t.split(":") for t in targets)]
        self.counts = [0] * len(targets)
        self._listening = socket.create_server(("127.0.0.1", port))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._peers: dict[socket.socket, socket.socket] = {}
        self._thread = threading.Thread(target=self._run, name="balancer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wake.send(b"x")
        self._thread.join()
        for each in (*self._peers, self._listening, self._wake, self._woken):
            each.close()
        self._selector.close()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                if ready is self._woken:
                    return
                if ready is self._listening:
                    self._accept()
                elif ready in self._peers:
                    self._carry(ready)

    def _accept(self) -> None:
        client, _ = self._listening.accept()
        for _ in self._targets:
            number = sum(self.counts) % len(self._targets)
            self.counts[number] += 1
            with suppress(OSError):
                server = socket.create_connection(self._targets[number], 2)
                break
        else:
            client.close()
            return
        for one, other in ((client, server), (server, client)):
            self._peers[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _carry(self, one: socket.socket) -> None:
        data = b""
        with suppress(OSError):
            data = one.recv(65536)
            if data:
                self._peers[one].sendall(data)
                return
        for each in (one, self._peers[one]):
            self._selector.unregister(each)
            del self._peers[each]
            each.close()


def produced(address: str, name: str, partitions: int, count: int) -> None:
    """``count`` messages in each partition by a foreign producer that knows only ``address``."""
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": address, "message.timeout.ms": 20_000})
    for number in range(count):
        for index in range(partitions):
            producer.produce(
                name,
                b"%d" % number,
                partition=index,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
    assert producer.flush(20) == 0
    assert failed == []


def consumed(address: str, name: str, partitions: int, count: int) -> dict[int, list[int]]:
    """All messages by partition, read by a foreign consumer; ``count`` in total are waited for."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(name, index, 0) for index in range(partitions)])
    found: dict[int, list[int]] = {index: [] for index in range(partitions)}
    while sum(map(len, found.values())) < count:
        messages = consumer.consume(min(500, count - sum(map(len, found.values()))), 10.0)
        assert messages, f"{found} of {count}"
        for message in messages:
            assert message.error() is None
            partition = message.partition()
            assert partition is not None
            found[partition].append(int(message.value() or b"-1"))
    consumer.close()
    return found


def test_clients_that_know_the_balancer_only_reach_every_broker(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    """As in the paper's deployment: producers know the balancer. It spreads first connections; the
    metadata that comes through it names the brokers themselves."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(member(tmp_path, zookeeper, "lb", n)) for n in range(2)]
        targets = [broker.bootstrap_servers for broker in brokers]
        balancer = stack.enter_context(Balancer(targets))
        eventually(lambda: len(metadata(targets[0]).brokers) == 2)
        assert create(balancer.address, "t", 4) == 0
        for address in targets:
            eventually(lambda address: len(leaders(address, "t")) == 4, address)
        produced(balancer.address, "t", 4, 50)
        found = consumed(balancer.address, "t", 4, 200)
        assert found == {index: list(range(50)) for index in range(4)}
        assert min(balancer.counts) >= 1, "both brokers were asked through it"


def test_brokers_behind_a_balancer_are_told_as_its_ports(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    """Brokers that clients cannot reach themselves: one port of the balancer for each, which they
    advertise, and one for all of them to start with."""
    outside, inner, doors = ([free_port(), free_port()] for _ in range(3))
    with ExitStack() as stack:
        for n in range(2):
            broker = member(
                tmp_path,
                zookeeper,
                "ports",
                n,
                listeners=f"INSIDE://127.0.0.1:{inner[n]},OUTSIDE://127.0.0.1:{doors[n]}",
                advertised_listeners=f"OUTSIDE://127.0.0.1:{outside[n]}",
                listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            )
            stack.enter_context(broker)
        inside = [f"127.0.0.1:{port}" for port in inner]
        fronts = [
            stack.enter_context(Balancer([f"127.0.0.1:{door}"], port))
            for door, port in zip(doors, outside, strict=True)
        ]
        balancer = stack.enter_context(Balancer([f"127.0.0.1:{door}" for door in doors]))
        eventually(lambda: len(metadata(inside[0]).brokers) == 2)
        told = {broker.node_id: broker.port for broker in metadata(balancer.address).brokers}
        assert told == {0: outside[0], 1: outside[1]}
        told = {broker.node_id: broker.port for broker in metadata(inside[1]).brokers}
        assert told == {0: inner[0], 1: inner[1]}
        assert create(balancer.address, "t", 4) == 0
        for address in inside:
            eventually(lambda address: len(leaders(address, "t")) == 4, address)
        produced(balancer.address, "t", 4, 20)
        assert consumed(balancer.address, "t", 4, 80) == {n: list(range(20)) for n in range(4)}
        assert all(front.counts[0] for front in fronts), "each broker through its own port"


def process(
    folder: Path, zookeeper: ZooKeeperServer, chroot: str, node_id: int, session_ms: int = 2000
) -> BrokerProcess:
    place = folder / f"process-{node_id}"
    place.mkdir()
    return BrokerProcess(
        place,
        enable_zookeeper="true",
        node_id=node_id,
        zookeeper_connect=f"{zookeeper.connect}/{chroot}",
        zookeeper_session_timeout_ms=session_ms,
    )


@pytest.mark.soak
def test_three_brokers_are_killed_one_by_one_under_load(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    """An idempotent producer writes into all partitions without pause, while each broker, the
    controller among them, is killed with -9 and started again. All that was acknowledged is there,
    in order and once; every broker tells the same in the end."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(process(tmp_path, zookeeper, "kill", n)) for n in range(3)]
        at = [broker.address for broker in brokers]
        assert create(at[0], "t", 6) == 0
        stop = threading.Event()
        acknowledged: dict[int, list[int]] = {index: [] for index in range(6)}
        failed: list[Any] = []
        writer = threading.Thread(target=write, args=(",".join(at), stop, acknowledged, failed))
        writer.start()
        try:
            for number, broker in enumerate(brokers):
                seen = sum(map(len, acknowledged.values()))
                eventually(lambda n: sum(map(len, acknowledged.values())) > n + 500, seen)
                broker.kill()
                others = [address for address in at if address != broker.address]
                for address in others:
                    eventually(lambda a: len(metadata(a).brokers) == 2, address)
                    gone = [
                        p for p in topic(address, "t").partitions if p.replica_nodes[0] == number
                    ]
                    assert {(p.leader_id, p.error_code) for p in gone} == {
                        (-1, CODES["LEADER_NOT_AVAILABLE"])
                    }
                    eventually(
                        lambda a, n: metadata(a).controller_id not in (-1, n), address, number
                    )
                broker.start()
                for address in at:
                    eventually(lambda a: -1 not in leaders(a, "t"), address)
        finally:
            stop.set()
            writer.join()
        assert failed == []
        total = sum(map(len, acknowledged.values()))
        assert consumed(at[0], "t", 6, total) == acknowledged
        told = [topic(address, "t") for address in at]
        assert told[0] == told[1] == told[2]
        assert {part.leader_epoch for part in told[0].partitions} == {1}
        for broker in brokers:
            broker.stop()


def write(
    addresses: str,
    stop: threading.Event,
    acknowledged: dict[int, list[int]],
    failed: list[Any],
) -> None:
    """Numbers 0, 1, 2 ... into each partition until told to stop."""
    producer = Producer(
        {
            "bootstrap.servers": addresses,
            "enable.idempotence": True,
            "linger.ms": 2,
            "message.timeout.ms": 60_000,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.fast.interval.ms": 50,
        }
    )

    def done(index: int, number: int) -> Callable[[Any, Any], None]:
        return lambda error, _: (
            failed.append(error) if error else acknowledged[index].append(number)
        )

    number = 0
    while not stop.is_set():
        if len(producer) < 600:
            for index in acknowledged:
                producer.produce(
                    "t", b"%d" % number, partition=index, on_delivery=done(index, number)
                )
            number += 1
        producer.poll(0.002)
    assert producer.flush(60) == 0


def test_a_controller_that_is_stopped_and_goes_on_is_one_no_more(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    """The flow: the controller's process stands still for longer than its session lasts (a paused
    machine). Another one takes the office and deletes a topic; the first one wakes up."""
    with ExitStack() as stack:
        first = stack.enter_context(process(tmp_path, zookeeper, "paused", 0))
        second = stack.enter_context(process(tmp_path, zookeeper, "paused", 1, 20_000))
        eventually(lambda: metadata(second.address).controller_id == 0)
        assert create(first.address, "t", 2) == 0
        os.kill(first.pid, signal.SIGSTOP)
        try:
            eventually(lambda: metadata(second.address).controller_id == 1)
            assert delete(second.address, "t") == 0
            assert create(second.address, "t", 1) == 0
        finally:
            os.kill(first.pid, signal.SIGCONT)
        eventually(lambda: metadata(first.address).controller_id == 1)
        eventually(lambda: len(metadata(second.address).brokers) == 2)
        for broker in (first, second):
            eventually(
                lambda b: topic(b.address, "t").topic_id == topic(second.address, "t").topic_id,
                broker,
            )
        assert len(topic(first.address, "t").partitions) == 1
        time.sleep(0.3)
        assert topic(second.address, "t").error_code == 0
        for broker in (first, second):
            broker.stop()
