"""Count one cluster into the store, round by round: take the partitions that are ours, count what
came in them (:mod:`.fetching`), commit counts and positions together."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from tallymark.clock import now_ms
from tallymark.errors import TallymarkError
from tallymark.protocol.topic_partition import TopicPartition
from tallymark_audit.collector import corrections
from tallymark_audit.collector.backoff import Backoff, committing
from tallymark_audit.collector.counters import Counters
from tallymark_audit.collector.fetching import CollectorSettings, Fetching, NowMs
from tallymark_audit.collector.holes import Mending
from tallymark_audit.collector.ledger import ABSURD, CountedFetch, Ledger
from tallymark_audit.collector.limits.opener import Opener
from tallymark_audit.collector.limits.openings import Budget
from tallymark_audit.collector.open_transactions import TimeoutOf, unknown
from tallymark_audit.collector.partitions.sharing import LEASE_MS, Alone, Share, Sharing
from tallymark_audit.collector.partitions.vanishing import Vanishing, deleted_of
from tallymark_audit.collector.recounting.chore import Compacted, Recounting
from tallymark_audit.collector.recounting.slow_scrub import SlowScrub
from tallymark_audit.collector.uncommitted import Uncommitted
from tallymark_audit.model.absurd import reason_of
from tallymark_audit.model.edges import AUDIT_TOPIC, is_audited
from tallymark_audit.model.log_reader import LogReader, TopicLike, partitions_of, topic_id_of
from tallymark_audit.store import Store
from tallymark_audit.store.counted.incidents import Incident
from tallymark_audit.store.counted.positions import FencedError, Position
from tallymark_audit.store.trouble import unusable

__all__ = ["Collector", "CollectorSettings", "wall_clock"]

log: Final = logging.getLogger(__name__)
IDLE_COMMIT_MS: Final = 1000
LONGEST_IDLE_MS: Final = 5000
"""How far partitions without new records are counted is committed between every so often and this:
a twelfth of a window."""
DISCOVER_MS: Final = 1000
BACKFILLS_MS: Final = 10_000
BEHIND_COMMIT_MS: Final = 500
"""While there is more to read, commits follow each other no faster than this, unless ..."""
MOST_UNCOMMITTED: Final = 5_000
"""... so many runs wait for it."""
CLUSTER, STORE = "the cluster", "the store"
UNLISTED: Final = "the listing of"


def wall_clock() -> int:
    """Now, in ms UTC."""
    return now_ms()


class Collector:
    """Counts one cluster, or its part of it: call :meth:`start` once, :meth:`step` again and again,
    and :meth:`close`.

    FencedError from any of them, if it counts alone: another collector counts the cluster now, and
    this one has to end."""

    def __init__(
        self,
        store: Store,
        reader: LogReader,
        settings: CollectorSettings,
        owner: str,
        clock: NowMs = wall_clock,
        sharing: Sharing | None = None,
        compacted: Compacted = lambda topic: False,
        timeout_of: TimeoutOf = unknown,
    ) -> None:
        self.settings = settings
        budget = Budget(settings.max_new_runs, settings.window_ms)
        self.ledger = Ledger(store, settings.cluster, settings.max_ranges, Opener(budget))
        self.troubles = Backoff(f"collector of {settings.cluster}")
        self.counters = Counters()
        self._reader = reader
        self._owner = owner
        self._clock = clock
        self._sharing: Sharing = sharing or Alone()
        self._share = Share(self._sharing)
        self._fetching = Fetching(
            reader, self.ledger, settings, self.troubles, clock, self._commit, timeout_of
        )
        self.recounting = Recounting(
            reader,
            self.ledger,
            self.troubles,
            clock,
            self._fetching.rules,
            self.flush,
            compacted,
            SlowScrub(settings.scrub_rate, settings.settled_ms),
        )
        """Counts again what is in doubt: a chore of its owner's."""
        self.mending = Mending(reader, self.ledger, self._fetching.count)
        """Looks again at what could not be read: another one."""
        self._known: dict[TopicPartition, str] = {}
        self._is_empty = False
        self._announced: set[TopicPartition] = set()
        self._vanishing: Vanishing | None = None
        self._unlisted: set[str] = set()
        self._uncommitted = Uncommitted()
        self._discovered = 0
        self._committed = 0
        self._idle_committed = 0
        self._idle_commit_ms = min(max(IDLE_COMMIT_MS, settings.window_ms // 12), LONGEST_IDLE_MS)
        self._backfills_read = 0
        self._behind = False

    @property
    def behind(self) -> bool:
        """Whether the last round left something unread that it could have read."""
        return self._behind

    @property
    def in_charge(self) -> bool:
        """Whether it judges, and does all else that is done once a cluster."""
        return self.ledger.generation > 0

    @property
    def pause_ms(self) -> int:
        """How long to wait before the next round; 0 when all is well."""
        return max(self.troubles.pause_ms(CLUSTER), self.troubles.pause_ms(STORE))

    def start(self) -> None:
        """Take the cluster over from the collector before, if only one may count it."""
        if self._sharing.alone:
            self.ledger.take_over(self._owner, self._clock())

    def close(self) -> None:
        """Leave the cluster to other collectors. They read again what was read and not
        committed."""
        self._sharing.close()
        if not self._sharing.alone:
            self.ledger.step_down()

    def step(self) -> int:
        """One round; returns how many records it read. Trouble with the cluster or the store is
        logged when it begins and ends, and waited out by the caller for :attr:`pause_ms`."""
        now = self._clock()
        found: list[CountedFetch] = []
        self._behind = False
        try:
            found = self._read(now)
            self._behind = any(one.more for one in found)
            # Not when the round began: a window that began while a fetch waited would be taken for
            # one of the future, stamped by clocks that are ahead.
            self._commit_if_due(found, self._clock())
        except FencedError as error:
            self.fenced(error)
        except SQLAlchemyError as error:
            self.troubles.begin(STORE, unusable(self.ledger.store.address, error), now)
            self.counters.failures += 1
            self._uncommitted.doubt()
        else:
            self.troubles.end(STORE)
        self.counters.store_refuses = self.troubles.pause_ms(STORE) > 0
        self.counters.stands(self.ledger.positions, self._uncommitted.first(), self.in_charge)
        return sum(run.count for one in found for run in one.runs)

    def flush(self, now: int) -> bool:
        """Commit all that was read. Whether it is known what the store holds. SQLAlchemyError: the
        store is away."""
        if not self._uncommitted.in_doubt:
            try:
                self._commit(now)
            except SQLAlchemyError:
                self._uncommitted.doubt()
                raise
        return not self._uncommitted.in_doubt

    def fenced(self, error: FencedError) -> None:
        """A write was refused: raise it, or leave to the others what they have taken."""
        if self._sharing.alone:
            raise error
        now = self._clock()
        self.counters.refused += 1
        if getattr(error, "place", None) is None:
            self.ledger.generation = 0
            self._share.refused_charge(now)
        log.info("collector of %s: %s", self.settings.cluster, error)
        self._uncommitted.doubt()

    def _read(self, now: int) -> list[CountedFetch]:
        try:
            if self._uncommitted.in_doubt:
                self._share.refused(self.ledger.reload(), now)
                self._uncommitted.reloaded()
            if now - self._discovered >= DISCOVER_MS:
                self._discover(now)
            self._adjust(now)
            found = self._fetching.step(now)
        except FencedError:
            raise
        except TallymarkError as error:
            self.troubles.begin(CLUSTER, f"cannot read the cluster: {error}", now)
            self.counters.failures += 1
            return []
        self.troubles.end(CLUSTER)
        return found

    # -- which partitions ---------------------------------------------------------------------

    def _discover(self, now: int) -> None:
        """Look for new topics and partitions, and for topics that are not what they were."""
        known: dict[TopicPartition, str] = {}
        topics = self._reader.topics()
        for name, topic in topics.items():
            if name == AUDIT_TOPIC or is_audited(name, self.settings.topics):
                topic_id = topic_id_of(topic)
                known |= {(name, partition): topic_id for partition in partitions_of(topic)}
        self._known = known
        self._is_empty = not known and self._has_no_audit_topic()
        if self.in_charge:
            self._announce(topics, known, now)
        if now - self._backfills_read >= BACKFILLS_MS:
            self._backfills_read = now
            self.ledger.read_backfills()
        self._begin_again(now)
        self._discovered = now

    def _has_no_audit_topic(self) -> bool:
        """Whether the cluster answers that. A collector that may see no topic gets a list without
        any, and another answer."""
        gone, _ = deleted_of([(AUDIT_TOPIC, 0)], self._reader.topics_named([AUDIT_TOPIC]))
        return bool(gone)

    def _announce(
        self, topics: Mapping[str, TopicLike], known: Mapping[TopicPartition, str], now: int
    ) -> None:
        """Store which partitions are new, or deleted."""
        vanishing = self._vanishing = self._vanishing or self.ledger.followed()
        there = {(name, p) for name, topic in topics.items() for p in partitions_of(topic)}
        lacking, again = vanishing.look(there, now)
        gone = self._deleted(lacking, now)
        new = sorted(place for place in known if place not in self._announced)
        self.ledger.announce([Position(*p, known[p]) for p in new], now, now, gone, again)
        vanishing.noted(gone, again, new)
        self._announced = set(known)
        for topic, partition in gone:
            log.warning("%s-%d is gone: it holds nothing up any more", topic, partition)

    def _deleted(self, lacking: Sequence[TopicPartition], now: int) -> list[TopicPartition]:
        """Those of ``lacking`` that the cluster does not have, as it answers to a request by
        name."""
        names = {topic for topic, _ in lacking}
        answers = self._reader.topics_named(sorted(names)) if names else {}
        gone, unsure = deleted_of(lacking, answers)
        for topic in sorted(self._unlisted - unsure.keys()):
            self.troubles.end((UNLISTED, topic))
        for topic, error in unsure.items():
            why = f"topic {topic} is not listed, and may be there (its partitions are waited for)"
            self.troubles.begin((UNLISTED, topic), f"{why}: {error}", now)
        self._unlisted = set(unsure)
        return gone

    def _adjust(self, now: int) -> None:
        """Take the partitions that are ours now, and drop those that are not any more."""
        held, known = self.ledger.positions, self._known
        leaderless = self._is_leaderless(now)
        wanted = self._share.wanted(known, self.in_charge, leaderless)
        take, leave = self._share.changes(wanted, held, now)
        if leave:
            self._commit(now)
            self.ledger.drop(leave)
        if take:
            self.ledger.take(Position(*place, known[place]) for place in take)
            self._begin_again(now)
        nothing = self._is_empty and (self.in_charge or leaderless)
        takes_charge = self._share.takes_charge(known, held, wanted, now, nothing)
        if takes_charge and not self.in_charge:
            self.ledger.take_over(self._owner, now)
            self._announced = set()
            self._vanishing = None
            self._discovered = 0
        elif self.in_charge and not takes_charge:
            self.ledger.step_down()

    def _is_leaderless(self, now: int) -> bool:
        unsure = self._sharing.part_of(self._known) is None or self._is_empty
        return unsure and not self.in_charge and now - self.ledger.last_in_charge() >= LEASE_MS

    def _begin_again(self, now: int) -> None:
        for place, position in list(self.ledger.positions.items()):
            topic_id = self._known.get(place, "")
            if topic_id and position.topic_id and topic_id != position.topic_id:
                self._commit(now)
                log.warning("topic %s was made again, counting its new log", place[0])
                corrections.start_over(self.ledger, self.ledger.positions[place], topic_id, now)

    # -- committing ---------------------------------------------------------------------------

    def _commit_if_due(self, found: Sequence[CountedFetch], now: int) -> None:
        """Commit what was found, at once unless there is more to read anyway."""
        idle = now - self._idle_committed >= self._idle_commit_ms
        self._uncommitted.add(one for one in found if one.moved or idle)
        self.ledger.advance(found)
        waiting = self._uncommitted.runs < MOST_UNCOMMITTED
        soon = now - self._committed < BEHIND_COMMIT_MS
        if not (self._behind and waiting and soon):
            self._commit(now)
        if idle:
            self._idle_committed = now

    def _commit(self, now: int) -> None:
        if self._uncommitted.fetches:
            try:
                self.ledger.commit(self._uncommitted.fetches, now)
            except (SQLAlchemyError, TallymarkError):
                raise
            except Exception:
                self._commit_apart(now)
            else:
                self._committed_well(self._uncommitted.fetches)
            self._uncommitted.committed()
        self._committed = now

    def _commit_apart(self, now: int) -> None:
        """Something makes no sense, in a fetch or in the store: commit each partition by itself. A
        partition that cannot be counted keeps its position, and is tried again."""
        by_place: dict[TopicPartition, list[CountedFetch]] = {}
        for one in self._uncommitted.fetches:
            by_place.setdefault(one.place, []).append(one)
        for place, some in by_place.items():
            try:
                self.ledger.commit(some, now)
            except (SQLAlchemyError, TallymarkError):
                raise
            except Exception as error:
                why = f"cannot count {place[0]}-{place[1]}: {reason_of(error)}"
                self.troubles.begin(committing(place), why, now, error)
                self.ledger.note(Incident(ABSURD, why, *place), now)
                self._uncommitted.doubt_place(place)
            else:
                self._committed_well(some)

    def _committed_well(self, some: Sequence[CountedFetch]) -> None:
        self.counters.committed(some)
        for one in some:
            self.troubles.end(committing(one.place))
