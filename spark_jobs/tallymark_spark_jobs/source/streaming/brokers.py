"""What a stream asks the brokers for, by one client for as long as it runs."""

from __future__ import annotations

import re
from collections.abc import Callable

from tallymark.client import SimpleConsumer, TopicInfo
from tallymark.errors import KafkaError, UserError
from tallymark.protocol.schema import ZERO_UUID
from tallymark_spark_jobs.engine.files import located
from tallymark_spark_jobs.source.asking import CLIENT, bounds_of, isolation_of
from tallymark_spark_jobs.source.options import SourceOptions
from tallymark_spark_jobs.source.planning import LogBounds, plan
from tallymark_spark_jobs.source.streaming.offsets import Log, Offsets, Partition


class Brokers:
    """The logs of the wanted partitions. Connects when it is first asked."""

    def __init__(self, options: SourceOptions, fits: Callable[[str], bool] | None = None) -> None:
        """``fits``: which topics are meant, in place of the options' pattern."""
        self._options = options
        self._fits = fits
        self._client: SimpleConsumer | None = None

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def logs(self) -> dict[Partition, Log]:
        """As they are now. A topic that is named and not there has none."""
        client = self._connected()
        found: dict[Partition, Log] = {}
        for topic in self._topics(client):
            first, last = client.start_offsets(topic.name), client.end_offsets(topic.name)
            for partition in self._partitions(topic):
                if partition in first and partition in last:
                    topic_id = "" if topic.topic_id == ZERO_UUID else str(topic.topic_id)
                    epoch = client.leader_epoch(topic.name, partition)
                    log = Log(first[partition], last[partition], topic_id, epoch)
                    found[topic.name, partition] = log
        return found

    def beginnings(self) -> Offsets:
        """Where the options say that the stream begins. Raises UserError for what is not there."""
        bounds = bounds_of(self._options)
        fits = self._fits
        return starts(self._options, [one for one in bounds if fits is None or fits(one.topic)])

    def _topics(self, client: SimpleConsumer) -> list[TopicInfo]:
        options = self._options
        if options.pattern:
            fits = self._fits or re.compile(options.pattern).fullmatch
            there = client.topics()
            return [there[name] for name in there if fits(name) and not name.startswith("_")]
        names = dict.fromkeys([*options.topics, *(topic for topic, _ in options.assigned)])
        found = client.topics_named(names)
        wrong = [one for one in found.values() if isinstance(one, KafkaError)]
        if any(error.name != "UNKNOWN_TOPIC_OR_PARTITION" for error in wrong):
            raise next(error for error in wrong if error.name != "UNKNOWN_TOPIC_OR_PARTITION")
        return [found[name] for name in names if isinstance(found.get(name), TopicInfo)]  # type: ignore[misc]

    def _partitions(self, topic: TopicInfo) -> list[int]:
        if not self._options.assigned:
            return list(topic.partitions)
        return [p for name, p in self._options.assigned if name == topic.name]

    def _connected(self) -> SimpleConsumer:
        if self._client is None:
            self._client = SimpleConsumer(
                bootstrap_servers=self._options.bootstrap_servers,
                client_id=CLIENT,
                isolation=isolation_of(self._options),
                **located(self._options.security),
            )
        return self._client


def starts(options: SourceOptions, bounds: list[LogBounds]) -> Offsets:
    """The starting offsets of a plan to the end, also where nothing is to be read yet."""
    found: Offsets = {(one.topic, one.partition): one.latest for one in bounds}
    wanted = options.starting if isinstance(options.starting, dict) else {}
    for where, offset in wanted.items():
        if offset > found.get(where, offset):
            raise UserError(
                f"{where[0]}-{where[1]} ends at {found[where]}, and startingOffsets begins at "
                f"{offset}",
                "begin at an offset that is there; -1 is the end",
            )
    for span in plan(options, bounds):
        where = (span.topic, span.partition)
        found[where] = min(found[where], span.start)
    return found
