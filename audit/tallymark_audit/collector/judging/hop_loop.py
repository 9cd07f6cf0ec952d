"""Judge the windows of one edge: which of them are due, and when each is judged again.

Facts are read in one snapshot, and verdicts are written in one fenced transaction.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, and_, or_, select
from sqlalchemy.exc import SQLAlchemyError

from tallymark.deployment import AuditSettings
from tallymark.errors import TallymarkError
from tallymark_audit.collector.judging.loads import (
    LoadsAwaited,
    awaits_load,
    heard_of_loads,
)
from tallymark_audit.collector.judging.waiting import EACH_MS, Signs, Waiting, those_waited_for
from tallymark_audit.collector.judging.window_facts import StoreFacts, topics_known
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.judge.apart import is_unjudged, judge_apart
from tallymark_audit.judge.hops import Hop, Known
from tallymark_audit.judge.verdicts import GOOD, UNDECIDED, State, Verdict
from tallymark_audit.judge.windows import judge_windows
from tallymark_audit.model.cells import Edge, TopicWindow
from tallymark_audit.model.edges import collision, is_audited, passes
from tallymark_audit.model.hashing import BLOCK
from tallymark_audit.model.time_format import utc
from tallymark_audit.model.turns import Turns
from tallymark_audit.store.counted import recounts
from tallymark_audit.store.counted.incidents import Incident, fold_incident
from tallymark_audit.store.judged.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.store.schema.tables import verdicts, window_changes

log: Final = logging.getLogger(__name__)
AT_ONCE: Final = 500
"""Windows judged in one step, of each topic those first that wait longest and in fair turns
(:mod:`tallymark_audit.model.turns`); the others are for the next one."""
SLACK_MS: Final = 30_000
"""Changes are looked for this far back: clocks differ, and transactions take their time."""
LATEST_MS: Final = 300_000
"""All changes older than this have been seen."""
WAITING_MS: Final = 1_000
LONGEST_WAIT_MS: Final = 10_000
CROWD: Final = 500
"""Where more windows than this wait, each further one makes them wait ..."""
EACH_OF_CROWD_MS: Final = 20
LONGEST_CROWD_MS: Final = 60_000
"""... so much longer, up to this: no more than fifty a second are judged again."""
UNJUDGED_KIND: Final = "unjudged"
"""The kind of incidents about what cannot be judged."""
OwedFrom = Callable[[Edge, str], int]
"""Since when (ms) an edge carries a topic."""


class Change(NamedTuple):
    """A count or claim of a window changed on a cluster, at ``at`` (ms)."""

    cluster: str
    topic: str
    window: int
    at: int


_CHANGE: Final = [window_changes.c[name] for name in ("cluster", "topic", "window", "changed_at")]


class HopLoop:
    """Judges one edge. ``owed_from`` returns since when (ms) the edge carries a topic."""

    def __init__(
        self, hop: Hop, settings: AuditSettings, owed_from: OwedFrom, turns: Turns[int]
    ) -> None:
        self.hop = hop
        self._settings = settings
        self._owed_from = owed_from
        self._since: int | None = None
        self._seen: dict[TopicWindow, int] = {}
        self._due: dict[TopicWindow, int] = {}
        self._signs: Signs = ()
        self._waiting = Waiting()
        self._beside = 0
        self._loads = LoadsAwaited()
        self._collisions: set[str] = set()
        self._many = Counter[str]()
        self._turns = turns

    @property
    def waiting(self) -> int:
        """How many windows wait for what is silent."""
        return len(self._waiting)

    def step(self, ledger: Ledger, now: int, hurry: bool, beside: int = 0) -> list[Verdict]:
        """Judge what is due at ``now`` (ms); returns the verdicts that changed. ``beside``: windows
        that wait on other edges, with which this one shares its time."""
        self._beside = beside
        with ledger.store.read() as connection:
            self._look(connection, now)
        self._many = Counter(topic for topic, _ in self._due)
        due = sorted((at, key) for key, at in self._due.items() if at <= now)
        by_topic: dict[str, list[int]] = {}
        for _, (topic, window) in due:
            by_topic.setdefault(topic, []).append(window)
        news: list[Verdict] = []
        self._turns.run(
            by_topic,
            lambda topic, windows: news.extend(self._judge(ledger, topic, windows, now)),
            AT_ONCE,
            hurry,
        )
        return news

    def _look(self, connection: Connection, now: int) -> None:
        """Mark as due what changed since the last look; at the first, what is not up to date."""
        known = topics_known(connection, self.hop)
        if self._since is None:
            changed = self._stale(connection, known)
            self._since = 0
        else:
            since = max(self._since, now - LATEST_MS) - SLACK_MS
            changed = self._named(self._changed(connection, since), known)
        for topic, window, changed_at in changed:
            if self._seen.get((topic, window), -1) < changed_at:
                self._seen[topic, window] = changed_at
                if self._owes(topic, window):
                    self._due[topic, window] = now
                    self._waiting.ended((topic, window))
                    self._loads.ended((topic, window))
            self._since = max(self._since, min(changed_at, now))  # a clock may be far ahead
        self._look_at_signs(connection, now)
        if self.hop.edge.kind == "lake":
            heard = heard_of_loads(connection, self.hop.edge.home)
            self._due.update(dict.fromkeys(self._loads.due(heard, now), now))
        horizon = self._since - 2 * SLACK_MS
        self._seen = {key: at for key, at in self._seen.items() if at >= horizon}

    def _look_at_signs(self, connection: Connection, now: int) -> None:
        """Judge all waiting windows again when a reporter closed, was retired or reports again, or
        a counter moves: they may wait for it."""
        if not self._due:
            return
        clusters = sorted({self.hop.edge.home, *self.hop.clusters()})
        signs = those_waited_for(
            connection, self.hop.edge, clusters, now, self._settings.silence_ms
        )
        if signs != self._signs:
            self._signs = signs
            self._waiting.all_ended()
            self._due = dict.fromkeys(self._due, now)

    def _named(self, changed: Iterable[Change], known: Known) -> list[tuple[str, int, int]]:
        """Changes under the names that the edge has for the topics."""
        found: list[tuple[str, int, int]] = []
        names: dict[tuple[str, str], tuple[str, ...]] = {}
        for cluster, topic, window, at in changed:
            if (cluster, topic) not in names:
                names[cluster, topic] = self.hop.topics_of(cluster, topic, known)
            found += [(name, window, at) for name in names[cluster, topic]]
        return found

    def _changed(self, connection: Connection, since: int) -> list[Change]:
        query = select(*_CHANGE).where(
            window_changes.c.cluster.in_(self.hop.clusters()),
            window_changes.c.changed_at >= since,
        )
        return [Change(*row) for row in connection.execute(query)]

    def _stale(self, connection: Connection, known: Known) -> list[tuple[str, int, int]]:
        """Windows without a verdict that is good and newer than their last change."""
        clusters = window_changes.c.cluster.in_(self.hop.clusters())
        if self.hop.renames:  # names differ from row to row, so each is looked at
            judged = self._decided(connection)
            changed = self._named(self._changed(connection, 0), known)
            return [one for one in changed if judged.get((one[0], one[1]), -1) <= one[2]]
        ours = and_(
            verdicts.c.edge == self.hop.edge.name,
            verdicts.c.topic == window_changes.c.topic,
            verdicts.c.window == window_changes.c.window,
            verdicts.c.source == COLLECTOR,
        )
        query = select(*_CHANGE).outerjoin(verdicts, ours)
        stale = or_(
            verdicts.c.state.is_(None),
            # Undecided, or in alarm and perhaps waiting for something else.
            verdicts.c.state.not_in([str(state) for state in GOOD]),
            window_changes.c.changed_at >= verdicts.c.judged_at,
        )
        found = connection.execute(query.where(clusters, stale))
        return [(row.topic, row.window, row.changed_at) for row in found]

    def _decided(self, connection: Connection) -> dict[TopicWindow, int]:
        query = select(verdicts.c.topic, verdicts.c.window, verdicts.c.judged_at).where(
            verdicts.c.edge == self.hop.edge.name,
            verdicts.c.source == COLLECTOR,
            verdicts.c.state.in_([str(state) for state in GOOD]),
        )
        return {(row[0], row[1]): row[2] for row in connection.execute(query)}

    def _owes(self, topic: str, window: int) -> bool:
        edge = self.hop.edge
        if not (is_audited(topic, self._settings.topics) and passes(edge, topic)):
            return False
        since = self._owed_from(edge, topic)
        return not since or window >= since  # what carries no time lies before all time

    def _judge(self, ledger: Ledger, topic: str, windows: Sequence[int], now: int) -> list[Verdict]:
        with ledger.store.read() as connection:
            doubted = self._in_doubt(connection, topic, windows, now)
            windows = [window for window in windows if window not in doubted]
            source = StoreFacts(connection, self._settings, now)
            judged = judge_apart(
                self.hop.edge,
                topic,
                windows,
                lambda some: judge_windows(source, self.hop, topic, some, self._settings, now),
                passing=(SQLAlchemyError, TallymarkError),
            )
            collides = self._collides(connection, topic)
        with ledger.write(now) as connection:
            kept = [verdict for verdict in judged if self._is_stored(verdict)]
            news = record_verdicts(connection, kept, COLLECTOR, now, self._settings.window_ms)
            if collides:
                incident = Incident("collision", collides, topic)
                fold_incident(connection, ledger.cluster, incident, now)
            for verdict in filter(is_unjudged, news):
                fold_incident(connection, ledger.cluster, _unjudged(verdict), now)
        for verdict in judged:
            self._schedule(verdict, now)
        self._due.update(((topic, window), now + WAITING_MS) for window in doubted)
        for verdict in news:
            log_verdict(verdict)
        return news

    def _in_doubt(
        self, connection: Connection, topic: str, windows: Sequence[int], now: int
    ) -> set[int]:
        """Windows that will be counted again: a verdict on their present counts would not hold."""
        places = self.hop.places(topic, topics_known(connection, self.hop))
        return recounts.waiting(connection, places, windows, now)

    def _collides(self, connection: Connection, topic: str) -> str:
        """Why the topic cannot be distinguished from another one downstream; ``""`` if it can, or
        if that was reported before."""
        edge = self.hop.edge
        if edge.kind != "mirror" or topic in self._collisions:
            return ""
        why = collision(edge, topic, topics_known(connection, self.hop)[edge.upstream])
        if why:
            self._collisions.add(topic)
        return why

    def _is_stored(self, verdict: Verdict) -> bool:
        """Whether to store the verdict. On an implied edge the origin of a record is not known
        until its home cluster is counted too."""
        if is_unjudged(verdict):
            return True
        young = verdict.state in (State.OPEN, State.SETTLING)
        return not (self.hop.edge.implied and young and not verdict.claimed)

    def _schedule(self, verdict: Verdict, now: int) -> None:
        key = (verdict.topic, verdict.window)
        end = verdict.window + self._settings.window_ms
        # A window in alarm for one thing may still wait for another one.
        states = {verdict.state, verdict.held, *(cell.waits for cell in verdict.cells)}
        if State.OPEN in states:
            self._due[key] = max(end, now + WAITING_MS)
        elif awaits_load(verdict) and verdict.young_until <= now:
            self._due.pop(key, None)
            changed = max(min(end, now), self._seen.get(key, 0))
            overdue = changed + self.hop.edge.overdue_ms
            self._loads.wait(key, max(now + LONGEST_CROWD_MS, overdue))
        elif State.SETTLING in states:
            # What a clock that is ahead stamped settles by when it was written, not by its end.
            quiet = max(min(end, now), self._seen.get(key, 0)) + self._settings.settle_min_ms
            self._due[key] = max(quiet, self._settled_at(verdict, now))
        elif State.UNKNOWN in states:
            first = max(self._patience(key[0]), LONGEST_WAIT_MS // 2)
            crowd = self._crowd(key[0]) + self._beside
            self._due[key] = self._waiting.again_at(key, now, first, crowd)
            return
        else:
            self._due.pop(key, None)
        self._waiting.ended(key)

    def _settled_at(self, verdict: Verdict, now: int) -> int:
        """When to judge a settling window again. The time is known beforehand, unless late records
        change the settle time; where many windows wait, they are seldom judged before it."""
        soon = self._patience(verdict.topic)
        seldom = max(soon, self._crowd(verdict.topic) * EACH_MS)
        return now + min(seldom, max(soon, verdict.young_until - now))

    def _patience(self, topic: str) -> int:
        """How long (ms) to leave a window that waits: the longer, the more windows wait."""
        crowd = self._crowd(topic)
        return max(
            min(LONGEST_WAIT_MS, WAITING_MS + 2 * crowd),
            min(LONGEST_CROWD_MS, EACH_OF_CROWD_MS * (crowd - CROWD)),
        )

    def _crowd(self, topic: str) -> int:
        """How many windows wait, as one topic sees it: as if each topic had as many as this one. So
        a topic with thousands of windows delays its own windows, and thousands of topics delay each
        other."""
        return min(len(self._due), self._many[topic] * len(self._many))


def _unjudged(verdict: Verdict) -> Incident:
    """The incident about a window that cannot be judged."""
    place = f"{verdict.edge} {utc(verdict.window)}"
    return Incident(UNJUDGED_KIND, f"{place} {verdict.reasons[0]}", verdict.topic)


def log_verdict(verdict: Verdict) -> None:
    """Write a log line about a verdict that needs attention."""
    if is_unjudged(verdict):
        place = verdict.edge, verdict.topic, utc(verdict.window)
        log.error("%s %s %s %s", *place, verdict.reasons[0])
    if verdict.state in GOOD or verdict.state in UNDECIDED:
        return
    place = verdict.edge, verdict.topic, utc(verdict.window)
    log.warning("%s %s %s: %s (%s)", *place, verdict.state, _what_is_wrong(verdict))


def _what_is_wrong(verdict: Verdict) -> str:
    """The counts that are not 0, and which blocks of sequences are changed."""
    counts = ("missing", "duplicates", "unclaimed")
    said = [f"{n} {name}" for name in counts if (n := getattr(verdict, name))]
    changed = sum(len(cell.corrupt) for cell in verdict.cells)
    if changed:
        said.append(f"changed messages in {changed} blocks of {BLOCK} sequences")
    return ", ".join(said) or "; ".join(verdict.reasons)
