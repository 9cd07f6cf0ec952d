"""The table of partitions: what is led here and what is followed here."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import cast

import pytest

from tallymark.broker.maintenance.housekeeping import Housekeeper
from tallymark.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from tallymark.broker.partitions.partition import Partition
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.errors import KafkaError
from tallymark.log import LogConfig, LogManager
from tallymark.protocol.records.batch import encode_batch
from tallymark.replication.model import Assignment, PartitionState
from tallymark.testing.memory_files import MemoryFiles

TOPIC_ID = uuid.UUID(int=1)


def manager() -> LogManager:
    files = MemoryFiles()
    files.make_dirs("/d")
    files.sync_dir("/")
    return LogManager.open(files, ["/d"], LogConfig(), broker_id=0, now_ms=0, cluster_id="c")


def partition(logs: LogManager, index: int, epoch: int = 0) -> Partition:
    return Partition("orders", index, TOPIC_ID, logs.create("orders", index, TOPIC_ID, 0), epoch)


def table(*, led: tuple[int, ...] = (), followed: tuple[int, ...] = ()) -> Partitions:
    logs, found = manager(), Partitions()
    count = max((*led, *followed), default=0) + 1
    state, assigned = PartitionState(1, 7, (0, 1)), Assignment((0, 1))
    images = tuple(PartitionImage(state, assigned) for _ in range(count))
    topic = TopicImage("orders", TOPIC_ID, images, {})
    found.image = MetadataImage("c", topics={"orders": topic})
    for index in led:
        found.add(partition(logs, index))
    for index in followed:
        found.hold(partition(logs, index))
    return found


def code_of(found: Partitions, index: int) -> str:
    with pytest.raises(KafkaError) as caught:
        found.find("orders", index)
    return caught.value.name


def test_clients_reach_what_is_led_and_upkeep_goes_over_all() -> None:
    found = table(led=(0, 2), followed=(1,))
    assert sorted(each.index for each in found) == [0, 1, 2]
    assert len(found) == 3
    assert [each.index for each in found.led()] == [0, 2]
    assert found.find("orders", 2).index == 2
    assert code_of(found, 1) == "NOT_LEADER_OR_FOLLOWER"
    assert found.get("orders", 1) is None
    held = found.held("orders", 1)
    assert held is not None
    assert found.is_held(held)
    assert found.held("orders", 3) is None


def test_the_epoch_of_a_follower_is_not_told_as_the_leaders() -> None:
    """The image names a leader with its epoch; this broker's own epoch may be of another leader."""
    found = table(led=(0,), followed=(1,))
    assert found.epoch_of("orders", 0, 7) == 0
    assert found.epoch_of("orders", 1, 7) == 7


@pytest.mark.parametrize("leads_next", [True, False])
def test_a_change_of_role_replaces_the_partition(leads_next: bool) -> None:
    """The old object may be removed after the new one was put in its place: the new one stays."""
    found = table(led=() if leads_next else (0,), followed=(0,) if leads_next else ())
    (before,) = found
    after = Partition("orders", 0, TOPIC_ID, before.log, 1)
    (found.add if leads_next else found.hold)(after)
    assert list(found) == [after]
    assert not found.is_held(before)
    found.remove(before)
    assert list(found) == [after]
    assert (found.get("orders", 0) is after) is leads_next
    found.remove(after)
    assert len(found) == 0


def test_a_follower_on_a_failed_disk_takes_no_leader_from_clients() -> None:
    """The disk is this broker's; the leader of the partition is another one, and it lives."""
    found = table(led=(0,), followed=(1,))
    for index, led in ((0, True), (1, False)):
        found.remove(cast(Partition, found.held("orders", index)))
        found.set_offline("orders", index, "the disk is gone", led=led)
    assert code_of(found, 0) == "KAFKA_STORAGE_ERROR"
    assert code_of(found, 1) == "NOT_LEADER_OR_FOLLOWER"
    assert found.is_offline("orders", 0)
    assert not found.is_offline("orders", 1)
    assert found.offline() == [("orders", 0), ("orders", 1)]
    found.hold(partition(manager(), 1))
    assert found.offline() == [("orders", 0)]


def test_the_high_watermark_of_a_follower_is_written_at_a_stop() -> None:
    """A broker whose followers forgot theirs would have to wait for its leaders before anybody
    could read from it, or be elected with a high watermark of 0."""
    logs, found = manager(), Partitions()
    copy = partition(logs, 0)
    found.hold(copy)
    data = bytearray(encode_batch([(None, b"value", (), 0)]))
    copy.begin_replicated(0)
    copy.log.append_leaders(bytes(data), 0, 0)
    copy.commit(1)

    async def stop() -> None:
        settings = BrokerSettings(log_dirs=(Path("/d"),), enable_zookeeper=False)
        await Housekeeper(found, logs, settings, lambda: 0).stop()

    asyncio.run(stop())
    assert logs.high_watermarks.of("orders", 0) == 1
