"""Assigns partitions to brokers, one replica each. Pure.

Every broker that creates a topic computes this from the state that it has just read, so that the
result is the same on all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallymark.errors import CODES, KafkaError
from tallymark.replication.placement import check_manual, spread


def place(
    partitions: int, load: Mapping[int, int], asked: Sequence[Sequence[int]] | None = None
) -> tuple[tuple[int, ...], ...]:
    """Replicas of each new partition: ``asked`` where the client assigns them, else spread.

    ``load`` has the number of partitions of every live broker. Raises as
    :func:`~tallymark.replication.placement.spread` and :func:`check_assignment`.
    """
    return spread(partitions, 1, load) if asked is None else check_assignment(asked, load)


def grow(
    there: int,
    count: int,
    load: Mapping[int, int],
    asked: Sequence[Sequence[int]] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Replicas of the partitions to add to a topic of ``there`` partitions so that it has
    ``count``.

    Raises INVALID_PARTITIONS unless it grows, INVALID_REPLICA_ASSIGNMENT where ``asked`` has
    another number of partitions, and the errors of :func:`place`.
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
    return place(count - there, load, asked)


def check_assignment(
    assignment: Sequence[Sequence[int]], brokers: Mapping[int, int]
) -> tuple[tuple[int, ...], ...]:
    """The assignment of a client, if it is possible: one live broker for each partition.

    Raises INVALID_REPLICATION_FACTOR for more than one replica, INVALID_REPLICA_ASSIGNMENT for a
    broker that is not alive or a partition without a broker.
    """
    if any(len(replicas) > 1 for replicas in assignment):
        raise KafkaError(CODES["INVALID_REPLICATION_FACTOR"], "partitions have one replica each")
    return check_manual(assignment, brokers)
