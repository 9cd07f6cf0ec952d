"""The rules of alerts. Pure: facts, settings and the time are arguments.

    TallymarkMissingMessages    critical  more missing in a settled window than ``missing``
    TallymarkCorruptMessages    critical  a window holds messages that are not what was sent
    TallymarkPartitionDamaged   critical  a batch of a partition cannot be read: it is not counted
    TallymarkTransactionHangs   critical  a transaction that will not end keeps readers waiting
    TallymarkUnjudgedWindows    critical  what the store holds of a window makes no sense
    TallymarkTooManyRuns        warning   more new runs, or windows far from now, than are kept
    TallymarkDuplicateMessages  warning   more copies in a settled window than ``duplicates``
    TallymarkWatermarkStalled   warning   not moved for ``stalled_ms`` beyond its settle time
    TallymarkReporterSilent     warning   a run of a producer or consumer that went silent
    TallymarkMirrorSilent       warning   a mirror that does not report
    TallymarkCollectorSilent    critical  a cluster without a live collector
    TallymarkCountersDisagree   warning   collector and Spark differ about the same window
    TallymarkRetentionRisk      critical  what retention deletes soon is not copied or counted
    TallymarkLoadOverdue        warning   what the load has not brought into the lake for too long

An alert is one rule on one edge and topic (or cluster), however many windows it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tallymark.deployment import AlertSettings
from tallymark.untrusted import command
from tallymark_audit.alerts.conditions import Condition, Severity, condition
from tallymark_audit.alerts.hanging_transactions import HANGING, hanging_transactions
from tallymark_audit.alerts.overdue_loads import LOAD, overdue_loads
from tallymark_audit.alerts.payload import LINK
from tallymark_audit.judge.damage import Damaged
from tallymark_audit.model.open_transaction import OpenTransaction
from tallymark_audit.model.pages import topic_page, window_page
from tallymark_audit.model.time_format import utc
from tallymark_audit.store.counted.openings import Overflowed
from tallymark_audit.store.reading.alarms.backlogs import Backlog
from tallymark_audit.store.reading.alarms.watching import Silent, WrongWindows

MISSING: Final = "TallymarkMissingMessages"
CORRUPT: Final = "TallymarkCorruptMessages"
DAMAGED: Final = "TallymarkPartitionDamaged"
UNJUDGED: Final = "TallymarkUnjudgedWindows"
TOO_MANY_RUNS: Final = "TallymarkTooManyRuns"
DUPLICATES: Final = "TallymarkDuplicateMessages"
STALLED: Final = "TallymarkWatermarkStalled"
REPORTER: Final = "TallymarkReporterSilent"
MIRROR: Final = "TallymarkMirrorSilent"
COLLECTOR: Final = "TallymarkCollectorSilent"
DISAGREE: Final = "TallymarkCountersDisagree"
RETENTION: Final = "TallymarkRetentionRisk"
RULES: Final = (
    MISSING, CORRUPT, DAMAGED, HANGING, UNJUDGED, DUPLICATES, STALLED, REPORTER, MIRROR, COLLECTOR,
    DISAGREE, RETENTION, TOO_MANY_RUNS, LOAD,
)  # fmt: skip

HOLD_MS: Final = 5_000
"""How long something wrong in the data has to last: the next look at it may see it repaired."""
SLOW_HOLD_MS: Final = 60_000
NAMED: Final = 5
"""Reporters that an annotation names."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The watermark of a topic on an edge, times in ms. ``hole``: what holds it; empty where it
    waits for a report or a count. ``begun``: since when it has not moved from its start, 0, or
    since when a window that is still settling holds it: late records move a watermark back."""

    edge: str
    topic: str
    through: int
    settle_ms: int
    hole: str = ""
    hole_window: int | None = None
    begun: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts in the store at one moment, for the edges that one collector judges.
    ``missing_groups``: groups that have to report and never did. ``retention_ms`` is by (cluster,
    topic), without those that keep all; ``heartbeats`` of the collectors this one watches over.
    ``hanging``: transactions that will not end by themselves. ``overflowed``: partitions that had
    more runs than are kept, recently. ``overdue_ms``: by edge into the lake, how long what is not
    loaded may wait."""

    missing: Sequence[WrongWindows] = ()
    duplicates: Sequence[WrongWindows] = ()
    corrupt: Sequence[WrongWindows] = ()
    unjudged: Sequence[WrongWindows] = ()
    disagreements: Sequence[WrongWindows] = ()
    damaged: Sequence[Damaged] = ()
    hanging: Sequence[OpenTransaction] = ()
    overflowed: Sequence[Overflowed] = ()
    marks: Sequence[Mark] = ()
    silent: Sequence[Silent] = ()
    missing_groups: Sequence[tuple[str, str]] = ()
    heartbeats: Mapping[str, int] = field(default_factory=dict[str, int])
    backlogs: Sequence[Backlog] = ()
    retention_ms: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    overdue_ms: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of the rules; times in ms."""

    alerts: AlertSettings
    window_ms: int
    silence_ms: int
    console: str

    def judge(self, facts: Facts, now: int) -> list[Condition]:
        """All conditions that hold at ``now`` (ms)."""
        counted = [one for one in facts.disagreements if one.messages]
        judged = [one for one in facts.disagreements if not one.messages]
        return [
            *self._windows(MISSING, "critical", facts.missing, "missing"),
            *self._windows(CORRUPT, "critical", facts.corrupt, "changed on the way"),
            *self._damaged(facts.damaged),
            *hanging_transactions(facts.hanging, lambda topic: self._link(topic=topic)),
            *self._overflowed(facts.overflowed),
            *self._windows(DUPLICATES, "warning", facts.duplicates, "there more than once"),
            *self._windows(DISAGREE, "warning", counted, "counted differently by Spark"),
            *self._windows(DISAGREE, "warning", judged, "judged otherwise by Spark"),
            *self._unjudged(facts.unjudged),
            *self._stalled(facts.marks, now),
            *self._silent(facts.silent),
            *self._groups(facts.missing_groups),
            *self._collectors(facts.heartbeats, now),
            *self._retention(facts, now),
            *overdue_loads(facts.backlogs, facts.overdue_ms, now, lambda t: self._link(topic=t)),
        ]

    def _windows(
        self, rule: str, severity: Severity, found: Iterable[WrongWindows], what: str
    ) -> Iterator[Condition]:
        for one in found:
            newest = utc(one.newest)
            yield condition(
                rule,
                severity,
                {"edge": one.edge, "topic": one.topic},
                {
                    "summary": f"{one.topic} on {one.edge}: {_how_many(one, rule)} {what}",
                    "description": f"{one.windows} windows, the newest is {newest}. See: "
                    + command("tallymark audit evidence", one.edge, one.topic, newest),
                    LINK: self._link(one.edge, one.topic, one.newest),
                },
                HOLD_MS,
            )

    def _damaged(self, found: Iterable[Damaged]) -> Iterator[Condition]:
        newest = {(one.cluster, one.topic, one.partition): one for one in found}
        for one in newest.values():
            yield condition(
                DAMAGED,
                "critical",
                {"cluster": one.cluster, "topic": one.topic, "partition": str(one.partition)},
                {
                    "summary": one.reason,
                    "description": "it is not counted, and windows that may have records there are "
                    "UNKNOWN; what stands before and behind it is judged. See what the log has: "
                    "tallymark verify-log --deep on its broker. It is counted when it is repaired; "
                    "what is not is told of for a day",
                    LINK: self._link(topic=one.topic),
                },
                HOLD_MS,
            )

    def _overflowed(self, found: Iterable[Overflowed]) -> Iterator[Condition]:
        topics: dict[tuple[str, str], int] = {}
        for one in found:
            place = one.cluster, one.topic
            topics[place] = topics.get(place, 0) + one.records
        for (cluster, topic), records in topics.items():
            yield condition(
                TOO_MANY_RUNS,
                "warning",
                {"cluster": cluster, "topic": topic},
                {
                    "summary": f"{topic} of {cluster}: {records} records are of more new runs than "
                    "are kept",
                    "description": "or their timestamps are all over time. They are counted, not "
                    "told apart, and UNCLAIMED. See who writes there; a fleet that is so large "
                    "needs a larger audit.max_new_runs",
                    LINK: self._link(topic=topic),
                },
                HOLD_MS,
            )

    def _unjudged(self, found: Iterable[WrongWindows]) -> Iterator[Condition]:
        for one in found:
            newest = utc(one.newest)
            yield condition(
                UNJUDGED,
                "critical",
                {"edge": one.edge, "topic": one.topic},
                {
                    "summary": f"{one.topic} on {one.edge}: {one.windows} windows cannot be judged",
                    "description": "what the store holds of them makes no sense; all others are "
                    f"judged. The newest is {newest}. See: "
                    + command("tallymark audit evidence", one.edge, one.topic, newest),
                    LINK: self._link(one.edge, one.topic, one.newest),
                },
                HOLD_MS,
            )

    def _stalled(self, marks: Iterable[Mark], now: int) -> Iterator[Condition]:
        for mark in marks:
            patience = self.window_ms + mark.settle_ms + self.alerts.stalled_ms
            if now - max(mark.through, mark.begun) <= patience:
                continue
            why = mark.hole or "a reporter or a counter has not come that far"
            complete = f"complete through {utc(mark.through)} only"
            if not mark.through and not mark.hole:
                complete = f"not complete through anything since {utc(mark.begun)}"
            yield condition(
                STALLED,
                "warning",
                {"edge": mark.edge, "topic": mark.topic},
                {
                    "summary": f"{mark.topic} on {mark.edge} is {complete}",
                    "description": f"held by: {why}",
                    LINK: self._link(mark.edge, mark.topic, mark.hole_window),
                },
            )

    def _silent(self, silent: Iterable[Silent]) -> Iterator[Condition]:
        groups: dict[tuple[str, str, str], list[Silent]] = {}
        for one in silent:
            # Mirrors are few and each has its name; of the others there may be thousands.
            name = one.reporter if one.kind == "mirror" else one.consumer_group
            groups.setdefault((one.cluster, one.kind, name), []).append(one)
        for (cluster, kind, name), members in groups.items():
            about = {"cluster": cluster, "kind": kind}
            if name:
                about["mirror" if kind == "mirror" else "group"] = name
            yield condition(
                MIRROR if kind == "mirror" else REPORTER,
                "warning",
                about,
                {
                    "summary": f"{len(members)} {kind} reporters of {cluster} are silent, "
                    f"the first since {utc(members[0].last_heard)}",
                    "description": f"{_named(members)}. Windows that wait for them are UNKNOWN. "
                    "Start them again, or end them: tallymark audit retire REPORTER",
                    LINK: self._link(),
                },
                HOLD_MS,
            )

    def _groups(self, groups: Iterable[tuple[str, str]]) -> Iterator[Condition]:
        for cluster, group in groups:
            yield condition(
                REPORTER,
                "warning",
                {"cluster": cluster, "kind": "consumer", "group": group},
                {
                    "summary": f"the group {group} of {cluster} does not report",
                    "description": "the settings say that it processes audited topics, and none of "
                    "its members has the consumer hook",
                    LINK: self._link(),
                },
                SLOW_HOLD_MS,
            )

    def _collectors(self, heartbeats: Mapping[str, int], now: int) -> Iterator[Condition]:
        for cluster, heard in heartbeats.items():
            if now - heard <= self.silence_ms:
                continue
            yield condition(
                COLLECTOR,
                "critical",
                {"cluster": cluster},
                {
                    "summary": f"no collector has counted {cluster} since {utc(heard)}",
                    "description": "its windows become UNKNOWN. Start: "
                    + command("tallymark audit collect", cluster=cluster),
                    LINK: self._link(),
                },
                HOLD_MS,
            )

    def _retention(self, facts: Facts, now: int) -> Iterator[Condition]:
        worst: dict[tuple[str, str, str], tuple[int, Backlog]] = {}
        for backlog in facts.backlogs:
            kept = facts.retention_ms.get((backlog.cluster, backlog.topic))
            if kept is None:
                continue
            left = backlog.oldest + kept - now
            key = (backlog.reader, backlog.cluster, backlog.topic)
            if left < self.alerts.retention_margin_ms and left < worst.get(key, (left + 1,))[0]:
                worst[key] = left, backlog
        for (reader, cluster, topic), (left, backlog) in worst.items():
            about = {"cluster": cluster, "topic": topic}
            about |= {} if reader == "collector" else {"edge": reader}
            done = "loaded" if reader in facts.overdue_ms else "copied"
            do = "counted" if reader == "collector" else done
            yield condition(
                RETENTION,
                "critical",
                about,
                {
                    "summary": f"{topic} of {cluster}: messages that are not {do} yet will be "
                    f"deleted in {max(0, left) // 1000} s",
                    "description": f"{backlog.offsets} offsets of partition {backlog.partition} "
                    f"wait, the oldest from {utc(backlog.oldest)}; retention.ms keeps less. Make "
                    f"{reader} go on, or raise the topic's retention.ms",
                    LINK: self._link(),
                },
                HOLD_MS,
            )

    def _link(self, edge: str = "", topic: str = "", window: int | None = None) -> str:
        if window is None:
            return topic_page(self.console, topic)
        return window_page(self.console, edge, topic, window)


def _how_many(one: WrongWindows, rule: str) -> str:
    """Of messages; where they are not known (yet), or only the states differ, of windows."""
    if one.messages:
        return f"{one.messages} messages"
    return f"{one.windows} windows" if rule == DISAGREE else f"{one.windows} windows with messages"


def _named(members: Sequence[Silent]) -> str:
    shown = [f"{one.reporter} on {one.server or 'an unnamed server'}" for one in members[:NAMED]]
    more = len(members) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
