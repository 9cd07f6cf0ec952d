"""What a broker shows before and after flushes, and what it does when one of its disks fails."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from eventually import eventually

from tallymark.broker.partitions.partition import Partition
from tallymark.cli.admin.verify_log import command as verify_log
from tallymark.errors import CODES
from tallymark.log import OffsetAt, OsFiles
from tallymark.log.disk.files import Data, File, Handle
from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponsePartition,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponsePartition,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
)
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.wire import WireClient

LATEST, EARLIEST = -1, -2
NEVER_MS = 3_600_000


class DeadFile:
    """A file on a disk that may be full."""

    def __init__(self, file: File, check: Callable[[], None]) -> None:
        self._file = file
        self._check = check

    def append(self, data: Data) -> None:
        self._check()
        self._file.append(data)

    @property
    def handle(self) -> Handle:
        return self._file.handle

    def pread(self, size: int, position: int) -> bytes:
        return self._file.pread(size, position)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


class Disks(OsFiles):
    """The real disk; ``full`` are folders on which nothing fits any more, ``gate`` holds up every
    flush until it is set."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.flushes = 0
        self.index_readers: set[str] = set()

    def read(self, path: str) -> bytes:
        if path.endswith("index"):
            self.index_readers.add(threading.current_thread().name)
        return super().read(path)

    def open(self, path: str, *, create: bool = True) -> File:
        return DeadFile(super().open(path, create=create), lambda: self._check(path))

    def sync_dir(self, path: str) -> None:
        self._check(path)
        if os.path.basename(path).startswith("t-"):
            self.gate.wait(30)
            self.flushes += 1
        super().sync_dir(path)

    def _check(self, path: str) -> None:
        if any(path.startswith(folder) for folder in self.dead):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)


def create(wire: WireClient, name: str, partitions: int = 1, **configs: str) -> None:
    topic = CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreateTopicsRequestConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    answer = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5)
    assert answer.topics[0].error_code == 0


def produce(
    wire: WireClient, topic: str, *, acks: int = -1, partition: int = 0, timeout_ms: int = 8000,
    timestamp: int = 1000,
) -> ProduceResponsePartition:  # fmt: skip
    part = ProduceRequestPartition(
        index=partition, records=encode_batch([(b"k", b"value", (), timestamp)])
    )
    request = ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[ProduceRequestTopic(name=topic, partition_data=[part])],
    )
    return wire.ask(request, 9).responses[0].partition_responses[0]


def fetch(wire: WireClient, topic: str, offset: int, *, wait_ms: int = 0, partition: int = 0
          ) -> FetchResponsePartition:  # fmt: skip
    ask = FetchRequestPartition(partition=partition, fetch_offset=offset, partition_max_bytes=10**6)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=10**6,
        topics=[FetchRequestTopic(topic=topic, partitions=[ask])],
    )
    return wire.ask(request, 11).responses[0].partitions[0]


def list_offset(
    wire: WireClient, topic: str, timestamp: int, partition: int = 0
) -> ListOffsetsResponsePartition:
    ask = ListOffsetsRequestPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequestTopic(name=topic, partitions=[ask])]
    )
    return wire.ask(request, 5).topics[0].partitions[0]


def metadata(wire: WireClient, topic: str) -> list[MetadataResponsePartition]:
    answer = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)
    return list(answer.topics[0].partitions)


@pytest.fixture
def disks() -> Disks:
    return Disks()


@pytest.fixture
def broker(tmp_path: Path, disks: Disks) -> Iterator[BrokerThread]:
    folders = (tmp_path / "d1", tmp_path / "d2")
    with BrokerThread(
        tmp_path, files=disks, log_dirs=folders, log_flush_scheduler_interval_ms=20
    ) as running:
        yield running


# --- shown after the flush


def test_records_are_shown_after_their_flush(
    broker: BrokerThread, wire: WireClient, disks: Disks
) -> None:
    create(wire, "t", flush_before_expose="true", flush_messages="3", flush_ms=str(NEVER_MS))
    for offset in range(2):
        assert produce(wire, "t", acks=1).base_offset == offset
    assert fetch(wire, "t", 0, wait_ms=100).records == b""
    assert fetch(wire, "t", 0).high_watermark == 0
    assert list_offset(wire, "t", LATEST).offset == 0
    with WireClient(broker.bootstrap_servers) as reader, ThreadPoolExecutor(1) as pool:
        parked = pool.submit(fetch, reader, "t", 0, wait_ms=8000)
        produce(wire, "t", acks=1)  # the third message makes the flush due
        found = parked.result(30)
    assert found.records
    assert found.high_watermark == 3
    assert list_offset(wire, "t", LATEST).offset == 3


