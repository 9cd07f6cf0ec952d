"""Compaction in a running broker: its worker process, what consumers see, what a restart knows."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from eventually import eventually
from hostile_batches import bomb, garbage, send

from tallymark.broker.maintenance.cleaner import Cleaner
from tallymark.broker.maintenance.cleaner_process import CompactionFailedError, ProcessWorker, Step
from tallymark.client import Admin
from tallymark.log import Log, LogConfig, OsFiles
from tallymark.log.compaction.checkpoint import read_clean_points
from tallymark.log.compaction.job import dirt_of, task_of
from tallymark.log.compaction.swap import swap
from tallymark.log.compaction.task import CompactionTask, Paused, Summary
from tallymark.log.disk.partition_folder import LogKey as Folder
from tallymark.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

pytestmark = pytest.mark.process

KEYS = 20
TOPIC = {
    "cleanup.policy": "compact",
    "segment.bytes": "4096",
    "min.cleanable.dirty.ratio": "0.01",
    "flush.messages": "1",
}


def produce(
    broker: BrokerThread, topic: str, first: int, count: int, keys: int = KEYS, **config: Any
) -> None:
    failed: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 5, **config}
    )
    for number in range(first, first + count):
        producer.produce(
            topic,
            b"%d" % number + b"." * 40,
            b"key-%d" % (number % keys),
            0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert failed == []


def read_to_the_end(broker: BrokerThread, topic: str, offset: int = OFFSET_BEGINNING) -> list[Any]:
    """What confluent-kafka gets, until it says itself that this is the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": True,
            "fetch.message.max.bytes": 700,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        found: list[Any] = []
        deadline = time.monotonic() + 60
        while True:
            assert time.monotonic() < deadline, f"stalled after {len(found)} messages"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise AssertionError(error)
    finally:
        consumer.close()


def cleaner_of(broker: BrokerThread) -> Cleaner:
    assert broker.broker is not None
    cleaner = broker.broker.cleaner
    assert cleaner is not None
    return cleaner


def log_of(broker: BrokerThread, topic: str) -> Log:
    assert broker.broker is not None
    assert broker.broker.state is not None
    return broker.broker.state.partitions.find(topic, 0).log


def is_clean(broker: BrokerThread, topic: str) -> bool:
    target = log_of(broker, topic)
    base = target.closed_segments[-1].next_offset if target.closed_segments else 0
    return cleaner_of(broker)._points.of(target) >= base > 0


@pytest.mark.soak
def test_a_foreign_consumer_reads_a_compacted_topic_to_its_end(tmp_path: Path) -> None:
    """The flow: thousands of messages of twenty keys, idempotent, written while the log is being
    compacted; the broker is restarted in between."""
    with BrokerThread(tmp_path, log_cleaner_backoff_ms=50) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t", 1, TOPIC)
        extra: dict[str, Any] = {"enable.idempotence": True, "compression.type": "zstd"}
        for first in (0, 500, 1000):
            produce(broker, "t", first, 500, **extra)
            eventually(lambda: is_clean(broker, "t"), what="the log is clean")
        broker.stop()
        points = read_clean_points(OsFiles(), str(broker.settings.log_dirs[0]))
        assert points[Folder("t", 0)] > 1000
        broker.start()
        produce(broker, "t", 1500, 500, **extra)
        eventually(lambda: is_clean(broker, "t"), what="the log is clean again")
        found = read_to_the_end(broker, "t")
        offsets = [message.offset() for message in found]
        assert offsets == sorted(set(offsets))
        assert len(found) < 300, "most are replaced"
        for message in found:
            number = int(message.value().split(b".")[0])
            assert (message.offset(), message.key()) == (number, b"key-%d" % (number % KEYS))
        assert offsets[-KEYS:] == list(range(2000 - KEYS, 2000))
        for offset in (1, 700, 1501):
            got = [message.offset() for message in read_to_the_end(broker, "t", offset)]
            assert got == [each for each in offsets if each >= offset]
        assert log_of(broker, "t").end_offset == 2000


