"""The consumer that a mirror fetches with: it notes gaps, ends of logs, and what cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tallymark.client.core.metadata import TopicInfo
from tallymark.client.core.security.security import SecuritySettings
from tallymark.client.reading.behind import Met, goes_on_at
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.client.reading.isolation import Isolation
from tallymark.client.reading.list_offsets import OffsetAnswered
from tallymark.client.reading.simple_consumer import SimpleConsumer
from tallymark.errors import BatchCutError, CorruptMessageError, KafkaError
from tallymark.mirror.corruption import StoppedPartition, as_kafka_error
from tallymark.mirror.progress import Partition
from tallymark.mirror.source.gaps import GapNotes
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition

REQUEST_TIMEOUT_MS = 10_000

_log = logging.getLogger("mirror")


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """``connect`` is ``host:port/chroot`` of the source's ZooKeeper, ``topics`` a regular
    expression on whole names. ``bootstrap_servers``: for a source whose brokers are not in
    ZooKeeper; then ZooKeeper holds only the group. ``isolation``: whether aborted messages are
    read, too. ``skip_corrupt``: whether batches whose CRC does not hold are left out."""

    connect: str
    group: str
    topics: str
    session_timeout_ms: int
    bootstrap_servers: str | None = None
    isolation: Isolation = "read_committed"
    skip_corrupt: bool = True
    security: SecuritySettings = field(default_factory=SecuritySettings)


class NotingConsumer:
    """A simple consumer that notes gaps in the batches that it fetches, the ends of the logs, and
    the partitions that cannot be read on. It leaves out batches that cannot be read, unless the
    settings say that the partition waits there. It does not fetch what is ``held``."""

    def __init__(
        self,
        servers: str,
        settings: SourceSettings,
        holes: GapNotes,
        ends: dict[Partition, int],
        stopped: dict[Partition, StoppedPartition],
        held: Callable[[Partition], StoppedPartition | None],
    ) -> None:
        self._gap_notes = holes
        self._ends = ends
        self._stopped = stopped
        self._held = held
        self._met = Met()
        self._skips = settings.skip_corrupt
        self._consumer = SimpleConsumer(
            bootstrap_servers=servers,
            client_id=settings.group,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            isolation=settings.isolation,
            **settings.security,
        )

    def multifetch(
        self, specs: Sequence[FetchSpec], *, max_bytes: int, max_wait_ms: int, min_bytes: int
    ) -> Sequence[Fetched | KafkaError]:
        fetch = partial(
            self._consumer.multifetch,
            max_bytes=max_bytes,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
        )
        return [answer for answer in self._fetched(specs, fetch) if answer is not None]

    def multifetch_ready(
        self, specs: Sequence[FetchSpec], *, max_bytes: int, max_wait_ms: int, min_bytes: int
    ) -> Sequence[Fetched | KafkaError | None]:
        fetch = partial(
            self._consumer.multifetch_ready,
            max_bytes=max_bytes,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
        )
        return self._fetched(specs, fetch)

    def _fetched(
        self,
        specs: Sequence[FetchSpec],
        fetch: Callable[[Sequence[FetchSpec]], Sequence[Fetched | KafkaError | None]],
    ) -> list[Fetched | KafkaError | None]:
        """What ``fetch`` returns for each, and errors for those that are held."""
        held = [self._held((spec.topic, spec.partition)) for spec in specs]
        wanted = [spec for spec, why in zip(specs, held, strict=True) if why is None]
        answers = iter(fetch(wanted) if wanted else ())
        found: list[Fetched | KafkaError | None] = []
        for why in held:
            if why is not None:
                found.append(as_kafka_error(why))
                continue
            answer = next(answers)
            self._note([answer])
            found.append(answer if answer is None else self._mended(answer))
        return found

    def _mended(self, answer: Fetched | KafkaError) -> Fetched | KafkaError:
        if not isinstance(answer, CorruptMessageError):
            return answer
        cut = isinstance(answer, BatchCutError)
        if not cut and not self._met.is_lasting(answer):
            return answer
        if cut or not self._skips:
            stopped = StoppedPartition(answer.topic, answer.partition, answer.offset, answer.reason)
            self._stopped[answer.topic, answer.partition] = stopped
            return as_kafka_error(stopped)
        try:
            return self._passed_over(answer)
        except KafkaError as error:  # the log has changed: fetch again
            where = (answer.topic, answer.partition, answer.offset)
            return (
                error if error.retriable else as_kafka_error(StoppedPartition(*where, str(error)))
            )

    def _passed_over(self, answer: CorruptMessageError) -> Fetched:
        """An empty result whose next offset is behind the batch. ConnectError, TimedOutError,
        KafkaError: the cluster does not return where that is."""
        where = (answer.topic, answer.partition)
        (end,) = self._consumer.get_offsets_before(*where, LATEST)
        (start,) = self._consumer.get_offsets_before(*where, EARLIEST)
        behind = goes_on_at(answer, lambda at: self._consumer.fetch(*where, at, max_wait_ms=0), end)
        text = "%s-%d: offsets %d to %d cannot be read and are left out: %s"
        _log.error(text, *where, answer.offset, behind - 1, answer)
        self._gap_notes.corrupt(where, answer.offset, behind)
        self._met.forget(*where)
        return Fetched(*where, answer.offset, end, start, (), behind, -1)

    def _note(self, answers: Sequence[Fetched | KafkaError | None]) -> None:
        for answer in answers:
            if isinstance(answer, Fetched):
                headers = (batch.header for batch in answer.batches)
                self._gap_notes.note((answer.topic, answer.partition), headers)
                self._gap_notes.aborted((answer.topic, answer.partition), answer.aborted)
                self._ends[answer.topic, answer.partition] = answer.high_watermark
                stopped = self._stopped.get((answer.topic, answer.partition))
                if stopped is not None and answer.next_offset > stopped.offset == answer.offset:
                    del self._stopped[answer.topic, answer.partition]

    def get_offsets_before(self, topic: str, partition: int, time: int) -> Sequence[int]:
        return self._consumer.get_offsets_before(topic, partition, time)

    def each_offset(
        self, places: Collection[TopicPartition], time: int, answered: OffsetAnswered
    ) -> None:
        self._consumer.each_offset(places, time, answered)

    def topics(self) -> Mapping[str, TopicInfo]:
        return self._consumer.topics()

    def close(self) -> None:
        self._consumer.close()
