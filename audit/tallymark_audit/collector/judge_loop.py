"""Judge what ends at this cluster, as counts and claims come in.

A window is judged when something about it changed, and when time alone may have changed its
verdict: that moment is kept beside it. What is judged is read in one snapshot and written in one
fenced transaction, so that two collectors never argue.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, and_, func, or_, select

from tallymark.deployment import AuditSettings
from tallymark_audit.cells import Edge
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.collector.marks import update_watermarks
from tallymark_audit.edges import is_audited, passes
from tallymark_audit.judging import Hop, hops_into, judge_windows, settle_ms
from tallymark_audit.store.tables import reporters, verdicts, window_changes
from tallymark_audit.store.verdicts import COLLECTOR, record_verdicts
from tallymark_audit.text import utc
from tallymark_audit.verdicts import GOOD, UNDECIDED, State, Verdict

log: Final = logging.getLogger(__name__)
AT_ONCE: Final = 500
SLACK_MS: Final = 30_000
"""Changes are looked for this far back: clocks differ, and transactions take their time."""
WAITING_MS: Final = 1_000
LONGEST_WAIT_MS: Final = 10_000
MARK_MS: Final = 2_000
Window = tuple[str, int]
"""Topic, and start in ms."""


class JudgeLoop:
    """Judges the edges into one cluster. FencedError from :meth:`step`: see Ledger."""

    def __init__(self, ledger: Ledger, edges: Sequence[Edge], settings: AuditSettings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._mark_at = 0
        self._hops = [_HopLoop(hop, settings) for hop in hops_into(edges, ledger.cluster)]

    def step(self, now: int) -> list[Verdict]:
        """Judge all that is due; returns the verdicts that are news."""
        news: list[Verdict] = []
        for hop in self._hops:
            news += hop.step(self._ledger, now)
        if now >= self._mark_at:
            self._mark_at = now + MARK_MS
            update_watermarks(self._ledger, [hop.hop for hop in self._hops], self._settings, now)
        return news


class _HopLoop:
    def __init__(self, hop: Hop, settings: AuditSettings) -> None:
        self.hop = hop
        self._settings = settings
        self._since: int | None = None
        self._seen: dict[Window, int] = {}
        self._due: dict[Window, int] = {}
        self._ended = -1

    def step(self, ledger: Ledger, now: int) -> list[Verdict]:
        with ledger.store.read() as connection:
            self._look(connection, now)
        by_topic: dict[str, list[int]] = {}
        for (topic, window), due in self._due.items():
            if due <= now:
                by_topic.setdefault(topic, []).append(window)
        news: list[Verdict] = []
        for topic, windows in by_topic.items():
            for start in range(0, len(windows), AT_ONCE):
                news += self._judge(ledger, topic, windows[start : start + AT_ONCE], now)
        return news

    def _look(self, connection: Connection, now: int) -> None:
        """Mark as due what changed since the last look; at the first, what is not up to date."""
        if self._since is None:
            changed = self._stale(connection)
            self._since = 0
        else:
            changed = self._changed(connection, self._since - SLACK_MS)
        for topic, window, changed_at in changed:
            if self._crosses(topic) and self._seen.get((topic, window), -1) < changed_at:
                self._seen[topic, window] = changed_at
                self._due[topic, window] = now
            self._since = max(self._since, changed_at)
        self._look_at_reporters(connection, now)
        horizon = self._since - 2 * SLACK_MS
        self._seen = {key: at for key, at in self._seen.items() if at >= horizon}

    def _look_at_reporters(self, connection: Connection, now: int) -> None:
        """When a reporter has closed or was retired, whatever waits may be waiting for it."""
        query = select(func.count()).where(
            reporters.c.cluster == self.hop.edge.downstream,
            or_(reporters.c.closed, reporters.c.retired_at > 0),
        )
        ended = connection.scalar(query) or 0
        if ended != self._ended:
            self._ended = ended
            self._due = dict.fromkeys(self._due, now)

    def _changed(self, connection: Connection, since: int) -> list[tuple[str, int, int]]:
        query = (
            select(
                window_changes.c.topic,
                window_changes.c.window,
                func.max(window_changes.c.changed_at),
            )
            .where(
                window_changes.c.cluster.in_(self._clusters()),
                window_changes.c.changed_at >= since,
            )
            .group_by(window_changes.c.topic, window_changes.c.window)
        )
        return [(row[0], row[1], row[2]) for row in connection.execute(query)]

    def _stale(self, connection: Connection) -> list[tuple[str, int, int]]:
        ours = and_(
            verdicts.c.edge == self.hop.edge.name,
            verdicts.c.topic == window_changes.c.topic,
            verdicts.c.window == window_changes.c.window,
            verdicts.c.source == COLLECTOR,
        )
        query = (
            select(window_changes.c.topic, window_changes.c.window, window_changes.c.changed_at)
            .outerjoin(verdicts, ours)
            .where(
                window_changes.c.cluster.in_(self._clusters()),
                or_(
                    verdicts.c.state.is_(None),
                    verdicts.c.state.in_([str(state) for state in UNDECIDED]),
                    window_changes.c.changed_at >= verdicts.c.judged_at,
                ),
            )
        )
        return [(row[0], row[1], row[2]) for row in connection.execute(query)]

    def _clusters(self) -> list[str]:
        upstream = [edge.upstream for edge in self.hop.siblings if edge.kind == "mirror"]
        edge = self.hop.edge
        own = [edge.upstream] if edge.kind == "mirror" else upstream
        return [edge.downstream, *own]

    def _crosses(self, topic: str) -> bool:
        return is_audited(topic, self._settings.topics) and passes(self.hop.edge, topic)

    def _judge(self, ledger: Ledger, topic: str, windows: list[int], now: int) -> list[Verdict]:
        with ledger.store.read() as connection:
            judged = judge_windows(connection, self.hop, topic, windows, self._settings, now)
        with ledger.write(now) as connection:
            told = [verdict for verdict in judged if self._worth_telling(verdict)]
            news = record_verdicts(connection, told, COLLECTOR, now)
        for verdict in judged:
            self._schedule(verdict, now)
        for verdict in news:
            _tell(verdict)
        return news

    def _worth_telling(self, verdict: Verdict) -> bool:
        """On an implied edge a record is a stranger until its home cluster is counted too."""
        young = verdict.state in (State.OPEN, State.SETTLING)
        return not (self.hop.edge.implied and young and not verdict.claimed)

    def _schedule(self, verdict: Verdict, now: int) -> None:
        key = (verdict.topic, verdict.window)
        end = verdict.window + self._settings.window_ms
        if verdict.state is State.OPEN:
            self._due[key] = max(end, now + WAITING_MS)
        elif verdict.state is State.SETTLING:
            quiet = max(end, self._seen.get(key, 0)) + settle_ms(self._settings)
            self._due[key] = max(quiet, now + self._patience)
        elif verdict.state is State.UNKNOWN:
            self._due[key] = now + max(self._patience, LONGEST_WAIT_MS // 2)
        else:
            self._due.pop(key, None)

    @property
    def _patience(self) -> int:
        """How long to leave a window that waits for others: the longer the more there are."""
        return min(LONGEST_WAIT_MS, WAITING_MS + 2 * len(self._due))


def _tell(verdict: Verdict) -> None:
    if verdict.state in GOOD or verdict.state in UNDECIDED:
        return
    log.warning(
        "%s %s %s: %s (%d missing, %d duplicates, %d unclaimed)",
        verdict.edge,
        verdict.topic,
        utc(verdict.window),
        verdict.state,
        verdict.missing,
        verdict.duplicates,
        verdict.unclaimed,
    )