def test_acks_all_waits_for_the_flush_and_shares_it(
    broker: BrokerThread, wire: WireClient, disks: Disks
) -> None:
    create(wire, "t", flush_before_expose="true", flush_ms=str(NEVER_MS))
    produce(wire, "t")
    assert list_offset(wire, "t", LATEST).offset == 1
    disks.gate.clear()
    before = disks.flushes
    with ThreadPoolExecutor(8) as pool:
        clients = [WireClient(broker.bootstrap_servers) for _ in range(8)]
        sent = [pool.submit(produce, client, "t") for client in clients]
        eventually(lambda: _partition(broker, "t").log.end_offset == 9, what="all eight have sent")
        assert not any(each.done() for each in sent)
        disks.gate.set()
        assert {each.result(30).error_code for each in sent} == {0}
        for client in clients:
            client.close()
    assert disks.flushes - before <= 3  # nine producers, and no flush for each


def test_acks_all_that_is_not_flushed_in_time(wire: WireClient, disks: Disks) -> None:
    create(wire, "t", flush_before_expose="true", flush_ms=str(NEVER_MS))
    disks.gate.clear()
    try:
        late = produce(wire, "t", timeout_ms=50)
        assert late.error_code == CODES["REQUEST_TIMED_OUT"]
        assert produce(wire, "t", acks=1).error_code == 0
    finally:
        disks.gate.set()


def test_without_it_nobody_waits(wire: WireClient, disks: Disks) -> None:
    create(wire, "t")
    disks.gate.clear()
    try:
        assert produce(wire, "t").error_code == 0
        assert fetch(wire, "t", 0).records
    finally:
        disks.gate.set()


def test_a_topic_that_is_deleted_answers_who_waits(
    broker: BrokerThread, wire: WireClient, disks: Disks
) -> None:
    create(wire, "t", flush_before_expose="true", flush_ms=str(NEVER_MS))
    disks.gate.clear()
    with WireClient(broker.bootstrap_servers) as other, ThreadPoolExecutor(1) as pool:
        sent = pool.submit(produce, other, "t")
        while list_offset(wire, "t", LATEST).error_code == 0 and not _appended(broker, "t"):
            time.sleep(0.01)
        partition = _partition(broker, "t")
        broker.call(_withdraw(partition))
        answer = sent.result(30)
        disks.gate.set()
    assert answer.error_code == CODES["NOT_LEADER_OR_FOLLOWER"]


def _partition(broker: BrokerThread, topic: str) -> Partition:
    assert broker.broker is not None
    assert broker.broker.state is not None
    found = broker.broker.state.partitions.get(topic, 0)
    assert found is not None
    return found


def _appended(broker: BrokerThread, topic: str) -> bool:
    return bool(_partition(broker, topic).log.end_offset)


async def _withdraw(partition: Partition) -> None:
    partition.withdraw()


# --- a disk that fails


