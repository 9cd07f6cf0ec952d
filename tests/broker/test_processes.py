"""The broker as a process: killed in the middle of everything, with ZooKeeper and without."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from broker_process import BrokerProcess
from confluent_kafka import Consumer, Producer, TopicPartition
from eventually import eventually

from tallymark.coordination import BrokerRegistry, ZooKeeper
from tallymark.errors import CODES, KafkaError, UserError
from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
    InitProducerIdRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
)
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient
from tallymark.testing.zookeeper import ZooKeeperServer, expire_session

pytestmark = pytest.mark.process


def test_kill_9_while_producing_loses_nothing_acknowledged(
    tmp_path: Path,
) -> None:
    """The flow: an idempotent confluent producer writes without pause; twice the broker is killed
    and started again. Everything acknowledged is there, in order, and nothing twice."""
    with BrokerProcess(tmp_path) as broker:
        write_through_two_kills(broker)
        broker.stop()
    told = broker.log.read_text()
    assert "stopped" in told
    assert "recovered t-0" in told
    assert "Traceback" not in told


def write_through_two_kills(broker: BrokerProcess) -> None:
    acknowledged: list[int] = []
    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.address,
            "enable.idempotence": True,
            "linger.ms": 2,
            "message.timeout.ms": 30_000,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            "topic.metadata.refresh.fast.interval.ms": 20,
        }
    )

    def done(number: int) -> Any:
        return lambda error, _: failed.append(error) if error else acknowledged.append(number)

    sent = 0
    for _ in range(2):
        before, deadline = len(acknowledged), time.monotonic() + 60
        while len(acknowledged) < before + 3000:  # so the kill comes in the middle of it
            assert time.monotonic() < deadline
            if len(producer) < 2000:
                producer.produce("t", b"%d" % sent, partition=0, on_delivery=done(sent))
                sent += 1
            producer.poll(0)
        broker.kill()
        for _ in range(20):
            producer.produce("t", b"%d" % sent, partition=0, on_delivery=done(sent))
            sent += 1
        broker.start()
    assert producer.flush(20) == 0
    producer.close()
    assert failed == []
    assert acknowledged == list(range(sent))

    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "x"})
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[int] = []
    while len(found) < sent:
        messages = consumer.consume(min(500, sent - len(found)), 5.0)
        assert messages, f"{len(found)} of {sent}"
        found += [int(message.value() or b"-1") for message in messages]
    consumer.close()
    assert found == list(range(sent))


def test_a_start_that_fails_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as there:
        port = int(there.bootstrap_servers.rpartition(":")[2])
        command = (sys.executable, "-m", "tallymark", "broker", "--no-zookeeper")
        result = subprocess.run(
            [*command, "--data", str(tmp_path / "data"), "--port", str(port)],
            capture_output=True,
            text=True,
            timeout=30,
        )
    assert result.returncode == 1
    said = [line for line in result.stderr.splitlines() if line.startswith("tallymark:")]
    assert len(said) == 1
    assert f"cannot listen on 127.0.0.1:{port}: the port is taken" in said[0]
    assert "Traceback" not in result.stderr


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ExitStack() as stack:
        try:
            folder = tmp_path_factory.mktemp("zookeeper")
            server = stack.enter_context(ZooKeeperServer(folder))
        except UserError as error:
            pytest.skip(str(error))
        yield server


def member(
    tmp_path: Path, zookeeper: ZooKeeperServer, chroot: str, node_id: int = 0
) -> BrokerThread:
    return BrokerThread(
        tmp_path / f"broker-{node_id}",
        node_id=node_id,
        enable_zookeeper=True,
        zookeeper_connect=f"{zookeeper.connect}/{chroot}",
        zookeeper_session_timeout_ms=4000,
    )


def metadata(broker: BrokerThread, *names: str) -> MetadataResponse:
    with WireClient(broker.bootstrap_servers) as wire:
        topics = [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        return wire.ask(request, 12)


def create(broker: BrokerThread, name: str, partitions: int) -> int:
    topic = CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=1)
    with WireClient(broker.bootstrap_servers) as wire:
        return wire.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code


def produce(broker: BrokerThread, name: str, partition: int = 0) -> ProduceResponsePartition:
    part = ProduceRequestPartition(index=partition, records=encode_batch([(None, b"x", (), 1)]))
    topics = [ProduceRequestTopic(name=name, partition_data=[part])]
    with WireClient(broker.bootstrap_servers) as wire:
        answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 10)
        return answer.responses[0].partition_responses[0]


def test_two_brokers_are_one_cluster(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    with (
        member(tmp_path, zookeeper, "two", 0) as first,
        member(tmp_path, zookeeper, "two", 1) as second,
    ):
        eventually(lambda: len(metadata(first).brokers) == 2)
        assert {metadata(b).cluster_id for b in (first, second)} == {metadata(first).cluster_id}
        assert {metadata(b).controller_id for b in (first, second)} == {0}
        # The one that is not the controller creates; both learn of it; leaders alternate.
        assert create(second, "t", 4) == 0
        assert create(first, "t", 4) == CODES["TOPIC_ALREADY_EXISTS"]
        eventually(lambda: len(metadata(first, "t").topics[0].partitions) == 4)
        topic = metadata(first, "t").topics[0]
        assert [p.leader_id for p in topic.partitions] == [0, 1, 0, 1]
        assert metadata(second, "t").topics[0].topic_id == topic.topic_id
        eventually(lambda: produce(first, "t", 0).error_code == 0)
        wrong = produce(second, "t", 0)
        assert wrong.error_code == CODES["NOT_LEADER_OR_FOLLOWER"]
        assert wrong.current_leader.leader_id == 0, "KIP-951: whom to ask instead"
        with (
            WireClient(first.bootstrap_servers) as one,
            WireClient(second.bootstrap_servers) as two,
        ):
            ids = [w.ask(InitProducerIdRequest(), 4).producer_id for w in (one, two, one, two)]
            assert len(set(ids)) == 4
            deleted = two.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), 5)
            assert deleted.responses[0].error_code == 0
        eventually(lambda: metadata(first, "t").topics[0].error_code != 0)
        eventually(lambda: not list(tmp_path.glob("*/*/t-*")))
        second.stop()
        eventually(lambda: len(metadata(first).brokers) == 1)


def test_a_restart_keeps_the_topic_and_a_crash_raises_the_epoch(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    broker = member(tmp_path, zookeeper, "restart")
    with broker:
        assert create(broker, "t", 1) == 0
        assert produce(broker, "t").base_offset == 0
        before = metadata(broker, "t").topics[0]
    with broker:
        after = metadata(broker, "t").topics[0]
        assert after.topic_id == before.topic_id
        assert after.partitions[0].leader_epoch == before.partitions[0].leader_epoch
        assert produce(broker, "t").base_offset == 1
        broker.kill()
    with broker:
        assert metadata(broker, "t").topics[0].topic_id == before.topic_id
        epoch = metadata(broker, "t").topics[0].partitions[0].leader_epoch
        assert epoch == before.partitions[0].leader_epoch + 1
        assert produce(broker, "t").base_offset == 2


def test_a_killed_broker_does_not_wait_for_its_old_session(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    """The flow: kill -9 leaves the registration standing until the session times out; a restart
    on the same data folder, whose lock it holds, knows that the old process is dead."""
    with BrokerProcess(
        tmp_path,
        enable_zookeeper="true",
        zookeeper_connect=f"{zookeeper.connect}/killed",
        zookeeper_session_timeout_ms=90_000,
    ) as broker:
        broker.kill()
        began = time.monotonic()
        broker.start()
        assert time.monotonic() - began < 80
        with WireClient(broker.address) as wire:
            answer = wire.ask(MetadataRequest(topics=[]), 12)
            assert [b.port for b in answer.brokers] == [broker.port]
            assert answer.controller_id == 0
        broker.stop()


def test_an_id_in_use_is_refused(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    with (
        member(tmp_path, zookeeper, "ids"),
        pytest.raises(UserError, match=r"broker id 0 is in use by 127\.0\.0\.1"),
    ):
        member(tmp_path / "other", zookeeper, "ids").start()


def test_a_broker_of_another_cluster_is_refused(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    for folder, cluster in (("broker", "mine"), ("another", "yours")):
        with member(tmp_path / folder, zookeeper, cluster):
            pass
    with pytest.raises(UserError, match="this broker is in the cluster"):
        member(tmp_path / "broker", zookeeper, "yours").start()


def test_zookeeper_may_restart_in_the_middle(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    """The broker goes on serving without it (one replica: nobody else can lead), and is registered
    and takes topics again afterwards."""
    with member(tmp_path, zookeeper, "suspended") as broker:
        assert create(broker, "t", 1) == 0
        zookeeper.kill()
        assert [produce(broker, "t").base_offset for _ in range(3)] == [0, 1, 2]
        # Asked for while ZooKeeper is away: done when it is back, or refused as retriable.
        answers: list[int] = []
        asking = threading.Thread(target=lambda: answers.append(create(broker, "u", 1)))
        asking.start()
        zookeeper.start()
        asking.join(90)
        assert answers[0] == 0 or KafkaError(answers[0]).retriable
        eventually(lambda: create(broker, "u", 1) in (0, CODES["TOPIC_ALREADY_EXISTS"]), seconds=30)
        with ZooKeeper(f"{zookeeper.connect}/suspended") as session:
            eventually(lambda: list(BrokerRegistry(session).brokers()) == [0])
        eventually(lambda: produce(broker, "u").error_code == 0)


def test_a_lost_session_is_followed_by_a_new_registration(
    tmp_path: Path, zookeeper: ZooKeeperServer
) -> None:
    """A broker that was silent for too long: its entry and its office are gone, it is not."""
    with member(tmp_path, zookeeper, "lost") as broker:
        assert create(broker, "t", 1) == 0
        assert broker.broker is not None
        assert broker.broker.state is not None
        cluster: Any = broker.broker.state.cluster
        before = cluster._zookeeper.session
        while cluster._zookeeper.session in (0, before):
            expire_session(cluster._zookeeper)  # the broker may be quicker to take it back
            time.sleep(0.3)
        assert produce(broker, "t").base_offset == 0
        eventually(lambda: len(metadata(broker).brokers) == 1)
        eventually(lambda: metadata(broker).controller_id == 0)
        # It may not have registered yet, and be no broker that can have a replica.
        eventually(lambda: create(broker, "u", 1) in (0, CODES["TOPIC_ALREADY_EXISTS"]))
        with ZooKeeper(f"{zookeeper.connect}/lost") as session:
            office = session.read("/controller")
            assert office.session == cluster._zookeeper.session
            assert session.read("/brokers/ids/0").session == cluster._zookeeper.session


def test_wiped_zookeeper_deletes_nothing(tmp_path: Path, zookeeper: ZooKeeperServer) -> None:
    """The flow: an operator wipes ZooKeeper under a running broker. The list of topics is empty
    then; believing it would delete every log."""
    with member(tmp_path, zookeeper, "wiped") as broker:
        assert create(broker, "t", 1) == 0
        assert produce(broker, "t").base_offset == 0
        with ZooKeeper(f"{zookeeper.connect}/wiped") as session:
            for path in ("/cluster", "/brokers/topics"):
                session.delete_tree(path)
            session.put("/cluster/id", b'{"version":"1","id":"another"}')
            time.sleep(0.5)
        assert produce(broker, "t").base_offset == 1
        assert metadata(broker, "t").topics[0].error_code == 0
        assert (tmp_path / "broker-0" / "broker" / "t-0").exists()
