"""Offsets of a stream, and how far a micro-batch goes: pure.

Spark keeps offsets as JSON in the checkpoint; here they have the form that Spark's own Kafka source
writes, ``{"topic": {"0": 23}}``: of each partition the offset of the next record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallymark.errors import UserError
from tallymark_spark_jobs.source.planning import Span

Partition = tuple[str, int]
Offsets = dict[Partition, int]


@dataclass(frozen=True, slots=True)
class Log:
    """What a broker says of a partition: its first offset, the one behind its last record, the
    topic's id ("": not known) and the leader's epoch (-1: not known)."""

    earliest: int
    latest: int
    topic_id: str
    leader_epoch: int = -1


def to_json(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """For Spark; sorted, so that equal offsets are equal texts."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(told: Mapping[str, Any]) -> Offsets:
    """Raises UserError where this is not what :func:`to_json` gives."""
    try:
        return {
            (topic, int(partition)): int(offset)
            for topic, partitions in told.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise UserError(
            f"the checkpoint has offsets that are not of this source: {str(told)[:200]}",
            "another source wrote it: give this query a checkpoint of its own",
        ) from None


def check(start: Offsets, logs: Mapping[Partition, Log], ids: Mapping[str, str]) -> None:
    """Raises UserError where a topic that was read up to ``start`` is gone, is another one now, or
    its log was cut behind what was read. ``ids``: the topics' ids as they were before."""
    for (topic, partition), offset in sorted(start.items()):
        where = f"{topic}-{partition}"
        log = logs.get((topic, partition))
        if log is None:
            raise UserError(
                f"{where} is gone, read up to offset {offset}",
                "stop the query; failOnDataLoss=false goes on without it",
            )
        known = ids.get(topic, "")
        if known and log.topic_id and known != log.topic_id:
            raise UserError(
                f"the topic {topic} was deleted and made anew: its id was {known} and is "
                f"{log.topic_id}; {where} was read up to offset {offset}",
                "give the new topic a new checkpoint; failOnDataLoss=false reads on by offset",
            )
        if log.latest < offset:
            raise UserError(
                f"{where} ends at {log.latest} and was read up to {offset}: its log was cut",
                "see what happened to it; failOnDataLoss=false reads on from the new end",
            )


def limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """So far that no more than ``most`` offsets are between, each partition by its share, so that
    all of them come to their ends at about the same time. Every partition that has something gets
    an offset at least, if there are so many."""
    behind = {
        partition: offset - start.get(partition, 0)
        for partition, offset in end.items()
        if offset > start.get(partition, 0)
    }
    total = sum(behind.values())
    if total <= most:
        return end
    chosen = sorted(behind, key=lambda partition: (-behind[partition], partition))[:most]
    first = len(chosen)
    rest, others = most - first, sum(behind[partition] for partition in chosen) - first
    moved = {
        partition: 1 + (rest * (behind[partition] - 1) // others if others else 0)
        for partition in chosen
    }
    return {
        partition: start.get(partition, 0) + moved.get(partition, 0)
        if partition in behind
        else offset
        for partition, offset in end.items()
    }


def spans(
    start: Offsets, end: Offsets, logs: Mapping[Partition, Log], fails: bool, says: str
) -> list[Span]:
    """What lies between, not split. A partition that is new since begins at its first offset, 0.

    Raises UserError, if ``fails``, where the brokers do not have all of it any more; else what they
    have is read. ``says``: what to do where the beginning is gone.
    """
    found: list[Span] = []
    for (topic, partition), stop in sorted(end.items()):
        first = start.get((topic, partition), 0)
        log = logs.get((topic, partition), Log(0, 0, ""))
        if fails and stop > first and not (log.earliest <= first and stop <= log.latest):
            raise UserError(
                f"{topic}-{partition} holds the offsets {log.earliest} to {log.latest}, and the "
                f"stream needs {first} to {stop}: retention has deleted them, or the log was cut",
                says,
            )
        if not fails:
            # A log that was cut, or made anew, is read from its beginning.
            first = max(first if first <= stop else 0, log.earliest)
            stop = min(stop, log.latest)
        if stop > first:
            found.append(Span(topic, partition, first, stop, log.topic_id, log.leader_epoch))
    return found


def backlog(start: Offsets, end: Offsets) -> int:
    """How many offsets lie between."""
    return sum(max(0, offset - start.get(partition, 0)) for partition, offset in end.items())


def begun(where: Partition, log: Log, first: Offsets, ids: Mapping[str, str]) -> int:
    """Where a stream that began at ``first`` began with this partition. A partition that its topic
    was given later begins at 0. -1: nothing is known, since the topic came later."""
    if where[0] not in {topic for topic, _ in first} or ids.get(where[0]) != log.topic_id:
        return -1
    return first.get(where, 0)
