"""Transactions on disk: Apache Kafka's tool reads our files, its broker opens our folders and ours
opens its, with committed, aborted and open transactions."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from broker_kinds import skip_without_jars, start_apache_kafka
from eventually import eventually
from left_open import leave_open

from tallymark import Admin, Producer, SimpleConsumer
from tallymark.processes.apache_kafka.jars import jars
from tallymark.processes.apache_kafka.server import QUICK_START
from tallymark.processes.java import find_java
from tallymark.testing.broker_thread import BrokerThread

pytestmark = [pytest.mark.apache_kafka, pytest.mark.process]
TOPIC = "t"
FOLDERS = ("t-0", "__transaction_state-0", "__consumer_offsets-0")
COMMITTED = [b"0", b"2", b"4"]
OWN_FILE = "partition.metadata"
"""The topic's id, which differs from cluster to cluster."""


def write(servers: str) -> None:
    """Five transactions, of which two are aborted, each with a position of group g; then one that
    stays open."""
    with Producer(bootstrap_servers=servers, transactional_id="ended") as producer:
        producer.init_transactions()
        for number in range(5):
            producer.begin_transaction()
            producer.send(TOPIC, b"%d" % number, partition=0)
            producer.send_offsets_to_transaction({(TOPIC, 0): number + 1}, "g")
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    leave_open(servers, "opened", TOPIC, {(TOPIC, 0): 9})


def our_broker(folder: Path) -> BrokerThread:
    return BrokerThread(
        folder,
        transaction_state_log_num_partitions=1,
        offsets_topic_num_partitions=1,
        num_partitions=1,
    )


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a broker of ours that was stopped."""
    skip_without_jars()
    broker = our_broker(tmp_path_factory.mktemp("ours"))
    with broker:
        write(broker.bootstrap_servers)
        broker.stop()
    return broker.settings.log_dirs[0]


def dump(*arguments: str) -> str:
    """What Apache Kafka's tool says of log files."""
    command = [find_java(), *QUICK_START, "-cp", f"{jars(fetch=False)}/*"]
    ended = subprocess.run(
        [*command, "kafka.tools.DumpLogSegments", *arguments], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


def log_of(data: Path, folder: str) -> str:
    return str(data / folder / f"{0:020d}.log")


def test_kafkas_tool_reads_log_index_of_aborted_and_snapshot(ours: Path) -> None:
    folder = ours / "t-0"
    (snapshot,) = folder.glob("*.snapshot")
    index = folder / f"{0:020d}.txnindex"
    text = dump("--files", ",".join(map(str, (log_of(ours, "t-0"), index, snapshot))))
    assert len(re.findall(r"isTransactional: true isControl: true.*isvalid: true", text)) == 5
    assert "isvalid: false" not in text
    aborted = re.findall(
        r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) "
        r"lastStableOffset: (\d+)",
        text,
    )
    assert [(first, last, stable) for _, first, last, stable in aborted] == [
        ("2", "3", "4"),
        ("6", "7", "8"),
    ]
    producers = re.findall(r"currentTxnFirstOffset: (\S+)", text)
    assert producers == ["OptionalLong.empty", "OptionalLong[10]"]


@pytest.mark.soak
def test_kafkas_tool_reads_the_state_of_transactions(ours: Path) -> None:
    text = dump("--transaction-log-decoder", "--files", log_of(ours, "__transaction_state-0"))
    assert "isvalid: false" not in text
    last = {
        name: (epoch, state)
        for name, epoch, state in re.findall(
            r'"transactionalId":"(\w+)".*"producerEpoch":(\d+).*"transactionStatus":(\d+)', text
        )
    }
    assert last == {"ended": ("5", "4"), "opened": ("0", "1")}  # CompleteCommit, Ongoing
    assert "nextProducerEpoch" not in text, "KIP-939's: see transactions/records.py"


@pytest.mark.soak
def test_kafkas_tool_reads_positions_in_transactions(ours: Path) -> None:
    text = dump("--offsets-decoder", "--files", log_of(ours, "__consumer_offsets-0"))
    assert re.findall(r'"data":\{"offset":(\d+),', text) == ["1", "2", "3", "4", "5", "9"]
    markers = re.findall(r"endTxnMarker: (\w+)", text)
    assert markers == ["COMMIT", "ABORT", "COMMIT", "ABORT", "COMMIT"]


def put(source: Path, target: Path) -> None:
    """The partitions of ``source`` in place of those of ``target``."""
    for name in FOLDERS:
        for old in (target / name).iterdir():
            if old.name != OWN_FILE:
                old.unlink()
        for new in (source / name).iterdir():
            if new.name != OWN_FILE:
                shutil.copy(new, target / name)


def read(servers: str) -> list[bytes | None]:
    """What is committed, up to the first open transaction."""
    found: list[bytes | None] = []
    with SimpleConsumer(bootstrap_servers=servers, isolation="read_committed") as consumer:
        position, end = 0, consumer.end_offsets(TOPIC)[0]
        while position < end:
            fetched = consumer.fetch(TOPIC, 0, position, max_wait_ms=0)
            if fetched.next_offset <= position:
                break  # the last stable offset
            found += [message.value for message in fetched.records()]
            position = fetched.next_offset
    return found


def check(servers: str) -> None:
    """All is as it was written, and both ids go on."""
    assert read(servers) == COMMITTED
    with Producer(bootstrap_servers=servers, transactional_id="ended") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(TOPIC, b"5", partition=0)
    assert read(servers) == COMMITTED  # behind the open one
    with Producer(bootstrap_servers=servers, transactional_id="opened") as producer:
        producer.init_transactions()  # which aborts what it had left open
        with producer.transaction():
            producer.send(TOPIC, b"6", partition=0)
    eventually(lambda: read(servers) == [*COMMITTED, b"5", b"6"])
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.group_offsets("g").check()[TOPIC, 0].offset == 5


@pytest.mark.soak
def test_kafkas_broker_opens_our_folders(ours: Path, tmp_path: Path) -> None:
    kafka = start_apache_kafka(tmp_path)
    try:
        write(kafka.bootstrap_servers)  # so that the topics are there
        kafka.stop()
        put(ours, kafka.data)
        kafka.start()
        check(kafka.bootstrap_servers)
    finally:
        kafka.kill()


@pytest.mark.soak
def test_our_broker_opens_its_folders(tmp_path: Path) -> None:
    kafka = start_apache_kafka(tmp_path / "kafka")
    try:
        write(kafka.bootstrap_servers)
        kafka.stop()
    finally:
        kafka.kill()
    with our_broker(tmp_path / "ours") as broker:
        write(broker.bootstrap_servers)
        broker.stop()
        put(kafka.data, broker.settings.log_dirs[0])
        broker.start()
        check(broker.bootstrap_servers)
