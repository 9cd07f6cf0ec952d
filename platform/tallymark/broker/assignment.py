"""Which broker gets which partition of a new topic. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tallymark.errors import CODES, KafkaError


def assign(partitions: int, brokers: Sequence[int], already: int) -> tuple[tuple[int, ...], ...]:
    """Replicas of each partition: one each, round robin over the live brokers.

    ``already`` is the number of topics there are; it moves the start, so that many topics of one
    partition do not all go to the first broker. Raises BROKER_NOT_AVAILABLE without brokers.
    """
    if not brokers:
        raise KafkaError(CODES["BROKER_NOT_AVAILABLE"], "no broker is registered")
    ordered = sorted(brokers)
    return tuple((ordered[(already + index) % len(ordered)],) for index in range(partitions))


def check_assignment(
    assignment: Sequence[Sequence[int]], brokers: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """The assignment a client asks for, if it is possible: one live broker a partition.

    Raises INVALID_REPLICATION_FACTOR for more than one replica, INVALID_REPLICA_ASSIGNMENT for a
    broker that is not there or a partition without one.
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
