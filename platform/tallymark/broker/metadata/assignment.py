"""Assigns new partitions to brokers. Pure.

Every broker that creates a topic computes this from the state that it has just read, so that the
result is the same on all of them. More than one replica needs level 1 of ``replication.version``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.broker.metadata.image import MetadataImage, TopicImage
from tallymark.errors import CODES, KafkaError
from tallymark.replication.features import check_factor
from tallymark.replication.placement import check_manual, spread


def place(
    image: MetadataImage,
    partitions: int,
    factor: int = 1,
    asked: Sequence[Sequence[int]] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Replicas of each partition of a new topic: ``asked`` where the client assigns them, else
    ``factor`` brokers each, spread over brokers and racks.

    Raises as :func:`~tallymark.replication.placement.spread` and
    :func:`~tallymark.replication.placement.check_manual`; INVALID_REPLICATION_FACTOR for more than
    one replica in a cluster that is not at the level for it.
    """
    most = factor if asked is None else max((len(each) for each in asked), default=1)
    check_factor(most, image.features, image.supports)
    if asked is None:
        return spread(partitions, factor, image.load(), image.racks, image.unsteady)
    return check_manual(asked, image.brokers)


def grow(
    image: MetadataImage,
    topic: TopicImage | None,
    there: int,
    count: int,
    asked: Sequence[Sequence[int]] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Replicas of the partitions to add to a topic of ``there`` partitions so that it has
    ``count``: as many replicas as its first partition has in ``topic``.

    Raises INVALID_PARTITIONS unless it grows, INVALID_REPLICA_ASSIGNMENT where ``asked`` has
    another number of partitions or replicas, and the errors of :func:`place`.
    """
    if count <= there:
        raise KafkaError(
            CODES["INVALID_PARTITIONS"], f"{count} partitions are asked for, there are {there}"
        )
    if asked is not None and len(asked) != count - there:
        raise KafkaError(
            CODES["INVALID_REPLICA_ASSIGNMENT"],
            f"{len(asked)} partitions are placed, {count - there} are new",
        )
    factor = 1 if topic is None else topic.factor
    placed = place(image, count - there, factor, asked)
    return placed if asked is None else check_manual(asked, image.brokers, factor)
