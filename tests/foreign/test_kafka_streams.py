"""Kafka Streams, 3.9 and 4.x, unmodified: a word count with ``exactly_once_v2`` that is killed."""

from __future__ import annotations

import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from broker_process import BrokerProcess
from eventually import eventually
from foreign_clients import java

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.client.admin.configs import ConfigResource
from tallymark.processes.child_process import kill_process

pytestmark = pytest.mark.process

LINES: Final = 2000
PARTITIONS: Final = 2
WORDS: Final = [f"word-{number}" for number in range(40)]
NAME: Final = "word-count"
QUICK: Final = {
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 500,
    "num_partitions": PARTITIONS,
}


class Counts:
    """The output as a reader of committed records sees it: of each word its counts in order."""

    def __init__(self, servers: str) -> None:
        self.of: dict[str, list[int]] = defaultdict(list)
        self._consumer = SimpleConsumer(bootstrap_servers=servers, isolation="read_committed")
        self._positions = [0] * PARTITIONS

    def total(self) -> int:
        """How many there are by now."""
        for partition, position in enumerate(self._positions):
            fetched = self._consumer.fetch("counts", partition, position, max_wait_ms=20)
            for record in fetched.records():
                self.of[(record.key or b"").decode()].append(int(record.value or b""))
            self._positions[partition] = fetched.next_offset
        return sum(map(len, self.of.values()))

    def close(self) -> None:
        self._consumer.close()


def publish(servers: str) -> Counter[str]:
    """Lines of one to eight words, and how often each word is in them."""
    chance, truth = random.Random(1), Counter[str]()
    with Producer(bootstrap_servers=servers, audit=False, linger_ms=20) as producer:
        for number in range(LINES):
            line = chance.choices(WORDS, k=chance.randint(1, 8))
            truth.update(line)
            producer.send("lines", " ".join(line).encode(), partition=number % PARTITIONS)
    return truth


@contextmanager
def running(version: str, servers: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Kafka Streams as a process; its log is printed beside a test that fails."""
    process = java.word_count(version, servers, NAME, ("lines", "counts"), folder)
    try:
        with process:
            try:
                yield process
            finally:
                kill_process(process)
    finally:
        print((folder / "streams.log").read_text()[-5000:])


@pytest.mark.parametrize("version", java.VERSIONS)
def test_a_word_count_that_is_killed_counts_each_word_once(version: str, tmp_path: Path) -> None:
    """A committed reader of the output sees every word counted 1, 2, 3, ... without one left out
    or twice, though the process is killed in the middle and its store is read back from the
    changelog. What was counted is deleted from the topic between the two halves."""
    java.driver(version, "streams")
    with BrokerProcess(tmp_path, **QUICK) as broker:
        with Admin(bootstrap_servers=broker.address) as admin:
            for topic in ("lines", "counts"):
                admin.create_topic(topic, PARTITIONS)
        truth = publish(broker.address)
        counts = Counts(broker.address)
        with running(version, broker.address, tmp_path) as first:
            eventually(lambda: counts.total() > truth.total() // 4 or first.poll() is not None)
            first.kill()
        assert counts.total() < truth.total(), "it was not killed in the middle"
        with running(version, broker.address, tmp_path) as second:
            eventually(lambda: counts.total() >= truth.total() or second.poll() is not None)
            eventually(lambda: was_purged(broker.address), what="counted words are deleted")
            said, _ = second.communicate("", timeout=60)
        assert said.splitlines()[-1] == "end", said
        assert counts.total() == truth.total()
        counts.close()
        expected = {word: list(range(1, times + 1)) for word, times in truth.items()}
        assert counts.of == expected
        assert cleanup_policy(broker.address, f"{NAME}-counts-changelog") == "compact"
        assert "Traceback" not in broker.log.read_text(errors="replace")


def cleanup_policy(servers: str, topic: str) -> str | None:
    resource = ConfigResource("topic", topic)
    with Admin(bootstrap_servers=servers) as admin:
        return admin.describe_configs([resource])[resource]["cleanup.policy"].value


def was_purged(servers: str) -> bool:
    with SimpleConsumer(bootstrap_servers=servers) as consumer:
        return any(consumer.start_offsets(f"{NAME}-words-repartition").values())
