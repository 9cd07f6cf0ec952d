"""Fetch every partition of ours from its position, count the records, and repair counts where a log
was cut."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from tallymark.client import FetchSpec
from tallymark.client.reading.behind import Met
from tallymark.errors import (
    CODES,
    CorruptMessageError,
    CorruptRecordError,
    KafkaError,
    LogTruncatedError,
    TallymarkError,
)
from tallymark.protocol.records.batch import Batch, Record
from tallymark.protocol.records.columns import RecordColumns
from tallymark.protocol.topic_partition import EARLIEST, LATEST, TopicPartition
from tallymark_audit.collector import corrections
from tallymark_audit.collector.backoff import Backoff, committing
from tallymark_audit.collector.counting.cells import MAX_RANGES
from tallymark_audit.collector.counting.fetch_runs import FetchRuns, RunReader
from tallymark_audit.collector.counting.malformed import malformed_incidents
from tallymark_audit.collector.counting.monitoring import events_in
from tallymark_audit.collector.counting.readable import Read, read_part
from tallymark_audit.collector.holes import pass_over
from tallymark_audit.collector.ledger import ABSURD, CountedFetch, Ledger
from tallymark_audit.collector.limits.openings import MOST_NEW_RUNS
from tallymark_audit.collector.limits.patience import Patience
from tallymark_audit.collector.limits.window_bound import WindowBound
from tallymark_audit.collector.open_transactions import OpenTransactions, TimeoutOf, unknown
from tallymark_audit.collector.partitions.known_places import KnownPlaces
from tallymark_audit.collector.recounting.recount import count_again
from tallymark_audit.model.absurd import reason_of
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.log_reader import FetchedLike, LogReader
from tallymark_audit.model.record_runs import MIN_TIMESTAMP, Rules
from tallymark_audit.store.counted.incidents import Incident
from tallymark_audit.store.counted.positions import Position

log: Final = logging.getLogger(__name__)
FETCH_BYTES: Final = 1 << 20
QUIET: Final = 8
LONGER: Final = 4
"""After so many rounds without a record, brokers are asked to wait so many times as long: they
answer at once when there is one."""
LIVE_MS: Final = 5_000
"""A collector that was at the end of a log so recently reads records when they arrive."""
PROMPT_MS: Final = 2_000
"""And so recently: the lateness of its records is measured."""
NowMs = Callable[[], int]


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """``topics`` is a regular expression; times in ms. ``scrub_rate``: bytes a second that are read
    again, of windows that began longer than ``settled_ms`` ago."""

    cluster: str
    window_ms: int
    skew_ms: int = 86_400_000
    topics: str = ".*"
    max_wait_ms: int = 250
    content_check: bool = False
    max_ranges: int = MAX_RANGES
    max_new_runs: int = MOST_NEW_RUNS
    scrub_rate: int = 0
    settled_ms: int = 0


class Fetching:
    """Reads what the ledger has positions of. ``commit`` writes what was read before: a partition
    is only repaired from where the store has it."""

    def __init__(
        self,
        reader: LogReader,
        ledger: Ledger,
        settings: CollectorSettings,
        troubles: Backoff,
        clock: NowMs,
        commit: Callable[[int], None],
        timeout_of: TimeoutOf = unknown,
    ) -> None:
        self._reader = reader
        self._ledger = ledger
        self._settings = settings
        self._troubles = troubles
        self._clock = clock
        self._commit = commit
        self._runs = RunReader()
        self._bound = WindowBound(settings.window_ms)
        self._met = Met()
        self._open = OpenTransactions(reader, timeout_of)
        self._places = KnownPlaces(reader, ledger.places_ever, clock)
        self._quiet = 0
        self._answered_at = 0
        self._patience = Patience()

    def step(self, now: int) -> list[CountedFetch]:
        """Ask for the next records of every partition that is well, and count them."""
        due = self._troubles.due
        places = [p for p in self._ledger.positions if due(p, now) and due(committing(p), now)]
        places = self._patience.without_waiting(places, self._ledger, now)
        if not places:
            time.sleep(self._settings.max_wait_ms / 1000)
            return []
        at = [self._ledger.positions[place] for place in places]
        sent_at = self._clock()
        answers = self._reader.multifetch(
            [FetchSpec(p.topic, p.partition, p.next_offset, p.leader_epoch) for p in at],
            max_bytes=FETCH_BYTES,
            max_wait_ms=self._settings.max_wait_ms * (LONGER if self._quiet >= QUIET else 1),
            min_bytes=1,
        )
        self._answered_at = self._clock()
        found: list[CountedFetch] = []
        for place, position, answer in zip(places, at, answers, strict=True):
            counted = self._take(place, position, answer, sent_at)
            if counted is not None:
                found.append(counted)
        self._quiet = 0 if any(one.moved for one in found) else self._quiet + 1
        return found

    def _take(
        self,
        place: TopicPartition,
        position: Position,
        answer: FetchedLike | KafkaError,
        sent_at: int,
    ) -> CountedFetch | None:
        """Count one partition's answer. Where it cannot be read, or only after a repair, there is
        nothing to commit and its position does not move: it is late, never wrong."""
        try:
            if isinstance(answer, CorruptMessageError):
                counted = self._pass_over(position, answer)
            elif isinstance(answer, KafkaError):
                self._mend(position, answer)
                counted = None
            else:
                counted = self.count(position, answer, sent_at)
        except (KafkaError, CorruptRecordError) as error:
            self._troubles.begin(place, f"cannot read {place[0]}-{place[1]}: {error}", sent_at)
            return None
        except (TallymarkError, SQLAlchemyError):
            raise
        except Exception as error:  # whatever lies in one log must not stop the others
            why = f"cannot count {place[0]}-{place[1]}: {reason_of(error)}"
            self._troubles.begin(place, why, sent_at, error)
            self._ledger.note(Incident(ABSURD, why, *place), sent_at)
            return None
        self._troubles.end(place)
        self._met.forget(*place)
        if counted is not None and place in self._ledger.damaged:
            self._commit(self._clock())
            corrections.go_on(self._ledger, position)
        return counted

    def _pass_over(self, position: Position, error: CorruptMessageError) -> CountedFetch:
        """A batch is damaged: if that lasts, continue behind it, and report it for verdicts and
        alerts. CorruptMessageError: it has not lasted long enough yet."""
        if not self._met.is_lasting(error):
            raise error
        log.warning("%s; it is passed over, and looked at again", error)
        return pass_over(self._reader, position, error)

    def count(self, position: Position, fetched: FetchedLike, sent_at: int) -> CountedFetch:
        """Count what was fetched at a position, as far as it can be read at once."""
        start, place, now = position.next_offset, position.place, self._clock()
        live = _is_live(position, sent_at)
        rules = self.rules(
            now, live, self._answered_at if live and _is_prompt(position, sent_at) else -1
        )
        records: list[Record] = []
        if place[0] == AUDIT_TOPIC:
            read, runs = _read_records(fetched, start, records), FetchRuns()
        else:
            read, runs = self._runs.read(fetched, start, place, rules)
        caught_up = read.next_offset >= fetched.high_watermark
        to = replace(
            position,
            next_offset=read.next_offset,
            leader_epoch=read.last_epoch,
            high_watermark=fetched.high_watermark,
            counted_through=sent_at if caught_up else position.counted_through,
        )
        to = self._open.noted(to, fetched, sent_at)
        more = read.next_offset < _readable_end(fetched)
        through = position.counted_through
        holes = [replace(hole, since=max(hole.since, through)) for hole in read.holes]
        if place[0] == AUDIT_TOPIC:
            # Not when it was asked: what is sent while a fetch waits is not from the future.
            trimmed, made = fetched.log_start_offset > 0, self._settings
            how = (place[1], trimmed, made.window_ms, self._clock(), made.skew_ms)
            events, odd = events_in(records, *how, unknown=self._places.unknown)
            return CountedFetch(start, to, monitoring=events, incidents=odd, holes=holes, more=more)
        incidents = malformed_incidents(runs.seen, place)
        incidents += self._bound.apply(runs.seen, place, now)
        self._ledger.lateness.add(runs.seen, place[0], rules)
        for run in runs.dropped:
            run.aborted = True
        found = runs.seen + runs.dropped
        return CountedFetch(start, to, found, incidents=incidents, holes=holes, more=more)

    def _mend(self, position: Position, error: KafkaError) -> None:
        """The log has changed at our position. KafkaError: it cannot be read at all now."""
        topic, partition = position.place
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
        self._commit(self._clock())
        to = replace(position, next_offset=start, leader_epoch=-1)
        corrections.skip(self._ledger, position, to, reason, self._clock())

    def _recount(self, position: Position, cut: int) -> None:
        now, place = self._clock(), position.place
        self._commit(now)
        affected, known = self._ledger.cells_beyond(place, cut), self._ledger.holes(place)
        rules, most = self.rules(now), self._settings.max_ranges
        to, rebuilt, holes = count_again(self._reader, position, cut, affected, rules, most, known)
        reason = (
            f"the log was cut at offset {cut}, it had been counted to {position.next_offset}; "
            f"{len(affected)} cells were counted again"
        )
        log.warning("%s-%s: %s", *place, reason)
        corrections.cut(self._ledger, position, to, rebuilt, reason, self._clock(), holes)

    def rules(self, now: int, live: bool = False, seen_at: int = -1) -> Rules:
        """How records are counted now (ms). ``live``: they have only just been appended;
        ``seen_at``: when they were there, for how late they came, -1 where that is not known."""
        made = self._settings
        return Rules(
            made.window_ms,
            future=now + made.skew_ms,
            past=now - made.skew_ms if live else MIN_TIMESTAMP,
            seen_at=seen_at,
            content_check=made.content_check,
            exempt=self._ledger.backfills,
        )


def _read_records(fetched: FetchedLike, start: int, records: list[Record]) -> Read:
    """Read the messages of a fetch into ``records``."""

    def take(_: Batch, columns: RecordColumns, aborted: bool) -> None:
        if not aborted:
            records.extend(columns.records())

    return read_part(fetched, start, take)


def _readable_end(fetched: FetchedLike) -> int:
    """The end of what can be read: records behind it are in open transactions."""
    stable = fetched.last_stable_offset
    return fetched.high_watermark if stable < 0 else min(stable, fetched.high_watermark)


def _is_live(position: Position, sent_at: int) -> bool:
    """Whether we were at the end of the log a moment ago, so that records are new now."""
    at_end = position.next_offset >= position.high_watermark
    return at_end and position.counted_through > 0 and sent_at - position.counted_through <= LIVE_MS


def _is_prompt(position: Position, sent_at: int) -> bool:
    """Whether records that are read now were appended shortly before. If the collector itself was
    late, perhaps because of another topic, that is no lateness of the records."""
    return sent_at - position.counted_through <= PROMPT_MS
