"""What a broker does with pictures of the cluster, against a model: random topics that come, grow,
change, go and come again, with clean stops, kills and power failures in between."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

import pytest

from tallymark.broker.groups.shards import GroupShards
from tallymark.broker.leadership.apply_image import Leadership
from tallymark.broker.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tallymark.broker.metadata.leader_epoch import next_epoch
from tallymark.broker.metadata.port import LeadershipClaim
from tallymark.broker.partitions.table import Partitions
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.settings.listeners import Endpoint
from tallymark.errors import KafkaError
from tallymark.log import LogConfig, LogManager
from tallymark.protocol.records.batch import encode_batch
from tallymark.testing.memory_files import MemoryFiles

ME = 0
SETTINGS = BrokerSettings(node_id=ME)
BROKERS = {n: BrokerImage(n, {"PLAINTEXT": Endpoint("h", 9092 + n)}) for n in range(3)}


class Told:
    """The cluster's truth about leader epochs; survives whatever happens to the broker."""

    def __init__(self) -> None:
        self.epochs: dict[tuple[str, int], int] = {}
        self.deleted: set[uuid.UUID] = set()

    async def deleted_here(self) -> set[uuid.UUID]:
        return set(self.deleted)

    async def forget_deleted(self, topic_ids: Set[uuid.UUID]) -> None:
        self.deleted -= topic_ids

    async def lead(self, claims: Sequence[LeadershipClaim]) -> list[int | KafkaError]:
        for claim in claims:
            told = self.epochs.setdefault((claim.topic, claim.index), 0)
            epoch = next_epoch(told, claim.log_epoch, intact=claim.intact)
            self.epochs[claim.topic, claim.index] = epoch
        return [self.epochs[claim.topic, claim.index] for claim in claims]


class World:
    """One broker under pictures. ``seen`` is every record that a reader may have read: what the
    record at an offset in an epoch was must never change."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.files = MemoryFiles()
        self.told = Told()
        self.image = MetadataImage("c", ME, BROKERS)
        self.seen: dict[tuple[uuid.UUID, int, int, int], bytes] = {}
        self.wrote = 0
        self.start()

    def start(self, *, check: bool = True) -> None:
        self.manager = LogManager.open(
            self.files, ["/a", "/b"], LogConfig(), broker_id=ME, now_ms=0, cluster_id="c"
        )
        self.partitions = Partitions()
        cluster: Any = self.told
        self.leadership = Leadership(
            SETTINGS,
            cluster,
            self.manager,
            self.partitions,
            GroupShards(SETTINGS, lambda: 0),
            lambda: 0,
            lambda partition: None,
        )
        self.apply(self.image, check=check)

    def apply(self, image: MetadataImage, *, check: bool = True) -> None:
        self.told.deleted |= set(self.image.names_by_id) - set(image.names_by_id)
        self.image = image
        asyncio.run(self.leadership.apply(image))
        if check:
            self.check()

    def check(self) -> None:
        """Exactly what the picture says is led, by the right topic, with its configs."""
        wanted = {(topic.name, index): topic for topic, index, _ in self.image.led_by(ME)}
        led = {(p.topic, p.index): p for p in self.partitions}
        assert led.keys() == wanted.keys()
        assert {tuple(key) for key in self.manager} == set(wanted)
        for key, partition in led.items():
            assert partition.topic_id == wanted[key].topic_id
            assert self.manager.topic_id(*key) == partition.topic_id
            configs = wanted[key].configs
            assert partition.log.config.flush_messages == int(configs["flush.messages"])
            assert partition.leader_epoch == self.told.epochs[key]
        assert self.partitions.image is self.image

    def write(self) -> None:
        """Records into some partitions; a reader reads each at once, some are flushed."""
        for partition in self.partitions:
            if self.random.random() < 0.5:
                continue
            self.wrote += 1
            value = b"%d" % self.wrote
            at = partition.append(bytearray(encode_batch([(None, value, (), 1)])), 0).first_offset
            key = (partition.topic_id, partition.index, at, partition.leader_epoch)
            assert self.seen.setdefault(key, value) == value, "a reader could not tell the cut"
            if self.random.random() < 0.3:
                partition.log.flush()

    def new(self) -> TopicImage:
        name = f"t{self.random.randrange(4)}"
        for key in [key for key in self.told.epochs if key[0] == name]:
            del self.told.epochs[key]
        return TopicImage(name, uuid.uuid4(), self.parts(self.random.randint(1, 3)), self.configs())

    def parts(self, count: int) -> tuple[PartitionImage, ...]:
        leaders = [self.random.randrange(3) for _ in range(count)]
        return tuple(PartitionImage.of(leader, 0, (leader,), (leader,)) for leader in leaders)

    def configs(self) -> dict[str, str]:
        return {"flush.messages": str(self.random.randint(1, 9))}

    def step(self) -> None:
        topics = list(self.image.topics.values())
        some = self.random.choice(topics) if topics else None
        match self.random.randrange(8):
            case 0 | 1:  # new, or again under an old name
                self.apply(self.image.with_topic(self.new()))
            case 2 if some:
                self.apply(self.image.without_topic(some.name))
            case 3 if some:
                grown = replace(some, partitions=some.partitions + self.parts(2))
                self.apply(self.image.with_topic(grown))
            case 4 if some:
                self.apply(self.image.with_topic(replace(some, configs=self.configs())))
            case 5:
                self.manager.close()
                self.start()
            case 6:
                self.files.kill()
                self.start()
            case 7:
                self.files.lose_unsynced(lambda path, size: self.random.randint(0, size))
                self.start()
            case _:
                self.apply(self.image)


@pytest.mark.parametrize("seed", range(6))
def test_a_broker_fits_every_picture(seed: int) -> None:
    world = World(seed)
    for _ in range(30):
        world.step()
        world.write()


def test_commits_on_a_deleted_topic_go_before_anybody_can_commit_on_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They went after the files, which takes a while, and never where a file would not go: a topic
    created again under the name was in force by then, and commits on it went too."""
    world = World(0)
    ours = (PartitionImage.of(ME, 0, (ME,), (ME,)),)
    old, new = (TopicImage("t", uuid.uuid4(), ours, {"flush.messages": "1"}) for _ in range(2))
    world.apply(world.image.with_topic(old))
    forgotten: list[str] = []
    monkeypatch.setattr(GroupShards, "forget_topic", lambda self, name: forgotten.append(name))

    def stuck(keys: Sequence[object]) -> None:
        assert forgotten == ["t"]
        raise OSError("a file does not go")

    monkeypatch.setattr(world.leadership._opener, "delete", stuck)
    with pytest.raises(OSError, match="does not go"):
        world.apply(world.image.with_topic(new))
    assert forgotten == ["t"]


