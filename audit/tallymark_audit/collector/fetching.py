"""Fetch every partition of ours where we stand, count what came, mend where a log was cut."""

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
    CorruptMessageError,
    CorruptRecordError,
    KafkaError,
    LogTruncatedError,
    TallymarkError,
)
from tallymark_audit.absurd import reason_of
from tallymark_audit.collector.bounds import WindowBound
from tallymark_audit.collector.counting import MAX_RANGES
from tallymark_audit.collector.known_places import KnownPlaces
from tallymark_audit.collector.ledger import ABSURD, Counted, Ledger
from tallymark_audit.collector.malformed import malformed_incidents
from tallymark_audit.collector.monitoring import read_events
from tallymark_audit.collector.openings import MOST_NEW_RUNS
from tallymark_audit.collector.patience import Patience
from tallymark_audit.collector.readable import Met, readable_part
from tallymark_audit.collector.reading import EARLIEST, LATEST, FetchedLike, LogReader
from tallymark_audit.collector.recount import count_again
from tallymark_audit.collector.runs import MIN_TIMESTAMP, Rules, runs_in
from tallymark_audit.collector.trouble import Troubles, committing
from tallymark_audit.edges import AUDIT_TOPIC
from tallymark_audit.store.counts import Place, Position
from tallymark_audit.store.incidents import Incident

log: Final = logging.getLogger(__name__)
FETCH_BYTES: Final = 1 << 20
QUIET: Final = 8
LONGER: Final = 4
"""After so many rounds without a record, brokers are asked to wait so many times as long: they
answer at once when there is one."""
LIVE_MS: Final = 5_000
"""Who was at the end of a log so short a while ago reads its records as they come."""
Clock = Callable[[], int]


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
    is only mended from where the store has it."""

    def __init__(
        self,
        reader: LogReader,
        ledger: Ledger,
        settings: CollectorSettings,
        troubles: Troubles,
        clock: Clock,
        commit: Callable[[int], None],
    ) -> None:
        self._reader = reader
        self._ledger = ledger
        self._settings = settings
        self._troubles = troubles
        self._clock = clock
        self._commit = commit
        self._bound = WindowBound(settings.window_ms)
        self._met = Met()
        self._places = KnownPlaces(reader, ledger.places_ever, clock)
        self._quiet = 0
        self._patience = Patience()

    def step(self, now: int) -> list[Counted]:
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
        found: list[Counted] = []
        for place, position, answer in zip(places, at, answers, strict=True):
            counted = self._take(place, position, answer, sent_at)
            if counted is not None:
                found.append(counted)
        self._quiet = 0 if any(one.moved for one in found) else self._quiet + 1
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
                counted = self._count_readable(position, answer, sent_at)
        except (KafkaError, CorruptRecordError) as error:
            self._troubles.begin(place, f"cannot read {place[0]}-{place[1]}: {error}", sent_at)
            if isinstance(error, CorruptMessageError):
                self._damaged(place, error)
            return None
        except (TallymarkError, SQLAlchemyError):
            raise
        except Exception as error:  # whatever lies in one log must not stop the others
            why = f"cannot count {place[0]}-{place[1]}: {reason_of(error)}"
            self._troubles.begin(place, why, sent_at, error)
            self._ledger.note(Incident(ABSURD, why, *place), sent_at)
            return None
        self._troubles.end(place)
        self._met.forget(place)
        if counted is not None and place in self._ledger.damaged:
            self._commit(self._clock())
            self._ledger.go_on(position, self._clock())
        return counted

    def _damaged(self, place: Place, error: CorruptMessageError) -> None:
        """A batch cannot be read: if that lasts, say so where verdicts and alerts are made. It is
        tried again all the same, since somebody may mend the log."""
        if self._met.is_lasting(place, error.offset):
            now = self._clock()
            self._commit(now)
            self._ledger.stop(self._ledger.positions[place], error.offset, error.reason, now)

    def _count_readable(self, position: Position, fetched: FetchedLike, sent_at: int) -> Counted:
        """Count it up to a batch that does not decode. CorruptMessageError: that is the first."""
        try:
            return self._count(position, fetched, sent_at)
        except CorruptRecordError:
            part = readable_part(fetched, position.place, position.next_offset)
            return self._count(position, part, sent_at)

    def _count(self, position: Position, fetched: FetchedLike, sent_at: int) -> Counted:
        start, place = position.next_offset, position.place
        caught_up = fetched.next_offset >= fetched.high_watermark
        to = replace(
            position,
            next_offset=fetched.next_offset,
            leader_epoch=fetched.last_epoch,
            high_watermark=fetched.high_watermark,
            counted_through=sent_at if caught_up else position.counted_through,
        )
        if place[0] == AUDIT_TOPIC:
            # Not when it was asked: what is sent while a fetch waits is not from the future.
            now, trimmed = self._clock(), fetched.log_start_offset > 0
            made = (place[1], start, trimmed, self._settings.window_ms, now, self._settings.skew_ms)
            read, odd = read_events(fetched.batches, *made, unknown=self._places.unknown)
            return Counted(start, to, monitoring=read, incidents=odd)
        now = self._clock()
        rules = self.rules(now, live=_is_live(position, sent_at))
        runs = runs_in(fetched.batches, *place, start, rules)
        incidents = malformed_incidents(runs, place) + self._bound.apply(runs, place, now)
        self._ledger.lateness.add(runs, place[0], rules)
        runs += runs_in(fetched.left_out, *place, start, rules, aborted=True)
        return Counted(start, to, runs, incidents=incidents)

    def _mend(self, position: Position, error: KafkaError) -> None:
        """The log is not what it was where we stand. KafkaError: it cannot be read at all now."""
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
        self._ledger.skip(position, to, reason, self._clock())

    def _recount(self, position: Position, cut: int) -> None:
        now, place = self._clock(), position.place
        self._commit(now)
        affected = self._ledger.cells_beyond(place, cut)
        to, rebuilt = count_again(
            self._reader, position, cut, affected, self.rules(now), self._settings.max_ranges
        )
        reason = (
            f"the log was cut at offset {cut}, it had been counted to {position.next_offset}; "
            f"{len(affected)} cells were counted again"
        )
        log.warning("%s-%s: %s", *place, reason)
        self._ledger.cut(position, to, rebuilt, reason, now)

    def rules(self, now: int, live: bool = False) -> Rules:
        """How records are counted now (ms). ``live``: they have only just been appended."""
        made = self._settings
        return Rules(
            made.window_ms,
            future=now + made.skew_ms,
            past=now - made.skew_ms if live else MIN_TIMESTAMP,
            seen_at=now if live else -1,
            content_check=made.content_check,
            exempt=self._ledger.backfills,
        )


def _is_live(position: Position, sent_at: int) -> bool:
    """Whether we were at the end of the log a moment ago: what comes now is new."""
    at_end = position.next_offset >= position.high_watermark
    return at_end and position.counted_through > 0 and sent_at - position.counted_through <= LIVE_MS
