"""Our clients on three brokers of Apache Kafka: they live through the death of leaders and
coordinators, and an answer that says less than it seems to makes them lose nothing."""

from __future__ import annotations

import logging
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from asked_cluster import AskedCluster, wait_for
from broker_kinds import skip_without_jars
from foreign_clients.failover import OFFSETS, Story, findings
from foreign_clients.flows.every import flow

from tallymark.client import Admin, Producer, SimpleConsumer
from tallymark.client.admin.results import Results
from tallymark.client.admin.topic_admin import NewTopic
from tallymark.errors import TallymarkError
from tallymark.processes.apache_kafka import ApacheKafkaCluster, ApacheKafkaServer
from tallymark.protocol.records.batch import split_batches

pytestmark = [
    pytest.mark.apache_kafka,
    pytest.mark.process,
    pytest.mark.soak,
    pytest.mark.timeout(900),
]
BOTH: Final = {"min.insync.replicas": "2"}
T: Final = "t"


class Brokers(AskedCluster):
    """As a story wants them."""

    def __init__(self, cluster: ApacheKafkaCluster) -> None:
        self.addresses = cluster.bootstrap_servers
        self.brokers = cluster.brokers
        self.dead: set[int] = set()

    def living(self) -> list[str]:
        return [one.address for node, one in self.brokers.items() if node not in self.dead]

    def end(self, node: int) -> int:
        """Where the broker's log of the partition ends, as its files have it."""
        (file,) = (self.brokers[node].data / f"{T}-0").glob("*.log")
        return split_batches(file.read_bytes())[-1].header.next_offset

    def kill(self, node: int) -> None:
        self.dead.add(node)
        self.brokers[node].kill()

    def start(self, node: int) -> None:
        self.brokers[node].start()
        self.dead.remove(node)


@contextmanager
def three(folder: Path, **settings: str) -> Iterator[Brokers]:
    skip_without_jars()
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    with ApacheKafkaCluster(folder, texts) as cluster:
        yield Brokers(cluster)


def test_our_clients_live_through_the_death_of_leader_and_coordinator(tmp_path: Path) -> None:
    with three(tmp_path) as brokers:
        with Admin(bootstrap_servers=brokers.addresses) as admin:
            admin.create_topic(T, 1, BOTH, replication_factor=3)
        story = Story(brokers.addresses, [flow("tallymark", brokers.addresses, T, tmp_path)])
        with story.told():
            story.all_go_on("the start")
            for topic in (T, OFFSETS):
                killed = brokers.leader(topic)
                brokers.kill(killed)
                story.all_go_on(f"kill -9 of the leader of {topic}")
                brokers.start(killed)
                brokers.wait_until_whole(T)
                brokers.wait_until_whole(OFFSETS)
            story.all_go_on("all brokers are back")
        assert findings(story) == []
        assert len(story.flows["tallymark"].journal.acked) > 40


@contextmanager
def paused(broker: ApacheKafkaServer) -> Iterator[None]:
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def move_lead(admin: Admin, brokers: Brokers) -> None:
    """To broker 2: it becomes the preferred one, and is elected."""
    wait_for(partial(is_done, admin.move_partitions, {(T, 0): (2, 1, 3)}), "other replicas")
    wait_for(partial(is_done, admin.elect_leaders, [(T, 0)]), "an election")
    wait_for(lambda: brokers.leader(T) == 2, "the other leader")


def is_done(do: Callable[[Any], Results[Any, Any]], what: object) -> bool:
    """False where the controller has to be looked for."""
    try:
        do(what).check()
    except TallymarkError:
        return False
    return True


def test_a_batch_answered_not_leader_after_its_append_is_in_doubt_and_not_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The leader appends, waits for a follower that is silent, and steps down meanwhile: it answers
    NOT_LEADER_OR_FOLLOWER, and the new leader has the batch. It expired as failed once, and its
    sequences went to the next batch, which the new leader took for the same one: acknowledged, and
    lost."""
    caplog.set_level(logging.INFO, "tallymark.client.producing")
    counted = Counter[str]()

    def count(name: str, value: float, _: Mapping[str, str]) -> None:
        counted[name] += int(value)

    with (
        three(
            tmp_path, broker_session_timeout_ms="120000", replica_lag_time_max_ms="120000"
        ) as brokers,
        Admin(bootstrap_servers=brokers.addresses) as admin,
    ):
        admin.create_topics([NewTopic(T, configs=BOTH, assignment={0: (1, 2, 3)})]).check()
        brokers.wait_until_whole(T)
        with Producer(
            bootstrap_servers=brokers.addresses,
            audit=False,
            delivery_timeout_ms=45_000,
            request_timeout_ms=40_000,
            metrics=count,
        ) as producer:
            assert producer.send(T, b"first").result(60).offset == 0
            with paused(brokers.brokers[3]):
                in_doubt = producer.send(T, b"in doubt")
                wait_for(lambda: brokers.end(1) == brokers.end(2) == 2, "the append on both")
                move_lead(admin, brokers)
                with pytest.raises(TallymarkError):
                    in_doubt.result(90)
            assert (counted["records_in_doubt"], counted["records_failed"]) == (1, 0)
            assert "NOT_LEADER_OR_FOLLOWER" in caplog.text
            after = producer.send(T, b"after").result(60)
        with SimpleConsumer(bootstrap_servers=brokers.addresses) as consumer:
            records = consumer.fetch(T, 0, 0).records()
        assert [record.value for record in records] == [b"first", b"in doubt", b"after"]
        assert after.offset == 2
