"""The chore that alerts: read the facts, decide, store the alerts, and post changes in a thread.

A decision is in the store before it is posted, and a post is recorded when the webhook has accepted
it. A collector that is killed at any point posts an alert twice at worst.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from sqlalchemy import Connection

from tallymark.clock import now_ms
from tallymark.deployment import Deployment
from tallymark.deployment.secret_text import resolve
from tallymark_audit.alerts import machine
from tallymark_audit.alerts.facts import (
    backlogs,
    find_disagreements,
    judged_edges,
    read_facts,
    watcher_of,
)
from tallymark_audit.alerts.machine import MAX_ALERTS, Telling
from tallymark_audit.alerts.payload import body
from tallymark_audit.alerts.retention import RetentionTimes, TopicOf, admin_of
from tallymark_audit.alerts.rules import COLLECTOR, Rules
from tallymark_audit.alerts.webhook import Refused, Webhook
from tallymark_audit.collector.background_call import BackgroundCall
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.model.alert import Alert
from tallymark_audit.model.cells import GROUP, Edge
from tallymark_audit.model.edges import derive_edges
from tallymark_audit.store.judged import alerts as stored
from tallymark_audit.store.judged.verdict_changes import Answers
from tallymark_audit.store.reading.alarms.watching import WrongWindows

log: Final = logging.getLogger(__name__)
LOOK_MS: Final = 2_000
LONGEST_LOOK_MS: Final = 5_000
"""Alerts are looked at between every so often and this: a twelfth of a window."""
COMPARE_MS: Final = 60_000
"""How often the verdicts of collector and Spark are compared, where any has changed."""
LONGEST_COMPARE_MS: Final = 600_000
"""And how often all the same."""


class Retention(Protocol):
    """A source of the retention times of topics."""

    def known(self, topics: set[TopicOf], now: int) -> Mapping[TopicOf, int]: ...


Post = Callable[[Mapping[str, Any]], Refused | None]


@dataclass(slots=True)
class Counts:
    """What the alerter did since it was made, for the metrics."""

    posts: int = 0
    failed_posts: int = 0


@dataclass(frozen=True, slots=True)
class Owners:
    """Which cluster's collector cares for an alert. ``homes``: of the edges, by name."""

    clusters: Sequence[str]
    homes: Mapping[str, str]

    @classmethod
    def of(cls, deployment: Deployment) -> Owners:
        """Those of a deployment."""
        homes = {edge.name: edge.home for edge in derive_edges(deployment)}
        return cls([one.name for one in deployment.clusters], homes)

    def of_alert(self, alert: Alert) -> str:
        """The cluster. What is about an edge or a cluster that the settings no longer have falls
        to the first one's collector, which ends it."""
        cluster = self._cluster_of(alert)
        return cluster if cluster in self.clusters else self.clusters[0]

    def _cluster_of(self, alert: Alert) -> str:
        if "edge" in alert.labels:
            edge = alert.labels["edge"]
            return self.homes.get(edge) or edge.partition(f"-to-{GROUP}")[0]
        cluster = alert.labels.get("cluster", "")
        if alert.rule == COLLECTOR and cluster in self.clusters:
            return watcher_of(cluster, self.clusters)
        return cluster


