"""Kafka Streams, 3.9 and 4.x, unmodified: a word count with ``exactly_once_v2`` that is killed."""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from broker_process import BrokerProcess
from cluster_members import zookeeper_or_skip
from copied_cluster import no_traceback, raise_transaction_level
from eventually import eventually
from foreign_clients import java
from replicated_cluster import ReplicatedCluster

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.client.admin.configs import ConfigResource
from tallymark.errors import ConnectError, KafkaError, TimedOutError
from tallymark.processes.child_process import kill_process
from tallymark.protocol.topic_partition import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

pytestmark = pytest.mark.process

LINES: Final = 2000
PARTITIONS: Final = 2
WORDS: Final = [f"word-{number}" for number in range(40)]
NAME: Final = "word-count"
QUICK: Final[dict[str, Any]] = {
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 500,
    "num_partitions": PARTITIONS,
}


KILLED: Final = (
    (0.2, TRANSACTIONS_TOPIC),
    (0.4, OFFSETS_TOPIC),
    (0.6, f"{NAME}-counts-changelog"),
    (0.8, f"{NAME}-words-repartition"),
)
"""When so much is counted the leader of this topic (of its partition 0) is killed."""


class Counts:
    """The output as a reader of committed records sees it: of each word its counts in order."""

    def __init__(self, servers: str) -> None:
        self.of: dict[str, list[int]] = defaultdict(list)
        self._consumer = SimpleConsumer(bootstrap_servers=servers, isolation="read_committed")
        self._positions = [0] * PARTITIONS

    def total(self) -> int:
        """How many there are by now."""
        for partition, position in enumerate(self._positions):
            with contextlib.suppress(KafkaError, ConnectError, TimedOutError):
                fetched = self._consumer.fetch("counts", partition, position, max_wait_ms=20)
                for record in fetched.records():
                    self.of[(record.key or b"").decode()].append(int(record.value or b""))
                self._positions[partition] = fetched.next_offset
        return sum(map(len, self.of.values()))

    def close(self) -> None:
        self._consumer.close()


def publish(servers: str, lines: int) -> Counter[str]:
    """So many lines of one to eight words, and how often each word is in them."""
    chance, truth = random.Random(1), Counter[str]()
    with Producer(bootstrap_servers=servers, audit=False, linger_ms=20) as producer:
        for number in range(lines):
            line = chance.choices(WORDS, k=chance.randint(1, 8))
            truth.update(line)
            producer.send("lines", " ".join(line).encode(), partition=number % PARTITIONS)
    return truth


class Count:
    """A word count between two topics that are there."""

    def __init__(self, version: str, servers: str, folder: Path, lines: int) -> None:
        self._version = version
        self._servers = servers
        self._folder = folder
        self._truth = publish(servers, lines)
        self._counts = Counts(servers)

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Kafka Streams as a process; its log is printed beside a test that fails."""
        topics = ("lines", "counts")
        process = java.word_count(self._version, self._servers, NAME, topics, self._folder)
        try:
            with process:
                try:
                    yield process
                finally:
                    kill_process(process)
        finally:
            print((self._folder / "streams.log").read_text()[-5000:])

    def until(self, part: float, process: subprocess.Popen[str]) -> None:
        """Until so much is counted and can be read, from 0 to 1."""
        enough = part * self._truth.total()
        eventually(
            lambda: self._counts.total() >= enough or process.poll() is not None,
            seconds=180,
            what=f"{part:.0%} are counted",
        )
        assert process.poll() is None, "it has ended by itself"

    def finish(self, process: subprocess.Popen[str]) -> None:
        """All is counted, each word once, and the process closes in order."""
        self.until(1, process)
        eventually(lambda: was_purged(self._servers), what="counted words are deleted")
        said, _ = process.communicate("", timeout=60)
        assert said.splitlines()[-1] == "end", said
        assert self._counts.total() == self._truth.total()
        self._counts.close()
        expected = {word: list(range(1, times + 1)) for word, times in self._truth.items()}
        assert self._counts.of == expected
        assert cleanup_policy(self._servers, f"{NAME}-counts-changelog") == "compact"


@pytest.mark.soak_cases("3.9.1")
@pytest.mark.parametrize("version", java.VERSIONS)
def test_a_word_count_that_is_killed_counts_each_word_once(version: str, tmp_path: Path) -> None:
    """A committed reader of the output sees every word counted 1, 2, 3, ... without one left out
    or twice, though the process is killed in the middle and its store is read back from the
    changelog. What was counted is deleted from the topic between the two halves."""
    java.driver(version, "streams")
    with BrokerProcess(tmp_path, **QUICK) as broker:
        create_topics(broker.address)
        count = Count(version, broker.address, tmp_path, LINES)
        with count.running() as process:
            count.until(0.25, process)
        with count.running() as process:
            count.finish(process)
        no_traceback(broker)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", java.VERSIONS)
def test_the_same_on_three_brokers_of_which_leaders_are_killed(
    version: str, tmp_path: Path
) -> None:
    java.driver(version, "streams")
    settings = QUICK | {
        "default_replication_factor": 3,
        "min_insync_replicas": 2,
        "transaction_state_log_num_partitions": 1,
    }
    with (
        zookeeper_or_skip(tmp_path) as server,
        ReplicatedCluster(tmp_path, server, **settings) as cluster,
    ):
        cluster.wait_for_all()
        raise_transaction_level(cluster.addresses)
        create_topics(cluster.addresses)
        count = Count(version, cluster.addresses, tmp_path, 5 * LINES)
        with count.running() as process:
            count.until(0.1, process)
        with count.running() as process:
            for part, topic in KILLED:
                count.until(part, process)
                cluster.wait_until_whole(topic)
                leader = cluster.brokers[cluster.leader(topic)]
                leader.kill()
                count.until(part + 0.1, process)
                leader.start()
            count.finish(process)
        no_traceback(*cluster.brokers.values())


def create_topics(servers: str) -> None:
    """With as many replicas as the brokers say."""
    with Admin(bootstrap_servers=servers) as admin:
        for topic in ("lines", "counts"):
            admin.create_topic(topic, PARTITIONS)


def cleanup_policy(servers: str, topic: str) -> str | None:
    resource = ConfigResource("topic", topic)
    with Admin(bootstrap_servers=servers) as admin:
        return admin.describe_configs([resource])[resource]["cleanup.policy"].value


def was_purged(servers: str) -> bool:
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        return any(consumer.start_offsets(f"{NAME}-words-repartition").values())