def test_compact_and_delete(tmp_path: Path) -> None:
    """Both policies hold: what is old goes as a whole segment, compacted or not."""
    settings: dict[str, Any] = {"log_cleaner_backoff_ms": 50, "log_retention_check_interval_ms": 50}
    with BrokerThread(tmp_path, **settings) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            configs = {**TOPIC, "cleanup.policy": "compact,delete", "retention.bytes": "8192"}
            admin.create_topic("t", 1, configs)
        produce(broker, "t", 0, 600, keys=200)
        eventually(lambda: log_of(broker, "t").start_offset > 0, what="retention has worked")
        eventually(lambda: is_clean(broker, "t"), what="the log is clean")
        found = read_to_the_end(broker, "t")
        assert len(found) > 20
        assert log_of(broker, "t").size < 8192 + 2 * 4096


def test_a_topic_made_again_is_dirty_from_its_start(tmp_path: Path) -> None:
    with (
        BrokerThread(tmp_path, log_cleaner_backoff_ms=50) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        for _ in range(2):
            admin.create_topic("t", 1, TOPIC)
            produce(broker, "t", 0, 400)
            assert cleaner_of(broker)._points.of(log_of(broker, "t")) <= 400
            eventually(lambda: is_clean(broker, "t"), what="the log is clean")
            assert len(read_to_the_end(broker, "t")) < 200
            admin.delete_topic("t")


def test_a_cleaner_that_is_switched_off_cleans_nothing(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"log_cleaner_backoff_ms": 20, "log_cleaner_enable": False}
    with BrokerThread(tmp_path, **settings) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t", 1, TOPIC)
        produce(broker, "t", 0, 300)
        assert len(read_to_the_end(broker, "t")) == 300


def test_committed_offsets_survive_the_compaction_of_their_topic(tmp_path: Path) -> None:
    """The flow: ten groups commit again and again, one is deleted; ``__consumer_offsets`` is
    compacted, the broker restarts and replays what is left of it."""

    def consumer(group: int) -> Consumer:
        return Consumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"group-{group}"}
        )

    def commit(group: int, offsets: range) -> None:
        one = consumer(group)
        for offset in offsets:
            one.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
        one.close()

    def committed(group: int) -> int:
        one = consumer(group)
        offset: int = one.committed([TopicPartition("t", 0)], timeout=60)[0].offset
        one.close()
        return offset

    settings: dict[str, Any] = {
        "log_cleaner_backoff_ms": 50,
        "log_cleaner_min_cleanable_ratio": 0.01,
    }
    with BrokerThread(tmp_path, **settings) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t", 1, {})
        commit(0, range(1, 2))  # makes the topic
        configs = [
            IncrementalAlterConfigsRequestConfig(name=name, value=value)
            for name, value in (("segment.bytes", "4096"), ("flush.messages", "1"))
        ]
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=2, resource_name="__consumer_offsets", configs=configs
        )
        with WireClient(broker.bootstrap_servers) as wire:
            told = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert told.responses[0].error_code == 0, told
        for group in range(10):
            commit(group, range(30 * group, 30 * group + 30))
        eventually(lambda: is_clean(broker, "__consumer_offsets"), what="the offsets are clean")
        assert log_of(broker, "__consumer_offsets").size < 300 * 60, "most commits are replaced"
        broker.stop()
        broker.start()
        assert [committed(group) for group in range(10)] == [30 * n + 29 for n in range(10)]


# --- the worker


def filled(folder: Path) -> Log:
    config = LogConfig(segment_bytes=2000, compact=True, retention_ms=-1)
    path = folder / "t-0"
    path.mkdir()
    log = Log.open(OsFiles(), str(path), config, clean=True, now_ms=0)
    for number in range(200):
        log.append(encode_batch([(b"k%d" % (number % 5), bytes(20), (), number)]), 0, 1)
    log.flush()
    return log


def test_a_killed_worker_is_replaced_by_another(tmp_path: Path) -> None:
    log = filled(tmp_path)
    worker = ProcessWorker()
    try:
        task = task_of(log, dirt_of(log, -1, 0), 0, 1 << 20)
        assert not isinstance(worker.begin(task), Summary)
        first = worker.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        with pytest.raises(CompactionFailedError, match="killed"):
            worker.next(log.directory)
        step = worker.begin(task)
        assert worker.pid not in (None, first)
        while not isinstance(step, Summary):  # on a busy machine a turn may end before a segment
            assert isinstance(step, Paused) or swap(log, step)
            step = worker.next(log.directory)
        assert step.removed > 150
    finally:
        worker.close()
        log.close()