def test_a_dead_disk_takes_its_partitions_offline_and_no_others(
    tmp_path: Path, broker: BrokerThread, wire: WireClient, disks: Disks,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    create(wire, "t", partitions=4)
    for partition in range(4):
        assert produce(wire, "t", partition=partition).error_code == 0
    disks.dead.add(str(tmp_path / "d2"))  # topics.json stands in d1
    codes = [produce(wire, "t", partition=partition).error_code for partition in range(4)]
    offline = [number for number, code in enumerate(codes) if code]
    assert {codes[number] for number in offline} == {CODES["KAFKA_STORAGE_ERROR"]}
    assert len(offline) == 2
    for partition in range(4):
        expected = CODES["KAFKA_STORAGE_ERROR"] if partition in offline else 0
        assert fetch(wire, "t", 0, partition=partition).error_code == expected
        for at in (LATEST, EARLIEST, 0):
            assert list_offset(wire, "t", at, partition).error_code == expected
    told = metadata(wire, "t")
    assert [part.leader_id for part in told] == [-1 if n in offline else 0 for n in range(4)]
    assert {part.error_code for part in told if part.leader_id < 0} == {
        CODES["LEADER_NOT_AVAILABLE"]
    }
    create(wire, "later", partitions=3)
    assert [produce(wire, "later", partition=n).error_code for n in range(3)] == [0, 0, 0]
    while "were acknowledged and may be lost" not in caplog.text:
        time.sleep(0.02)
    assert f"t-{offline[0]}: records from offset 0 to before 1" in caplog.text
    # The disk is mended: a restart brings everything back that had been written.
    broker.stop()
    disks.dead.clear()
    broker.start()
    with WireClient(broker.bootstrap_servers) as again:
        for partition in range(4):
            assert fetch(again, "t", 0, partition=partition).records


def test_a_dead_disk_at_the_start_hides_nothing(
    tmp_path: Path, broker: BrokerThread, wire: WireClient, disks: Disks
) -> None:
    """The partitions of the dead disk must not come up empty on the other one: their consumers
    would find nothing, and their producers begin again at offset 0."""
    create(wire, "t", partitions=4)
    for partition in range(4):
        produce(wire, "t", partition=partition)
    wire.close()
    broker.stop()
    disks.dead.add(str(tmp_path / "d2"))
    broker.start()
    with WireClient(broker.bootstrap_servers) as again:
        found = [fetch(again, "t", 0, partition=partition) for partition in range(4)]
    assert sorted(part.error_code for part in found) == [0, 0, 56, 56]
    assert not [part for part in found if not part.error_code and not part.records]


# --- the broker's clock, and look-ups beside


def test_log_append_time_over_the_wire(wire: WireClient) -> None:
    create(wire, "t", message_timestamp_type="LogAppendTime")
    before = time.time_ns() // 1_000_000
    answer = produce(wire, "t", timestamp=5)
    assert before <= answer.log_append_time_ms <= time.time_ns() // 1_000_000
    assert list_offset(wire, "t", before).timestamp == answer.log_append_time_ms


def test_timestamps_too_far_off_are_refused(wire: WireClient) -> None:
    create(wire, "t", message_timestamp_before_max_ms="1000")
    assert produce(wire, "t", timestamp=5).error_code == CODES["INVALID_TIMESTAMP"]
    assert produce(wire, "t", timestamp=time.time_ns() // 1_000_000).error_code == 0


def test_look_ups_by_time_are_made_in_a_thread(
    broker: BrokerThread, wire: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(wire, "t", segment_bytes="1024")
    for number in range(50):
        produce(wire, "t", timestamp=1000 + number)
    log = _partition(broker, "t").log
    assert log.segment_count > 3
    threads: set[str] = set()
    search = log.offset_for_time

    def noted(at: int, until: int) -> OffsetAt | None:
        threads.add(threading.current_thread().name)
        return search(at, until)

    monkeypatch.setattr(log, "offset_for_time", noted)
    assert list_offset(wire, "t", 1030).offset == 30
    assert threads
    assert "tallymark-broker" not in threads


def test_indexes_of_old_segments_are_loaded_in_a_thread(
    broker: BrokerThread, wire: WireClient, disks: Disks
) -> None:
    create(wire, "t", segment_bytes="1024")
    for _ in range(50):
        produce(wire, "t")
    broker.stop()
    broker.start()
    disks.index_readers.clear()
    with WireClient(broker.bootstrap_servers) as again:
        for offset in (0, 20, 40):
            assert fetch(again, "t", offset).records
        assert list_offset(again, "t", EARLIEST).offset == 0
    assert disks.index_readers
    assert "tallymark-broker" not in disks.index_readers


def test_old_segments_are_deleted_in_a_thread(
    tmp_path: Path, disks: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    removers: dict[str, str] = {}
    remove = disks.remove
    monkeypatch.setattr(
        disks,
        "remove",
        lambda path: (removers.setdefault(path, threading.current_thread().name), remove(path))[1],
    )
    with (
        BrokerThread(tmp_path, files=disks, log_retention_check_interval_ms=50,
                     log_flush_scheduler_interval_ms=20) as broker,
        WireClient(broker.bootstrap_servers) as wire,
    ):  # fmt: skip
        create(wire, "t", segment_bytes="1024", retention_bytes="2000", flush_ms="10")
        for _ in range(80):
            produce(wire, "t", timestamp=time.time_ns() // 1_000_000)
        eventually(lambda: list_offset(wire, "t", EARLIEST).offset > 0)
        assert fetch(wire, "t", 0).error_code == CODES["OFFSET_OUT_OF_RANGE"]
        # The segment that begins there may be deleted in between.
        eventually(lambda: fetch(wire, "t", list_offset(wire, "t", EARLIEST).offset).records)
    by = {thread for path, thread in removers.items() if path.endswith(".log")}
    assert by
    assert "tallymark-broker" not in by


def test_several_offsets_newest_first(wire: WireClient) -> None:
    create(wire, "t", segment_bytes="1024")
    for number in range(50):
        produce(wire, "t", timestamp=1000 + number)

    def ask(timestamp: int, most: int) -> list[int]:
        part = ListOffsetsRequestPartition(
            partition_index=0, timestamp=timestamp, max_num_offsets=most
        )
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsRequestTopic(name="t", partitions=[part])]
        )
        found = wire.ask(request, 0).topics[0].partitions[0]
        assert found.error_code == (0 if most >= 0 else CODES["INVALID_REQUEST"])
        return list(found.old_style_offsets)

    everything = ask(LATEST, 100)
    assert everything == sorted(everything, reverse=True)
    assert (everything[0], everything[-1], len(everything) > 4) == (50, 0, True)
    assert ask(LATEST, 2) == everything[:2]
    assert ask(EARLIEST, 5) == [0]
    begins = everything[-3]
    assert ask(1000 + begins - 1, 9) == everything[-2:]  # all before the third segment
    assert ask(LATEST, 0) == []
    assert ask(LATEST, -1) == []


def test_files_are_verified_while_the_broker_writes_them(
    tmp_path: Path, broker: BrokerThread, wire: WireClient
) -> None:
    create(wire, "t", segment_bytes="1024", flush_ms="10", retention_bytes="4000")
    done = threading.Event()

    def write() -> None:
        with WireClient(broker.bootstrap_servers) as writer:
            while not done.is_set():
                produce(writer, "t", timestamp=time.time_ns() // 1_000_000)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        for _ in range(8):
            result = CliRunner().invoke(verify_log, [str(tmp_path / "d1"), "--deep"])
            assert (result.exit_code, result.exception) == (0, None), result.output
        done.set()
        writing.result(30)
    assert "t-0: ok" in result.output
