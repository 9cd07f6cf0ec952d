"""A cluster of one broker that keeps its topics and producer ids in two files of its own.

::

    topics.json        {"cluster_id": "...", "topics": {name: {"id", "partitions", "configs"}}}
    producer-ids.json  {"next": n}     every id below n may have been given out

Each file is replaced as a whole (written to a temporary file, fsynced, renamed), so a crash leaves
the old or the new one. ``topics.json`` defines the topics; the folders of partitions are made to
match it.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final

from tallymark.broker.metadata.assignment import grow, place
from tallymark.broker.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from tallymark.broker.metadata.leader_epoch import next_epoch
from tallymark.broker.metadata.port import (
    LeadershipClaim,
    Membership,
    OnChange,
    StateOutcome,
    Targets,
)
from tallymark.broker.metadata.producer_ids import ProducerIds
from tallymark.broker.metadata.topic_names import check_collision
from tallymark.coordination.cluster.cluster_id import new_cluster_id
from tallymark.coordination.replicas.writing import Fate
from tallymark.errors import CODES, KafkaError, UserError
from tallymark.log.disk.files import Files, write_file
from tallymark.log.disk.partition_folder import parse_folder
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.replication.election import Kind
from tallymark.replication.features import TRANSACTION, Finalized
from tallymark.replication.model import ChangeState, PartitionState

TOPICS_FILE: Final = "topics.json"
PRODUCER_IDS_FILE: Final = "producer-ids.json"
PRODUCER_ID_BLOCK: Final = 1000
"""Ids taken at once: the rest of a block is lost at a restart, and there are 2^63 of them."""
_MOST_CHARACTERS: Final = 249
"""Of a name in an error: as many as that of a topic may have."""


class LocalCluster:
    """The :class:`~tallymark.broker.metadata.port.Cluster` for ``enable.zookeeper=false``.

    ``folder`` is the broker's first log dir; it must be locked by this process before
    :meth:`join`.
    """

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._topics_file = os.path.join(folder, TOPICS_FILE)
        self._ids_file = os.path.join(folder, PRODUCER_IDS_FILE)
        self._image = MetadataImage("")
        self._new = False
        self._changing = asyncio.Lock()
        self._block_end = 0
        self._ids = ProducerIds(self._take_ids)
        self._on_change: OnChange | None = None
        self._deleted: Set[uuid.UUID] = frozenset()

    async def cluster_id(self) -> str:
        """The id in ``topics.json``; a new id where there is no such file yet. UserError where
        there are partitions but no file: they must not be deleted as left over."""
        stored = await asyncio.to_thread(_read, self._files, self._topics_file)
        if stored is None:
            self._image = MetadataImage(_id_of_new_folder(self._files, self._topics_file))
        else:
            self._image = _image(stored, self._topics_file)
        self._new = stored is None
        return self._image.cluster_id

    async def join(
        self, me: BrokerImage, on_change: OnChange, membership: Membership | None = None
    ) -> None:
        """This broker leads everything and is its own controller; it has no broker epoch. Of the
        features those are in force, at their highest level, that need no other broker. It leads
        what a machine that stopped has left, too: no other broker has more."""
        if membership is not None:
            await asyncio.to_thread(membership.logs.remember_boot)
        alone = {name: levels for name, levels in me.features.items() if name == TRANSACTION}
        in_force = {name: levels.highest for name, levels in alone.items()}
        if self._new:
            await self._store(self._image)
        ids = await asyncio.to_thread(_read, self._files, self._ids_file)
        self._block_end = int((ids or {}).get("next", 0))
        topics = {name: _led_by(topic, me.node_id) for name, topic in self._image.topics.items()}
        self._on_change = on_change
        await self._publish(
            replace(
                self._image,
                controller_id=me.node_id,
                brokers={me.node_id: replace(me, features=alone)},
                topics=topics,
                features=Finalized(in_force, 0 if in_force else -1),
            )
        )

    async def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Sequence[Sequence[int]] | None = None,
        factor: int = 1,
    ) -> None:
        """See :class:`~tallymark.broker.metadata.port.Cluster`."""
        async with self._changing:
            image = self._image
            if name in image.topics:
                raise KafkaError(CODES["TOPIC_ALREADY_EXISTS"], name)
            check_collision(name, image)
            replicas = place(image, partitions, factor, assignment)
            changed = image.with_topic(
                TopicImage(name, uuid.uuid4(), _led(replicas), dict(configs))
            )
            await self._store(changed)
            await self._publish(changed)

    async def create_partitions(
        self, name: str, count: int, assignment: Sequence[Sequence[int]] | None = None
    ) -> None:
        """See :class:`~tallymark.broker.metadata.port.Cluster`."""
        async with self._changing:
            topic = self._topic(name)
            added = grow(self._image, topic, len(topic.partitions), count, assignment)
            grown = replace(topic, partitions=topic.partitions + _led(added))
            changed = self._image.with_topic(grown)
            await self._store(changed)
            await self._publish(changed)

    async def alter_topic_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """See :class:`~tallymark.broker.metadata.port.Cluster`."""
        async with self._changing:
            changed = self._image.with_topic(replace(self._topic(name), configs=dict(configs)))
            await self._store(changed)
            await self._publish(changed)

    async def delete_topics(self, names: Sequence[str]) -> Mapping[str, KafkaError]:
        """See :class:`~tallymark.broker.metadata.port.Cluster`."""
        async with self._changing:
            there = {name for name in names if name in self._image.topics}
            if there:
                changed = self._image.without_topics(there)
                await self._store(changed)
                self._deleted |= {self._image.topics[name].topic_id for name in there}
                await self._publish(changed)
        unknown = CODES["UNKNOWN_TOPIC_OR_PARTITION"]
        return {name: KafkaError(unknown, name) for name in names if name not in there}

    async def reassign(self, targets: Targets) -> Mapping[TopicPartition, KafkaError]:
        """There is no other broker."""
        code, why = CODES["INVALID_REPLICA_ASSIGNMENT"], "this broker is a cluster of its own"
        return {key: KafkaError(code, f"{key[0]}-{key[1]}: {why}") for key in targets}

    async def deleted_here(self) -> Set[uuid.UUID]:
        """Those of this run. At a start every log whose topic is not in ``topics.json`` is left
        over, and is deleted."""
        return self._deleted

    async def forget_deleted(self, topic_ids: Set[uuid.UUID]) -> None:
        """See :class:`~tallymark.broker.metadata.port.Cluster`."""
        self._deleted = self._deleted - topic_ids

    async def lead(self, claims: Sequence[LeadershipClaim]) -> Sequence[int]:
        """The logs store the epochs; a partition begins with epoch 0."""
        return [next_epoch(max(c.log_epoch, 0), c.log_epoch, intact=c.intact) for c in claims]

    async def write_states(self, changes: Sequence[ChangeState]) -> Sequence[StateOutcome]:
        """Refused: each partition has one replica, whose ISR does not change."""
        states = await self.read_states([change.partition for change in changes])
        return [
            StateOutcome(
                change,
                Fate.REFUSED,
                states.get(change.partition),
                {},
                "a broker without ZooKeeper has one replica of each partition",
            )
            for change in changes
        ]

    async def read_states(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionState]:
        """Those of the image."""
        topics = self._image.topics
        return {
            (name, index): topics[name].partitions[index].state
            for name, index in partitions
            if name in topics and index < len(topics[name].partitions)
        }

    async def elect_leaders(
        self, kind: Kind, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, KafkaError]:
        """There is no other broker."""
        return dict.fromkeys(
            partitions, KafkaError(CODES["ELECTION_NOT_NEEDED"], "there is one broker")
        )

    async def next_producer_id(self) -> int:
        """From a block whose end is on the disk before its first id is given out."""
        return await self._ids.next()

    async def _take_ids(self) -> range:
        begin, end = self._block_end, self._block_end + PRODUCER_ID_BLOCK
        async with self._changing:
            await self._write(self._ids_file, {"next": end})
        self._block_end = end
        return range(begin, end)

    async def update_features(self, levels: Mapping[str, int], validate_only: bool) -> None:
        """No feature is raised here: there are no other brokers."""
        raise KafkaError(
            CODES["INVALID_UPDATE_VERSION"],
            f"{_named(levels)}: a broker without ZooKeeper has no features to raise: it is a "
            "cluster of its own",
        )

    async def announce_leaving(self) -> bool:
        """There are no other brokers."""
        return False

    async def report_suspect(self, broker: int, epoch: int) -> None:
        """Nothing to do: there are no other brokers."""

    async def retire(self) -> None:
        """Nothing to do: there are no other brokers."""

    async def leave(self) -> None:
        """Nothing to do: there are no other brokers."""

    def _topic(self, name: str) -> TopicImage:
        try:
            return self._image.topics[name]
        except KeyError:
            raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], name) from None

    async def _store(self, image: MetadataImage) -> None:
        await self._write(self._topics_file, _stored(image))

    async def _write(self, path: str, value: dict[str, Any]) -> None:
        data = json.dumps(value, indent=1, sort_keys=True).encode()
        try:
            await asyncio.to_thread(write_file, self._files, path, data)
        except OSError as error:
            raise KafkaError(CODES["KAFKA_STORAGE_ERROR"], f"{path}: {error.strerror}") from error

    async def _publish(self, image: MetadataImage) -> None:
        self._image = image
        assert self._on_change is not None, "join() comes first"
        await self._on_change(image)


def _led_by(topic: TopicImage, node_id: int) -> TopicImage:
    return replace(topic, partitions=_led([(node_id,)] * len(topic.partitions)))


def _led(replicas: Sequence[tuple[int, ...]]) -> tuple[PartitionImage, ...]:
    return tuple(PartitionImage.of(r[0], 0, r, r) for r in replicas)


def _named(features: Iterable[str]) -> str:
    """The first names, whole ones; a request may have thousands, of any length."""
    first, *others = features
    more = f" and {len(others)} more" if others else ""
    return f"{first[:_MOST_CHARACTERS]}{more}"


def _stored(image: MetadataImage) -> dict[str, Any]:
    topics = {
        topic.name: {
            "id": str(topic.topic_id),
            "partitions": len(topic.partitions),
            "configs": dict(topic.configs),
        }
        for topic in image.topics.values()
    }
    return {"cluster_id": image.cluster_id, "topics": topics}


def _image(stored: dict[str, Any], path: str) -> MetadataImage:
    leaderless = PartitionImage.of(-1, 0, (), ())
    try:
        topics = {
            name: TopicImage(
                name,
                uuid.UUID(item["id"]),
                (leaderless,) * int(item["partitions"]),
                {str(key): str(value) for key, value in item["configs"].items()},
            )
            for name, item in stored["topics"].items()
        }
        return MetadataImage(str(stored["cluster_id"]), topics=topics)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{path} does not describe topics: {error!r}", "bring back a copy of it"
        ) from error


def _id_of_new_folder(files: Files, topics_file: str) -> str:
    """A new cluster id, or the id that an interrupted first start has stored."""
    folder = os.path.dirname(topics_file)
    names = files.listdir(folder) if files.exists(folder) else []
    if any(parse_folder(name) for name in names if files.is_dir(f"{folder}/{name}")):
        raise UserError(
            f"{topics_file} is missing, though there are partitions beside it",
            "bring back a copy of it, use another folder, or start with ZooKeeper where it is "
            "the folder of a broker of such a cluster",
        )
    meta = files.read(f"{folder}/meta.properties") if "meta.properties" in names else b""
    for line in meta.decode(errors="replace").splitlines():
        if line.startswith("cluster.id="):
            return line.removeprefix("cluster.id=").strip()
    return new_cluster_id()


def _read(files: Files, path: str) -> dict[str, Any] | None:
    if not files.exists(path):
        return None
    try:
        stored = json.loads(files.read(path))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}", "bring back a copy of it") from error
    if not isinstance(stored, dict):
        raise UserError(f"{path} is not a JSON object", "bring back a copy of it")
    return stored