def test_a_worker_says_what_is_wrong_with_a_log(tmp_path: Path) -> None:
    log = filled(tmp_path)
    path = Path(log.closed_segments[0].path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    worker = ProcessWorker()
    try:
        with pytest.raises(CompactionFailedError, match="CRC") as caught:
            worker.begin(task_of(log, dirt_of(log, -1, 0), 0, 1 << 20))
        assert caught.value.damaged
        path.unlink()
        with pytest.raises(CompactionFailedError, match="FileNotFoundError") as caught:
            worker.begin(task_of(log, dirt_of(log, -1, 0), 0, 1 << 20))
        assert not caught.value.damaged
    finally:
        worker.close()
        log.abandon()


def test_the_worker_ends_when_its_input_does(tmp_path: Path) -> None:
    """That is how it dies with a broker that is killed: nobody is left to write into the pipe."""
    log = filled(tmp_path)
    worker = ProcessWorker()
    try:
        worker.begin(task_of(log, dirt_of(log, -1, 0), 0, 1 << 20, bytes_per_second=1 << 20))
        child = worker._child
        assert child is not None
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(30) == 0
    finally:
        worker.close()
        log.close()


# --- turns


class Endless(ProcessWorker):
    """A worker to whom one log is a compaction without an end."""

    def __init__(self, endless: str) -> None:
        super().__init__()
        self._endless = endless
        self.turns = 0

    def begin(self, task: CompactionTask) -> Step:
        if task.directory.endswith(self._endless):
            return self.next(task.directory)
        return super().begin(task)

    def next(self, directory: str) -> Step:
        if not directory.endswith(self._endless):
            return super().next(directory)
        self.turns += 1
        time.sleep(0.01)
        return Paused()


async def started(cleaner: Cleaner) -> None:
    cleaner.start()


def test_a_log_that_takes_for_ever_keeps_no_other_topic_waiting(tmp_path: Path) -> None:
    """Somebody wrote to one compacted topic what took hours to compact. One log was compacted after
    the other, the dirtiest first, so those of all other topics grew meanwhile."""
    with BrokerThread(tmp_path, log_cleaner_enable=False) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for topic in ("slow", "t"):
                admin.create_topic(topic, 1, TOPIC)
        produce(broker, "slow", 0, 500)
        cleaner = cleaner_of(broker)
        cleaner._worker = worker = Endless("slow-0")
        on = {"log_cleaner_enable": True, "log_cleaner_backoff_ms": 20}
        cleaner.settings = cleaner.settings.model_copy(update=on)
        broker.call(started(cleaner))
        eventually(lambda: worker.turns > 3, what="the endless one is under way")
        for first in (0, 500):
            produce(broker, "t", first, 500)
            eventually(lambda: is_clean(broker, "t"), what="the other topic is clean")
        before = worker.turns
        eventually(lambda: worker.turns > before + 3, what="the endless one goes on")
        assert not is_clean(broker, "slow")


def test_batches_that_stay_whole_are_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They stay for good, so every compaction meets them again: a line each time is a line that
    strangers write."""
    loose = {**TOPIC, "cleanup.policy": "delete", "segment.bytes": "16384"}
    settings: dict[str, Any] = {"log_cleaner_backoff_ms": 20, "record_validation": "header"}
    with BrokerThread(tmp_path, **settings) as broker, caplog.at_level("WARNING"):
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("t", 1, loose)
            with WireClient(broker.bootstrap_servers) as wire:
                for batch in (bomb(100), garbage()):
                    assert send(wire, "t", batch) == 0
            admin.alter_configs({("topic", "t"): {"cleanup.policy": "compact"}})
        for first in (0, 1000, 2000):
            produce(broker, "t", first, 1000)
            eventually(lambda: is_clean(broker, "t"), what="the log is clean")
    told = [each.getMessage() for each in caplog.records if "as they are" in each.getMessage()]
    assert len(told) == 1, told
    assert "partition=t-0 keeps 2 batches" in told[0]
    assert "1 do not decode, 1 hold more than is unpacked; the last one is at offset 1" in told[0]
