"""Assigns partitions to brokers. Pure.

Every broker that creates a topic computes this from the state that it has just read, so that the
result is the same on all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallymark.errors import CODES, KafkaError


def place(
    partitions: int, load: Mapping[int, int], asked: Sequence[Sequence[int]] | None = None
) -> tuple[tuple[int, ...], ...]:
    """Replicas of each new partition: ``asked`` where the client assigns them, else spread.

    ``load`` has the number of partitions of every live broker. Raises as :func:`spread` and
    :func:`check_assignment`.
    """
    return spread(partitions, load) if asked is None else check_assignment(asked, load)


def spread(partitions: int, load: Mapping[int, int]) -> tuple[tuple[int, ...], ...]:
    """One replica each, round robin over the live brokers, those with the fewest partitions first.

    A topic is spread evenly whatever the load is, since topics differ in traffic; the remainder
    (and the many topics of one partition) goes to the brokers with the fewest partitions. Raises
    BROKER_NOT_AVAILABLE without brokers.
    """
    if not load:
        raise KafkaError(CODES["BROKER_NOT_AVAILABLE"], "no broker is registered")
    ordered = sorted(load, key=lambda broker: (load[broker], broker))
    return tuple((ordered[index % len(ordered)],) for index in range(partitions))


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
    for index, replicas in enumerate(assignment):
        if len(replicas) > 1:
            raise KafkaError(
                CODES["INVALID_REPLICATION_FACTOR"], "partitions have one replica each"
            )
        if not replicas or replicas[0] not in brokers:
            raise KafkaError(
                CODES["INVALID_REPLICA_ASSIGNMENT"],
                f"partition {index} on {list(replicas)}, the live brokers are {sorted(brokers)}",
            )
    return tuple(tuple(replicas) for replicas in assignment)
