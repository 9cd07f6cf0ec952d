"""What one broker reads and changes of the cluster in ZooKeeper. All of it blocks."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tallymark.broker.metadata.assignment import grow, place
from tallymark.broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from tallymark.broker.metadata.leader_epoch import next_epoch
from tallymark.broker.metadata.port import LeadershipClaim
from tallymark.broker.metadata.topic_names import check_collision
from tallymark.broker.metadata.zookeeper_image import ImageReader
from tallymark.coordination import (
    Controller,
    ControllerElection,
    TopicAssignment,
    TopicWriter,
    Watch,
    ZooKeeper,
    paths,
)
from tallymark.coordination.cluster.raising import raise_features
from tallymark.coordination.session.errors import MalformedNodeError
from tallymark.coordination.topics.deleted import DeletedTopics
from tallymark.errors import CODES, KafkaError, TallymarkError, UserError
from tallymark.replication.features import all_raised
from tallymark.replication.model import NO_LEADER, PartitionState

log = logging.getLogger(__name__)


class NewTopic(NamedTuple):
    """A topic to be created; ``assignment`` names the brokers of each partition, None: they are
    spread, ``factor`` for each."""

    name: str
    partitions: int
    configs: Mapping[str, str]
    assignment: Sequence[Sequence[int]] | None
    factor: int


class ZooKeeperView:
    """One broker's view of the registries in ZooKeeper. Methods raise the registries' errors."""

    def __init__(self, zookeeper: ZooKeeper, node_id: int, now_ms: Callable[[], int]) -> None:
        self._zookeeper = zookeeper
        self._reader = ImageReader(zookeeper)
        self._topics = self._reader.topics
        self._changes = self._reader.changes
        self._writer = TopicWriter(zookeeper)
        self._deleted = DeletedTopics(zookeeper, node_id)
        self.election = ControllerElection(zookeeper, node_id, now_ms)
        self._controller: Controller | None = None
        self._node_id = node_id

    def read(self) -> MetadataImage:
        """The current image; topics that have not changed are the same objects as before."""
        return self._reader.read(self._controller.broker_id if self._controller else NO_LEADER)

    def check_identity(self, stored: str | None = None) -> str:
        """See :meth:`.ImageReader.check_identity`."""
        return self._reader.check_identity(stored)

    def read_in_office(self) -> MetadataImage:
        """Try to become controller, do the controller's work if elected, and read."""
        self.check_identity()
        controller = self.election.elect()
        if self._controller is None or self._controller.epoch != controller.epoch:
            log.info("controller broker=%d epoch=%d", controller.broker_id, controller.epoch)
        self._controller = controller
        if controller.fence is not None:
            self._changes.remove_old()
            for name in self._topics.deletions():
                try:
                    self._writer.delete(name, controller.fence)
                except (
                    KafkaError
                ) as error:  # not controller any more, or retried with the next image
                    log.warning("topic not removed name=%s: %s", name, error)
                except (UserError, MalformedNodeError, ValueError) as error:
                    self._topics.malformed.left_out(f"{paths.DELETE_TOPICS}/{name}", str(error))
                else:
                    log.info("topic removed by the controller name=%s", name)
        return self.read()

    def watch(self, callback: Callable[[], None], office: Callable[[], None]) -> list[Watch]:
        """Call ``callback`` after every change that needs a new image: of the live brokers, of
        topics, of levels of features, and of requests to delete (which only the controller
        handles). ``office`` is called when the controller changes."""
        watches = [self.election.watch(office), *self._reader.watch(callback)]
        watches.append(self._topics.watch_deletions(callback))
        return watches

    def watch_notes(self, callback: Callable[[], None]) -> tuple[Watch, Watch]:
        """See :meth:`.ImageReader.watch_notes`."""
        return self._reader.watch_notes(callback)

    def resign(self) -> None:
        """Stop being controller."""
        self.election.resign()

    # -- changing -----------------------------------------------------------------------------

    def create_topics(self, wanted: Sequence[NewTopic]) -> list[TallymarkError | None]:
        """Create topics, each spread over the brokers by the load that they have with those before.
        Returns the error of each: TOPIC_ALREADY_EXISTS, also while a topic of that name is being
        deleted, and those of the registries; None where it was created."""
        outcomes: list[TallymarkError | None] = []
        image = self.read()
        for one in wanted:
            try:
                if one.name not in image.topics:  # otherwise the writer raises the right error
                    check_collision(one.name, image)
                replicas = place(image, one.partitions, one.factor, one.assignment)
                image = image.with_topic(self._create(one, replicas))
            except KafkaError as error:
                outcomes.append(error)
            except TallymarkError as error:  # without ZooKeeper the others cannot be created either
                outcomes += [error] * (len(wanted) - len(outcomes))
                break
            else:
                outcomes.append(None)
        return outcomes

    def _create(self, wanted: NewTopic, replicas: Sequence[tuple[int, ...]]) -> TopicImage:
        topic_id, epoch = uuid.uuid4(), self._epoch_in_office
        assignment = dict(enumerate(replicas))
        self._writer.create(
            wanted.name, topic_id, assignment, wanted.configs, controller_epoch=epoch
        )
        partitions = tuple(PartitionImage.of(each[0], 0, each, each) for each in replicas)
        return TopicImage(wanted.name, topic_id, partitions, dict(wanted.configs))

    def create_partitions(
        self, name: str, count: int, assignment: Sequence[Sequence[int]] | None
    ) -> None:
        """Add partitions to the topic. UNKNOWN_TOPIC_OR_PARTITION, and the errors of ``grow``."""
        image = self.read()
        topic = image.topics.get(name)
        self._writer.grow(
            name,
            lambda there: grow(image, topic, there, count, assignment),
            self._epoch_in_office,
        )

    def alter_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace the topic's own configs. UNKNOWN_TOPIC_OR_PARTITION."""
        self._writer.configure(name, configs)

    def request_deletes(self, names: Sequence[str]) -> list[str]:
        """Ask the controller to delete the topics; returns the names that no topic has."""
        there = self._topics.get_many(names)
        self._topics.request_deletes([name for name in names if name in there])
        return [name for name in names if name not in there]

    def raise_features(self, levels: Mapping[str, int], validate_only: bool) -> None:
        """Raise features to these levels, all or none. INVALID_UPDATE_VERSION,
        FEATURE_UPDATE_FAILED."""
        try:
            raise_features(
                self._zookeeper,
                lambda found, brokers: all_raised(found, levels, brokers),
                validate_only=validate_only,
            )
        except MalformedNodeError as error:
            raise KafkaError(CODES["FEATURE_UPDATE_FAILED"], str(error)) from error
        if not validate_only:
            log.info("features raised levels=%s", dict(levels))

    def deleted_here(self) -> set[uuid.UUID]:
        """Deleted topics of which this broker may still have partitions."""
        return self._deleted.here()

    def forget_deleted(self, topic_ids: Iterable[uuid.UUID]) -> None:
        """This broker no longer has partitions of these topics."""
        self._deleted.forget(topic_ids)

    def lead(self, claims: Sequence[LeadershipClaim]) -> list[int | KafkaError]:
        """Become leader, by compare-and-set of the states whose epoch rises. The others stay as in
        the image: with one replica no other broker can lead a partition of ours, so they cannot
        have changed."""
        outcomes: dict[tuple[str, int], int | KafkaError] = {
            (claim.topic, claim.index): claim.told for claim in claims
        }
        rising = [c for c in claims if c.told != next_epoch(c.told, c.log_epoch, intact=c.intact)]
        if rising:
            outcomes |= self._raise_epochs(rising)
        return [outcomes[claim.topic, claim.index] for claim in claims]

    def _raise_epochs(
        self, claims: Sequence[LeadershipClaim]
    ) -> dict[tuple[str, int], int | KafkaError]:
        guard = self._writer.guard()
        parts: dict[str, dict[int, tuple[int, ...]]] = {}
        for claim in claims:
            parts.setdefault(claim.topic, {})[claim.index] = ()
        nil = uuid.UUID(int=0)
        states = self._topics.states([TopicAssignment(name, nil, p) for name, p in parts.items()])
        outcomes: dict[tuple[str, int], int | KafkaError] = {}
        raised: dict[tuple[str, int], PartitionState] = {}
        for claim in claims:
            key = (claim.topic, claim.index)
            state = states.get(key)
            if state is None or state.leader != self._node_id:
                outcomes[key] = _not_ours(key, "is another's to lead")
                continue
            epoch = next_epoch(state.leader_epoch, claim.log_epoch, intact=claim.intact)
            outcomes[key] = epoch
            raised[key] = replace(state, leader_epoch=epoch)
        for key, error in self._writer.put_states(raised, guard).items():
            outcomes[key] = _not_ours(key, str(error))
        return outcomes

    @property
    def _epoch_in_office(self) -> int:
        return self._controller.epoch if self._controller else 0


def _not_ours(key: tuple[str, int], why: str) -> KafkaError:
    return KafkaError(CODES["NOT_LEADER_OR_FOLLOWER"], f"{key[0]}-{key[1]}: {why}")