def test_a_lost_log_is_a_new_epoch() -> None:
    """Its disk was exchanged: what readers had read in the old epoch is gone."""
    world = World(0)
    topic = TopicImage(
        "t", uuid.uuid4(), (PartitionImage.of(ME, 0, (ME,), (ME,)),), {"flush.messages": "1"}
    )
    world.apply(world.image.with_topic(topic))
    assert world.told.epochs == {("t", 0): 0}
    world.manager.delete("t", 0)
    world.manager.close()
    world.start()
    assert world.told.epochs == {("t", 0): 1}


def test_a_partition_on_a_disk_that_is_away_is_not_begun_anew_on_another() -> None:
    """The flow: one of two disks does not come up. Empty logs on the other would take its place,
    consumers would start again at 0, and with the disk back there would be two of each."""
    world = World(0)
    ours = PartitionImage.of(ME, 0, (ME,), (ME,))
    topic = TopicImage("t", uuid.uuid4(), (ours, ours), {"flush.messages": "1"})
    world.apply(world.image.with_topic(topic))
    world.manager.close()
    world.files.break_disk("/a")
    world.start(check=False)
    assert len(world.partitions) == 1
    assert [key[0] for key in world.partitions.offline()] == ["t"]
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        world.partitions.find(*world.partitions.offline()[0])
    # A partition that is new may use the disk that works.
    grown = replace(topic, partitions=(ours, ours, ours))
    world.apply(world.image.with_topic(grown), check=False)
    assert world.partitions.get("t", 2) is not None


def test_logs_of_topics_deleted_while_the_broker_was_away_go_and_no_others() -> None:
    """A broker was down while a topic was deleted. Its log stayed on the disk for good: nothing
    told such a topic from one that ZooKeeper had lost."""
    world = World(0)
    ours = PartitionImage.of(ME, 0, (ME,), (ME,))
    kept, gone, lost, again = (
        TopicImage(name, uuid.uuid4(), (ours,), {"flush.messages": "1"})
        for name in ("kept", "gone", "lost", "again")
    )
    for topic in (kept, gone, lost, again):
        world.apply(world.image.with_topic(topic))
    world.manager.close()
    world.told.deleted = {gone.topic_id, again.topic_id}
    elsewhere = PartitionImage.of(1, 0, (1,), (1,))
    world.image = replace(
        world.image,
        topics={
            "kept": kept,
            "again": replace(again, topic_id=uuid.uuid4(), partitions=(elsewhere,)),
        },
    )
    world.start(check=False)
    asyncio.run(world.leadership.sweep_strays(delete=False))
    assert sorted(key.topic for key in world.manager) == ["kept", "lost"]
    assert world.told.deleted == set()


def test_what_vanishes_from_zookeeper_without_a_deletion_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ZooKeeper's nodes were removed one by one while the brokers ran (``deleteall``): the list of
    topics went before the cluster's id, and brokers that read in between deleted their logs."""
    world = World(0)
    ours = (PartitionImage.of(ME, 0, (ME,), (ME,)),)
    lost, gone = (TopicImage(n, uuid.uuid4(), ours, {"flush.messages": "1"}) for n in ("l", "g"))
    for topic in (lost, gone):
        world.apply(world.image.with_topic(topic))
    forgotten: list[str] = []
    monkeypatch.setattr(GroupShards, "forget_topic", lambda self, name: forgotten.append(name))
    world.told.deleted = {gone.topic_id}
    asyncio.run(world.leadership.apply(replace(world.image, topics={})))
    assert [key.topic for key in world.manager] == ["l"]
    assert forgotten == ["g"], "offsets of groups stay with the log"
    assert world.told.deleted == set()
    world.apply(world.image.without_topic("g"))
    assert [key.topic for key in world.manager] == ["l"], "it goes on with ZooKeeper's data back"


def test_a_list_of_deleted_topics_is_kept_while_a_disk_is_away() -> None:
    world = World(0)
    ours = PartitionImage.of(ME, 0, (ME,), (ME,))
    topic = TopicImage("gone", uuid.uuid4(), (ours, ours), {"flush.messages": "1"})
    world.apply(world.image.with_topic(topic))
    world.manager.close()
    world.told.deleted = {topic.topic_id}
    world.image = world.image.without_topic("gone")
    world.files.break_disk("/a")
    world.start(check=False)
    asyncio.run(world.leadership.sweep_strays(delete=False))
    assert len(world.manager) == 0
    assert world.told.deleted == {topic.topic_id}
