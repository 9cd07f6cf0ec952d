"""Starts, stops, crashes and restarts: what a broker keeps, and what it refuses to start with."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually

from tallymark.broker.ports import Ports
from tallymark.broker.server import Broker
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.errors import CODES, KafkaError, UserError
from tallymark.processes.free_ports import free_ports
from tallymark.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
)
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_files import MemoryFiles
from tallymark.testing.wire import WireClient


def described(wire: WireClient, name: str, create: bool = True) -> MetadataResponseTopic:
    topics = [MetadataRequestTopic(name=name)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
    return wire.ask(request, 12).topics[0]


def create(wire: WireClient, name: str, **configs: str) -> None:
    topic = CreateTopicsRequestTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[
            CreateTopicsRequestConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    assert wire.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code == 0


def produce(
    wire: WireClient, name: str, value: bytes = b"x", sequence: int = -1, timestamp: int = 1000
) -> ProduceResponsePartition:
    records = encode_batch(
        [(None, value, (), timestamp)],
        producer_id=5 if sequence >= 0 else -1,
        producer_epoch=0 if sequence >= 0 else -1,
        base_sequence=sequence,
    )
    part = ProduceRequestPartition(index=0, records=records)
    topics = [ProduceRequestTopic(name=name, partition_data=[part])]
    answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)
    return answer.responses[0].partition_responses[0]


def end_of(wire: WireClient, name: str, timestamp: int = -1) -> int:
    part = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsRequestTopic(name=name, partitions=[part])]
    return wire.ask(ListOffsetsRequest(topics=topics), 7).topics[0].partitions[0].offset


def end_of_epoch(wire: WireClient, name: str, epoch: int) -> tuple[int, int]:
    part = OffsetForLeaderEpochRequestPartition(partition=0, leader_epoch=epoch)
    topics = [OffsetForLeaderEpochRequestTopic(topic=name, partitions=[part])]
    found = wire.ask(OffsetForLeaderEpochRequest(topics=topics), 4).topics[0].partitions[0]
    return found.leader_epoch, found.end_offset


@pytest.mark.parametrize("kind", ["stop", "kill"])
def test_a_restart_keeps_everything(tmp_path: Path, kind: str) -> None:
    """Topic ids, records, configs, committed offsets, sequences of idempotent producers, the
    cluster's id; producer ids are not given twice; the leader epoch rises
    after a crash, which may have cut the log, and only then."""
    running = BrokerThread(tmp_path)
    with running, WireClient(running.bootstrap_servers) as wire:
        create(wire, "t", flush_messages="7")
        before = described(wire, "t")
        cluster = wire.ask(MetadataRequest(topics=[]), 12).cluster_id
        assert [produce(wire, "t", sequence=n).base_offset for n in range(3)] == [0, 1, 2]
        first_id = wire.ask(InitProducerIdRequest(), 4).producer_id
        commit(wire, "g", "t", 2)
        getattr(running, kind)()
    with running, WireClient(running.bootstrap_servers) as wire:
        after = described(wire, "t", create=False)
        assert after.topic_id == before.topic_id
        raised = after.partitions[0].leader_epoch - before.partitions[0].leader_epoch
        assert raised == (1 if kind == "kill" else 0)
        assert wire.ask(MetadataRequest(topics=[]), 12).cluster_id == cluster
        assert end_of(wire, "t") == 3
        retry = produce(wire, "t", sequence=2)
        assert (retry.error_code, retry.base_offset) == (0, 2), "a retry is a duplicate"
        assert produce(wire, "t", sequence=3).base_offset == 3
        assert produce(wire, "t", sequence=9).error_code == CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"]
        assert wire.ask(InitProducerIdRequest(), 4).producer_id > first_id
        assert committed(wire, "g", "t") == 2
        assert running.broker is not None
        assert running.broker.state is not None
        assert running.broker.state.partitions.find("t", 0).log.config.flush_messages == 7


def test_partitions_and_configs_of_a_single_broker_are_kept(tmp_path: Path) -> None:
    """A topic grows and is configured while it is in use; the next start knows both, and leads the
    partitions in the epochs that they had."""
    running = BrokerThread(tmp_path)
    with running, WireClient(running.bootstrap_servers) as wire:
        create(wire, "t", flush_messages="7")
        assert produce(wire, "t").base_offset == 0
        assert running.broker is not None
        assert running.broker.state is not None
        state = running.broker.state
        running.call(state.cluster.create_partitions("t", 3))
        running.call(state.cluster.alter_topic_configs("t", {"flush.messages": "9"}))
        assert [part.leader_id for part in described(wire, "t").partitions] == [0, 0, 0]
        for index in range(3):
            assert state.partitions.find("t", index).log.config.flush_messages == 9
        for name, count, code in (
            ("t", 3, "INVALID_PARTITIONS"),
            ("u", 3, "UNKNOWN_TOPIC_OR_PARTITION"),
        ):
            with pytest.raises(KafkaError, match=code):
                running.call(state.cluster.create_partitions(name, count))
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            running.call(state.cluster.alter_topic_configs("u", {}))
    with running, WireClient(running.bootstrap_servers) as wire:
        assert [part.leader_epoch for part in described(wire, "t").partitions] == [0, 0, 0]
        assert running.broker is not None
        assert running.broker.state is not None
        partitions = running.broker.state.partitions
        assert partitions.find("t", 2).log.config.flush_messages == 9


def commit(wire: WireClient, group: str, topic: str, offset: int) -> None:
    wire.ask(FindCoordinatorRequest(key=group), 0)
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[part])]
    code = CODES["COORDINATOR_LOAD_IN_PROGRESS"]
    while code == CODES["COORDINATOR_LOAD_IN_PROGRESS"]:
        answer = wire.ask(OffsetCommitRequest(group_id=group, topics=topics), 7)
        code = answer.topics[0].partitions[0].error_code
    assert code == 0


def committed(wire: WireClient, group: str, topic: str) -> int:
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    while True:
        answer = wire.ask(OffsetFetchRequest(group_id=group, topics=topics), 7)
        if answer.error_code != CODES["COORDINATOR_LOAD_IN_PROGRESS"]:
            return answer.topics[0].partitions[0].committed_offset


def test_a_broker_alone_knows_a_kill_from_a_power_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A single broker did not note the kernel's boot id. So after each kill -9, of which the page
    cache knows nothing, it warned that the machine had stopped and that records might be lost."""
    boots = {"first": "a" * 8, "second": "b" * 8}
    boot = {name: f"{part}-0000-4000-8000-000000000000" for name, part in boots.items()}
    now = ["first"]
    running = BrokerThread(tmp_path, boot_id=lambda: boot[now[0]])
    warned: list[bool] = []
    for life in ("first", "first", "second", "second"):
        now[0] = life
        caplog.clear()
        with running, WireClient(running.bootstrap_servers) as wire:
            described(wire, "t")
            warned.append("may lack what was written last" in caplog.text)
            running.kill()
    assert warned == [False, False, True, False]


