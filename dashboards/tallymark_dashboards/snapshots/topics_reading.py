"""Topics of one cluster, and the ends of their logs, asked by our own client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from tallymark.client.admin.admin import Admin
from tallymark.client.admin.configs import ConfigResource, Configs
from tallymark.client.admin.topics import TopicDescription
from tallymark.errors import KafkaError
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition
from tallymark_dashboards.snapshots.group_book import Ends
from tallymark_dashboards.snapshots.rhythm import Turns
from tallymark_dashboards.snapshots.shapes import PartitionState, TopicState

MAX_TOPICS: Final = 10_000
_AT_ONCE: Final = 500
"""Partitions in one request."""
_READ_BY_GROUPS: Final = 5_000
"""Partitions that groups read, asked for in one look; then in turns."""
_OTHERS: Final = 2_000
_MIN_INSYNC: Final = "min.insync.replicas"


class Logs:
    """The ends of logs as they were read last."""

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, Ends] = {}
        self._read_by_groups = Turns(_READ_BY_GROUPS)
        self._others = Turns(_OTHERS)

    def read(
        self,
        admin: Admin,
        topics: Mapping[str, TopicDescription],
        of_groups: Collection[TopicPartition],
        now: Callable[[], int],
        breathe: Callable[[], None],
    ) -> None:
        """Ask for the ends of those that groups read, and for a part of all others. Those without a
        leader are not asked for."""
        led = {
            (name, part.partition)
            for name, topic in topics.items()
            for part in topic.partitions
            if part.leader >= 0
        }
        there = {(name, part.partition) for name, one in topics.items() for part in one.partitions}
        for gone in [at for at in self.ends if at not in there]:
            del self.ends[gone]
        first = self._read_by_groups.take(sorted(led.intersection(of_groups)))
        others = self._others.take(sorted(led.difference(of_groups)))
        for some in _portions([*first, *others], _AT_ONCE):
            starts = admin.list_offsets(dict.fromkeys(some, EARLIEST)).done
            latest = dict.fromkeys(some, LATEST)
            stable = admin.list_offsets(latest, isolation="read_committed").done
            ends = admin.list_offsets(latest).done
            at = now()
            for place in some:
                if place in starts and place in ends:
                    start, end = starts[place].offset or 0, ends[place].offset or 0
                    readable = stable[place].offset if place in stable else None
                    self.ends[place] = Ends(min(start, end), end, at, readable)
            breathe()


class Minimums:
    """min.insync.replicas of the topics with a replica out of sync. The other topics are not
    asked for."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self._turns = Turns(_AT_ONCE)

    def read(self, admin: Admin, topics: Mapping[str, TopicDescription]) -> None:
        """Ask for them, for so many in one look. A cluster that refuses is no error: then they are
        not known."""
        short = [
            name
            for name, one in sorted(topics.items())
            if any(part.under_replicated for part in one.partitions)
        ]
        self.known = {name: self.known[name] for name in short if name in self.known}
        asked = [ConfigResource("topic", name) for name in self._turns.take(short)]
        if not asked:
            return
        answers: Mapping[ConfigResource, Configs] = {}
        with suppress(KafkaError):
            answers = admin.describe_configs(asked, names=[_MIN_INSYNC]).done
        for resource, configs in answers.items():
            entry = configs.get(_MIN_INSYNC)
            if entry is not None and (entry.value or "").isdecimal():
                self.known[resource.name] = int(entry.value or "")


def topic_states(
    topics: Mapping[str, TopicDescription],
    ends: Mapping[TopicPartition, Ends],
    minimums: Mapping[str, int],
    breathe: Callable[[], None],
) -> dict[str, TopicState]:
    """The topics with the ends of their logs, and min.insync.replicas where it is known."""
    found: dict[str, TopicState] = {}
    for some in _portions(sorted(topics), _AT_ONCE):
        for name in some:
            found[name] = _state(topics[name], ends, minimums.get(name))
        breathe()
    return found


def _state(
    topic: TopicDescription, ends: Mapping[TopicPartition, Ends], least: int | None
) -> TopicState:
    known = [ends.get((topic.name, part.partition)) for part in topic.partitions]
    parts = tuple(
        PartitionState(
            part.partition,
            part.leader,
            part.replicas,
            part.isr,
            None if found is None else found.start,
            None if found is None else found.end,
            part.offline,
        )
        for part, found in zip(topic.partitions, known, strict=True)
    )
    read_at = min((found.at for found in known if found is not None), default=0)
    return TopicState(topic.name, topic.internal, parts, read_at, least)


def first_ones(
    topics: Mapping[str, TopicDescription], most: int = MAX_TOPICS
) -> tuple[dict[str, TopicDescription], int]:
    """The first topics by name, and how many were left out."""
    names = sorted(topics)
    return {name: topics[name] for name in names[:most]}, max(0, len(names) - most)


def _portions(every: Sequence[str] | Sequence[TopicPartition], size: int) -> Iterable[list]:  # type: ignore[type-arg]
    for first in range(0, len(every), size):
        yield list(every[first : first + size])