class Alerter:
    """Alerts about what ends at the ledger's cluster. A chore: FencedError and SQLAlchemyError from
    :meth:`step`. UserError from the constructor: the webhook's address makes no sense."""

    name = "alerting"

    def __init__(
        self,
        ledger: Ledger,
        deployment: Deployment,
        post: Post | None = None,
        retention: Retention | None = None,
    ) -> None:
        self.counts = Counts()
        self._ledger = ledger
        self._deployment = deployment
        self._settings = deployment.audit.alerts
        webhook = resolve(self._settings.webhook, "webhook of [audit.alerts]")
        self._post = post or (Webhook.of(webhook).post if webhook else None)
        self._retention: Retention = retention or RetentionTimes(admin_of(deployment))
        self._owners = Owners.of(deployment)
        audit = deployment.audit
        self.every_ms = min(max(LOOK_MS, audit.window_ms // 12), LONGEST_LOOK_MS)
        self._rules = Rules(
            self._settings, audit.window_ms, audit.silence_ms, deployment.console_url
        )
        self._aside: BackgroundCall[Refused | None] = BackgroundCall("alert webhook")
        self._under_way: list[Telling] = []
        self._tried_at: int | None = None
        self._failures = 0
        self._differ: list[WrongWindows] = []
        self._compare_at = 0
        self._compared = Answers(LONGEST_COMPARE_MS)
        self._answers = Answers(COMPARE_MS)

    def step(self, now: int) -> None:
        """One look, and a post if one is due. Never waits for the webhook."""
        self._take_outcome(now)
        known, paused = self._look(now)
        if self._post is not None and not paused:
            self._tell(self._post, known, now)

    def _look(self, now: int) -> tuple[list[Alert], bool]:
        """Bring the alerts up to date. Returns them, and whether nothing is to be posted."""
        with self._ledger.store.read() as connection:
            known = [
                alert
                for alert in stored.unfinished(connection)
                if self._owners.of_alert(alert) == self._ledger.cluster
            ]
            paused = now < stored.paused_until(connection)
            if self._tried_at is None:
                self._tried_at = stored.last_told(connection)
            edges = judged_edges(connection, self._deployment, self._ledger.cluster)
            waiting = backlogs(connection, self._ledger.cluster, edges)
            kept = self._retention.known({(one.cluster, one.topic) for one in waiting}, now)
            differ = self._disagreements(connection, edges, now)
            facts = replace(
                read_facts(
                    connection, self._deployment, self._ledger.cluster, edges, now, self._answers
                ),
                disagreements=differ,
                backlogs=waiting,
                retention_ms=kept,
            )
        conditions = self._rules.judge(facts, now)
        step = machine.advance(known, conditions, now, paused or self._post is None)
        if step.changed or step.forgotten:
            with self._ledger.write(now) as connection:
                stored.save(connection, step.changed)
                stored.forget(connection, step.forgotten)
            known = _after(known, step)
        return known, paused

    def _disagreements(
        self, connection: Connection, edges: Sequence[Edge], now: int
    ) -> list[WrongWindows]:
        if now >= self._compare_at:
            names = tuple(edge.name for edge in edges)
            self._compared.look(connection, now)
            self._differ = self._compared.of(names, lambda: find_disagreements(connection, names))
            self._compare_at = now + COMPARE_MS
        return self._differ

    def _tell(self, post: Post, known: list[Alert], now: int) -> None:
        due = machine.next_post_at(self._tried_at or 0, self._failures, self._interval)
        if now < due or not self._aside.idle:
            return
        news = machine.news(known, now, self._settings.repeat_interval_ms)
        if not news:
            return
        told, more = news[:MAX_ALERTS], len(news[MAX_ALERTS:])
        going_on = machine.still_firing(known, news)
        group = {"deployment": self._deployment.name, "collector": self._ledger.cluster}
        text = body(told, going_on, group, self._rules.console, more)
        self._under_way, self._tried_at = told, now
        self._aside.start(lambda: post(text))

    def _take_outcome(self, now: int) -> None:
        outcome = self._aside.take()
        if outcome is None:
            return
        error = outcome.exception()
        refused = Refused(f"{type(error).__name__}: {error}") if error else outcome.result()
        told, self._under_way = self._under_way, []
        if refused is not None:
            self.counts.failed_posts += 1
            if not self._failures:
                log.warning("alerts cannot be told: %s; will try again", refused.reason)
            self._failures += 1
            return
        if self._failures:
            log.info("alerts are told again")
        self._failures = 0
        self.counts.posts += 1
        with self._ledger.write(now) as connection:
            for alert, status in told:
                stored.mark_told(connection, alert, status, now)

    @property
    def _interval(self) -> int:
        return self._settings.send_interval_ms


def _after(known: list[Alert], step: machine.Step) -> list[Alert]:
    """All alerts as they are now, those that just ended too."""
    gone = {_identity(alert) for alert in step.forgotten}
    now = {_identity(alert): alert for alert in (*known, *step.changed)}
    return [alert for key, alert in now.items() if key not in gone]


def _identity(alert: Alert) -> tuple[str, int]:
    return alert.fingerprint, alert.starts_at


def post_test(deployment: Deployment, now: int | None = None) -> Refused | None:
    """Post an alert that is marked as a test. UserError: there is no webhook, or no such
    address."""
    settings = deployment.audit.alerts
    webhook = Webhook.of(resolve(settings.webhook, "webhook of [audit.alerts]"))
    at = now_ms() if now is None else now
    labels = {"alertname": "TallymarkTest", "severity": "warning"}
    annotations = {"summary": "this is a test of the audit's alerts", "description": "do nothing"}
    alert = Alert(labels, annotations, "firing", at)
    group = {"deployment": deployment.name}
    return webhook.post(body([Telling(alert, "firing")], [], group, deployment.console_url))
