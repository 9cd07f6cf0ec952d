"""Count one cluster into the store, round by round: fetch every partition where we stand, count
what came, commit counts and positions together."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from tallymark.client import FetchSpec
from tallymark.errors import (
    CODES,
    CorruptRecordError,
    KafkaError,
    LogTruncatedError,
    TallymarkError,
)
from tallymark_audit.collector.counting import Rules, runs_in
from tallymark_audit.collector.ledger import Counted, Ledger, Place
from tallymark_audit.collector.monitoring import read_events
from tallymark_audit.collector.reading import (
    EARLIEST,
    LATEST,
    FetchedLike,
    LogReader,
    partitions_of,
    topic_id_of,
)
from tallymark_audit.collector.recount import count_again
from tallymark_audit.collector.trouble import Troubles
from tallymark_audit.edges import AUDIT_TOPIC, is_audited
from tallymark_audit.store import Store
from tallymark_audit.store.counts import FencedError, Position

log: Final = logging.getLogger(__name__)
FETCH_BYTES: Final = 1 << 20
IDLE_COMMIT_MS: Final = 1000
DISCOVER_MS: Final = 1000
CLUSTER, STORE = "the cluster", "the store"
Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """``topics`` is a regular expression; times in ms."""

    cluster: str
    window_ms: int
    skew_ms: int = 86_400_000
    topics: str = ".*"
    max_wait_ms: int = 250


def wall_clock() -> int:
    """Now, in ms UTC."""
    return time.time_ns() // 1_000_000


class Collector:
    """Counts one cluster: call :meth:`start` once and :meth:`step` again and again.

    FencedError from either: another collector has the cluster now, this one has to end."""

    def __init__(
        self,
        store: Store,
        reader: LogReader,
        settings: CollectorSettings,
        owner: str,
        clock: Clock = wall_clock,
    ) -> None:
        self.settings = settings
        self.ledger = Ledger(store, settings.cluster)
        self.troubles = Troubles(f"collector of {settings.cluster}")
        self._reader = reader
        self._owner = owner
        self._clock = clock
        self._discovered = 0
        self._committed = 0

    def start(self) -> None:
        """Take the cluster over from whoever had it."""
        self.ledger.take_over(self._owner, self._clock())

    def step(self) -> int:
        """One round; returns how many records it counted. Trouble with the cluster or the store is
        logged when it begins and ends, and waited out by the caller for :attr:`pause_ms`."""
        now = self._clock()
        try:
            if now - self._discovered >= DISCOVER_MS:
                self._discover(now)
            found = self._fetch(now)
            self.troubles.end(CLUSTER)
            self._commit(found, now)
        except FencedError:
            raise
        except TallymarkError as error:
            self.troubles.begin(CLUSTER, f"cannot read the cluster: {error}", now)
            return 0
        except SQLAlchemyError as error:
            self.troubles.begin(STORE, f"cannot use the store: {error}", now)
            self.ledger.positions = {}
            return 0
        self.troubles.end(STORE)
        return sum(run.count for one in found for run in one.runs)

    @property
    def pause_ms(self) -> int:
        """How long to wait before the next round; 0 when all is well."""
        return max(self.troubles.pause_ms(CLUSTER), self.troubles.pause_ms(STORE))

    def _discover(self, now: int) -> None:
        """Look for new topics and partitions, and for topics that are not what they were."""
        if not self.ledger.positions:
            self.ledger.reload()
        new: list[Position] = []
        for name, topic in self._reader.topics().items():
            if name != AUDIT_TOPIC and not is_audited(name, self.settings.topics):
                continue
            topic_id = topic_id_of(topic)
            for partition in partitions_of(topic):
                known = self.ledger.positions.get((name, partition))
                if known is None:
                    new.append(Position(name, partition, topic_id))
                elif topic_id and known.topic_id and known.topic_id != topic_id:
                    log.warning("topic %s was made again, counting its new log", name)
                    self.ledger.start_over(known, topic_id, now)
        self.ledger.begin(new, now, now)
        self._discovered = now

    def _fetch(self, now: int) -> list[Counted]:
        places = [place for place in self.ledger.positions if self.troubles.due(place, now)]
        if not places:
            time.sleep(self.settings.max_wait_ms / 1000)
            return []
        at = [self.ledger.positions[place] for place in places]
        sent_at = self._clock()
        answers = self._reader.multifetch(
            [FetchSpec(p.topic, p.partition, p.next_offset, p.leader_epoch) for p in at],
            max_bytes=FETCH_BYTES,
            max_wait_ms=self.settings.max_wait_ms,
            min_bytes=1,
        )
        found: list[Counted] = []
        for place, position, answer in zip(places, at, answers, strict=True):
            counted = self._take(place, position, answer, sent_at)
            if counted is not None:
                found.append(counted)
        return found

    def _take(
        self, place: Place, position: Position, answer: FetchedLike | KafkaError, sent_at: int
    ) -> Counted | None:
        """Count one partition's answer. Where it cannot be read, or only after mending, there is
        nothing to commit and its progress stands still: it is late, never wrong."""
        try:
            if isinstance(answer, KafkaError):
                self._mend(position, answer)
                counted = None
            else:
                counted = self._count(position, answer, sent_at)
        except (KafkaError, CorruptRecordError) as error:
            self.troubles.begin(place, f"cannot read {place[0]}-{place[1]}: {error}", sent_at)
            return None
        self.troubles.end(place)
        return counted

    def _count(self, position: Position, fetched: FetchedLike, sent_at: int) -> Counted:
        start, topic, partition = position.next_offset, position.topic, position.partition
        caught_up = fetched.next_offset >= fetched.high_watermark
        to = replace(
            position,
            next_offset=fetched.next_offset,
            leader_epoch=fetched.last_epoch,
            high_watermark=fetched.high_watermark,
            counted_through=sent_at if caught_up else position.counted_through,
        )
        if topic == AUDIT_TOPIC:
            trimmed = fetched.log_start_offset > 0
            read = read_events(fetched.batches, partition, start, trimmed, self.settings.window_ms)
            return Counted(start, to, monitoring=read)
        rules = self._rules(sent_at)
        return Counted(start, to, runs_in(fetched.batches, topic, partition, start, rules))

    def _mend(self, position: Position, error: KafkaError) -> None:
        """The log is not what it was where we stand. KafkaError: it cannot be read at all now."""
        topic, partition = position.topic, position.partition
        if isinstance(error, LogTruncatedError):
            self._recount(position, error.diverging_offset)
            return
        if error.code != CODES["OFFSET_OUT_OF_RANGE"]:
            raise error
        (end,) = self._reader.get_offsets_before(topic, partition, LATEST)
        if position.next_offset > end:  # cut, by a broker that does not say where
            self._recount(position, end)
            return
        (start,) = self._reader.get_offsets_before(topic, partition, EARLIEST)
        if start <= position.next_offset:
            raise error  # it is in range by now: try again
        reason = f"offsets {position.next_offset} to {start - 1} were deleted before being counted"
        log.warning("%s-%s: %s", topic, partition, reason)
        to = replace(position, next_offset=start, leader_epoch=-1)
        self.ledger.skip(position, to, reason, self._clock())

    def _recount(self, position: Position, cut: int) -> None:
        now, place = self._clock(), (position.topic, position.partition)
        affected = self.ledger.cells_beyond(place, cut)
        to, rebuilt = count_again(self._reader, position, cut, affected, self._rules(now))
        reason = (
            f"the log was cut at offset {cut}, it had been counted to {position.next_offset}; "
            f"{len(affected)} cells were counted again"
        )
        log.warning("%s-%s: %s", *place, reason)
        self.ledger.cut(position, to, rebuilt, reason, now)

    def _commit(self, found: list[Counted], now: int) -> None:
        idle = now - self._committed >= IDLE_COMMIT_MS
        news = found if idle else [one for one in found if one.moved]
        if news:
            self.ledger.commit(news, now)
        if idle:
            self._committed = now
        self.ledger.advance(found)

    def _rules(self, now: int) -> Rules:
        return Rules(self.settings.window_ms, now + self.settings.skew_ms)
