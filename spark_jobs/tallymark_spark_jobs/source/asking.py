"""What the driver asks the brokers, once: topics and their ids, the ends of all logs, and where
times begin. Many partitions go into one request to each broker."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tallymark.client import Admin, SimpleConsumer, TopicInfo
from tallymark.client.admin.offsets import ListedOffset
from tallymark.errors import UserError
from tallymark.protocol.schema import ZERO_UUID
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition
from tallymark_spark_jobs.engine.files import located
from tallymark_spark_jobs.source.lateness import late_offsets
from tallymark_spark_jobs.source.option_values import Times
from tallymark_spark_jobs.source.options import Isolation, SourceOptions
from tallymark_spark_jobs.source.planning import LogBounds

CLIENT: Final = "tallymark-spark"
Offsets = Mapping[TopicPartition, int | None]


def isolation_of(options: SourceOptions) -> Isolation:
    """Counting needs the aborted records too, marked; those of an open transaction are not there
    yet."""
    return options.isolation if options.mode == "records" else "read_committed"


def bounds_of(options: SourceOptions) -> list[LogBounds]:
    """The bounds of every partition that is to be read. Raises UserError for topics and partitions
    that are not there, and the client's errors."""
    with Admin(
        bootstrap_servers=options.bootstrap_servers, client_id=CLIENT, **located(options.security)
    ) as admin:
        topics = admin.topics()
        wanted = _wanted(topics, options)
        asking = _Asking(admin, options, wanted)
        first, last = asking.ends(EARLIEST), asking.ends(LATEST)
        starts = asking.starts()
        endings = asking.times(options.ending_times, "endingOffsetsByTimestamp")
        late = asking.late(last)
    return [
        LogBounds(
            *place,
            first[place].offset or 0,
            last[place].offset or 0,
            starts.get(place),
            _text(topics[place[0]]),
            last[place].leader_epoch,
            endings.get(place),
            late.get(place),
        )
        for place in wanted
    ]


class _Asking:
    """One plan's questions."""

    def __init__(
        self, admin: Admin, options: SourceOptions, wanted: Iterable[TopicPartition]
    ) -> None:
        self._admin = admin
        self._options = options
        self._wanted = list(wanted)
        self._isolation: Isolation = isolation_of(options)

    def ends(self, which: int) -> Mapping[TopicPartition, ListedOffset]:
        """The first offsets, or those behind the last records, of all partitions."""
        return self._listed(dict.fromkeys(self._wanted, which))

    def starts(self) -> Offsets:
        """The first offset at or after the starting time, where there is one."""
        at = self._options.starting_timestamp
        if at is None:
            return self.times(self._options.starting_times, "startingOffsetsByTimestamp")
        return self._at(dict.fromkeys(self._wanted, at))

    def times(self, wanted: Times | None, option: str) -> Offsets:
        """The first offset at or after its time, of each partition."""
        if wanted is None:
            return {}
        missing = [place for place in self._wanted if place not in wanted]
        if missing:
            topic, partition = missing[0]
            raise UserError(f"{option} says nothing of {topic}-{partition}", "name every partition")
        return self._at({place: wanted[place] for place in self._wanted})

    def late(self, last: Mapping[TopicPartition, ListedOffset]) -> Offsets:
        """Where what is later than the ending time and its lateness begins
        (:mod:`tallymark_spark_jobs.source.lateness`)."""
        end, lateness = self._options.ending_timestamp, self._options.ending_lateness
        if end is None or lateness is None:
            return {}
        found = self._at(dict.fromkeys(self._wanted, end + lateness))
        ends = {place: last[place].offset or 0 for place in self._wanted}
        behind = {
            place: offset
            for place, offset in found.items()
            if offset is not None and offset < ends[place]
        }
        if not behind:
            return {}
        with SimpleConsumer(
            bootstrap_servers=self._options.bootstrap_servers,
            client_id=CLIENT,
            **located(self._options.security),
        ) as consumer:
            return late_offsets(consumer, behind, ends, end + lateness)

    def _at(self, times: Times) -> Offsets:
        return {place: found.offset for place, found in self._listed(times).items()}

    def _listed(self, times: Times) -> Mapping[TopicPartition, ListedOffset]:
        return self._admin.list_offsets(times, isolation=self._isolation).check()


def _text(topic: TopicInfo) -> str:
    return "" if topic.topic_id == ZERO_UUID else str(topic.topic_id)


def _wanted(there: Mapping[str, TopicInfo], options: SourceOptions) -> list[TopicPartition]:
    """The partitions to read. A pattern never means internal topics."""
    if options.pattern:
        fits = re.compile(options.pattern).fullmatch
        names = [name for name in there if fits(name) and not name.startswith("_")]
        return [(name, number) for name in names for number in there[name].partitions]
    named = [*options.topics, *(topic for topic, _ in options.assigned)]
    missing = [name for name in dict.fromkeys(named) if name not in there]
    if missing:
        raise UserError(
            f"there is no topic {', '.join(missing)} at {options.bootstrap_servers}",
            "see tallymark topics",
        )
    for topic, partition in options.assigned:
        if partition not in there[topic].partitions:
            raise UserError(f"there is no {topic}-{partition} at {options.bootstrap_servers}")
    whole = [(name, number) for name in options.topics for number in there[name].partitions]
    return [*whole, *dict.fromkeys(options.assigned)]