def test_a_cut_log_is_detected_by_its_epochs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The flow: five records; the broker dies and a power failure takes the last two; it restarts
    and takes new ones. A reader that had read all five in epoch 0 must learn that epoch 0 ends at
    3, and not read on at 5 as if nothing had happened."""
    caplog.set_level(logging.INFO, "tallymark.broker")
    running = BrokerThread(tmp_path)
    with running, WireClient(running.bootstrap_servers) as wire:
        described(wire, "t")
        for _ in range(5):
            produce(wire, "t")
        running.kill()
    segment = tmp_path / "broker" / "t-0" / f"{0:020d}.log"
    size = segment.stat().st_size
    with segment.open("r+b") as file:
        file.truncate(size * 4 // 5 - 3)  # within the fourth record
    with running, WireClient(running.bootstrap_servers) as wire:
        assert end_of(wire, "t") == 3
        assert [produce(wire, "t").base_offset for _ in range(4)] == [3, 4, 5, 6]
        assert end_of_epoch(wire, "t", 0) == (0, 3)
        assert end_of_epoch(wire, "t", 1) == (1, 7)
        part = FetchRequestPartition(
            partition=0, fetch_offset=5, current_leader_epoch=0, partition_max_bytes=1000
        )
        topics = [FetchRequestTopic(topic="t", partitions=[part])]
        stale = wire.ask(FetchRequest(max_bytes=1000, topics=topics), 12)
        assert stale.responses[0].partitions[0].error_code == CODES["FENCED_LEADER_EPOCH"]
    cut = size // 5 - 3
    assert f"recovered t-0: truncated {cut} bytes" in caplog.text
    assert "leader epoch started partition=t-0 epoch=1 offset=3" in caplog.text


def test_a_deletion_is_finished_by_the_next_start(tmp_path: Path) -> None:
    """topics.json is the truth: a crash between its change and the removal of the files leaves
    files that belong to nothing."""
    running = BrokerThread(tmp_path)
    with running, WireClient(running.bootstrap_servers) as wire:
        described(wire, "doomed")
        described(wire, "kept")
    path = tmp_path / "broker" / "topics.json"
    stored = json.loads(path.read_text())
    del stored["topics"]["doomed"]
    path.write_text(json.dumps(stored))
    with running, WireClient(running.bootstrap_servers) as wire:
        assert described(wire, "doomed", create=False).error_code != 0
        assert described(wire, "kept", create=False).error_code == 0
        assert not (tmp_path / "broker" / "doomed-0").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not JSON"), ("[]", "is not a JSON object"), ('{"topics": 3}', "does not describe")],
)
def test_a_damaged_topics_file_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "topics.json").write_text(text)
    with pytest.raises(UserError, match=message):
        BrokerThread(tmp_path).start()


def test_a_lost_topics_file_deletes_nothing(tmp_path: Path) -> None:
    running = BrokerThread(tmp_path)
    with running, WireClient(running.bootstrap_servers) as wire:
        described(wire, "t")
        produce(wire, "t")
    (tmp_path / "broker" / "topics.json").unlink()
    with pytest.raises(UserError, match=r"topics\.json is missing"):
        running.start()
    assert (tmp_path / "broker" / "t-0").exists()


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}"):
            BrokerThread(tmp_path, port=port).start()
    with BrokerThread(tmp_path, port=0):  # the data folder was left unlocked and clean
        assert True


def test_a_folder_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with BrokerThread(tmp_path), pytest.raises(UserError, match="in use by broker 0"):
        BrokerThread(tmp_path).start()


def test_another_brokers_folder_is_refused(tmp_path: Path) -> None:
    with BrokerThread(tmp_path, node_id=1):
        pass
    with pytest.raises(UserError, match="is broker 1's, this is broker 2"):
        BrokerThread(tmp_path, node_id=2).start()


def test_an_impossible_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="no data directory can be used"):
        BrokerThread(tmp_path, log_dirs=(tmp_path / "file" / "data",)).start()


def test_zookeeper_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with pytest.raises(UserError, match="needs ZooKeeper"):
        BrokerThread(
            tmp_path,
            enable_zookeeper=True,
            zookeeper_connect=f"127.0.0.1:{port}/c",
            zookeeper_connection_timeout_ms=300,
        ).start()


def test_a_stop_answers_parked_fetches_and_leaves_nothing(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    running = BrokerThread(tmp_path).start()
    with WireClient(running.bootstrap_servers) as wire:
        described(wire, "t")
        part = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topics = [FetchRequestTopic(topic="t", partitions=[part])]
        wire.send(FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1000, topics=topics), 11)
        time.sleep(0.05)
        began = time.monotonic()
        running.stop()
        assert time.monotonic() - began < 40
        assert wire.frame()
        assert wire.closed_by_peer()
    assert set(threading.enumerate()) <= threads
    assert (tmp_path / "broker" / ".kafka_cleanshutdown").exists()
    running.stop()  # again is fine


def test_m_messages_or_s_milliseconds_flush(tmp_path: Path) -> None:
    quick: dict[str, Any] = {"log_flush_scheduler_interval_ms": 20}
    with (
        BrokerThread(tmp_path, **quick) as running,
        WireClient(running.bootstrap_servers) as wire,
    ):
        create(wire, "count", flush_messages="3", flush_ms="1000000")
        create(wire, "time", flush_ms="50")
        create(wire, "never", flush_ms="1000000")
        for name in ("count", "time", "never"):
            for _ in range(3):
                produce(wire, name)
        assert running.broker is not None
        state = running.broker.state
        assert state is not None
        logs = {name: state.partitions.find(name, 0).log for name in ("count", "time", "never")}
        eventually(lambda: logs["count"].recovery_point == logs["time"].recovery_point == 3)
        assert {name: log.recovery_point for name, log in logs.items()} == {
            "count": 3,
            "time": 3,
            "never": 0,
        }


def test_retention_deletes_old_segments(tmp_path: Path) -> None:
    with (
        BrokerThread(
            tmp_path,
            log_retention_check_interval_ms=30,
            log_flush_interval_messages=1,
        ) as running,
        WireClient(running.bootstrap_servers) as wire,
    ):
        create(wire, "old", segment_bytes="1024", retention_ms="1000")
        create(wire, "kept", segment_bytes="1024", retention_ms="-1")
        for name in ("old", "kept"):
            for _ in range(4):
                produce(wire, name, b"x" * 600)
        eventually(lambda: end_of(wire, "old", -2) >= 4)
        assert end_of(wire, "old", -2) == end_of(wire, "old") == 4
        assert end_of(wire, "kept", -2) == 0


def test_a_full_disk_is_an_error_in_the_answer(tmp_path: Path) -> None:
    """KAFKA_STORAGE_ERROR, and the broker goes on answering."""
    files = MemoryFiles()

    async def scenario() -> None:
        settings = BrokerSettings(log_dirs=(Path("/data"),), port=0, enable_zookeeper=False)
        broker = Broker(settings, Ports(files=files))
        await broker.start()
        try:
            await asyncio.to_thread(client, str(broker.address))
        finally:
            await broker.stop()

    def client(address: str) -> None:
        with WireClient(address) as wire:
            described(wire, "t")
            assert produce(wire, "t").base_offset == 0
            files.fail_next_write("t-0", written=10)
            assert produce(wire, "t").error_code == CODES["KAFKA_STORAGE_ERROR"]
            assert described(wire, "t").name == "t"

    asyncio.run(scenario())
