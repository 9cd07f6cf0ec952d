"""What several pages show: the numbers of the pulse, incidents and the people notified, rows of
topics. No page of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallymark.deployment.secret_text import resolve
from tallymark.errors import UserError
from tallymark_audit.alerts.about import fingerprints
from tallymark_audit.alerts.webhook import Webhook
from tallymark_audit.store.reading import age as ages
from tallymark_audit.store.reading import heat, latency, pulse, worst
from tallymark_audit.store.reading.alarms.alert_log import alerts_of
from tallymark_audit.store.reading.incidents import (
    WhichIncidents,
    WindowIncident,
    incident_page,
)
from tallymark_audit.store.reading.queries import skewed_clocks
from tallymark_audit.store.schema.rows import Row
from tallymark_dashboards.frame.ask import Ask, Paging
from tallymark_dashboards.view.clock import Clock
from tallymark_dashboards.view.incidents.incident_rows import (
    ALARMING,
    KINDS,
    IncidentRow,
    incident_row,
)
from tallymark_dashboards.view.lag import GroupLag, Lag, lag_cell
from tallymark_dashboards.view.overview_rows import OverviewRow, judged_through, overview_row
from tallymark_dashboards.view.pulse_cards import Card, pulse_cards


def cards(ask: Ask) -> list[Card]:
    """The numbers at the top, of the range of the page."""
    audit, connection = ask.context.deployment.audit, ask.connection
    clusters = [one.name for one in ask.context.deployment.clusters]
    start, end = ask.range.start, ask.range.end
    of_all = pulse.pulse(connection, start, end)
    delays = latency.latency_of(connection, clusters, None, start, end)
    late = audit.settle_max_ms + ages.WINDOWS_LATE * audit.window_ms
    return pulse_cards(of_all, ask.age, delays, late)


def open_incidents(ask: Ask, limit: int) -> list[WindowIncident]:
    """Those that are open, the newest first; if there are more than fit, those of messages that
    are wrong before those of which nothing is known."""
    shown: list[WindowIncident] = []
    for kinds in (ALARMING, tuple(kind for kind in KINDS if kind not in ALARMING)):
        which = WhichIncidents(states=("OPEN",), kinds=kinds)
        shown += incident_page(ask.connection, which, limit=limit)
    return shown[:limit]


def incident_rows(ask: Ask, found: Sequence[WindowIncident]) -> list[IncidentRow]:
    """Lines of incidents; one query for the notifications of all of them."""
    alerts = alerts_about(ask, found)
    window_ms = ask.context.deployment.audit.window_ms
    return [incident_row(one, window_ms, alerts[one.edge, one.topic]) for one in found]


def alerts_about(ask: Ask, found: Sequence[WindowIncident]) -> Mapping[tuple[str, str], list[Row]]:
    """All alerts about the topics of incidents, by edge and topic, the oldest first."""
    by_place = {(one.edge, one.topic): fingerprints(one.edge, one.topic) for one in found}
    wanted = {mark for marks in by_place.values() for mark in marks}
    rows: dict[str, list[Row]] = {}
    for row in alerts_of(ask.connection, wanted):
        rows.setdefault(row["fingerprint"], []).append(row)
    return {
        place: [row for mark in marks for row in rows.get(mark, ())]
        for place, marks in by_place.items()
    }


def webhook_host(ask: Ask) -> str:
    """Who is notified, as far as it may be shown: the host of the webhook; \"\" where there is
    none."""
    address = ask.context.deployment.audit.alerts.webhook
    if not address:
        return ""
    try:
        return Webhook.of(resolve(address, "webhook of [audit.alerts]")).host
    except UserError:
        return "the webhook of the settings"


def worst_page(
    ask: Ask, start: int, end: int, rows: int, find: str
) -> tuple[worst.TopicPage, Paging]:
    """The page of topics that is asked for, the worst of the period first: the last one if it is
    beyond. How many there are is known only once one was read."""
    asked = (ask.page_asked - 1) * rows
    found = worst.worst(ask.connection, start, end, rows, asked, find)
    paging = ask.paging(found.topics, rows)
    if paging.skip != asked:
        found = worst.worst(ask.connection, start, end, rows, paging.skip, find)
    return found, paging


def topic_rows(ask: Ask, found: Sequence[worst.TopicSums], clock: Clock) -> list[OverviewRow]:
    """The rows of some topics, with their strips."""
    names = [one.topic for one in found]
    cells = heat.heat(ask.connection, names, clock.start, clock.end, clock.step)
    skewed: dict[str, str] = {}
    for (_, topic), reason in skewed_clocks(ask.connection, ask.now).items():
        skewed.setdefault(topic, reason)
    return [
        overview_row(
            one,
            cells[one.topic],
            clock,
            judged_through(ask.age, [hop.edge for hop in one.hops]),
            _lag(ask, one.topic),
            skewed.get(one.topic, ""),
        )
        for one in found
    ]


def _lag(ask: Ask, topic: str) -> Lag | None:
    """What groups have not read of a topic, as the background task last saw it."""
    return lag_cell(
        [
            GroupLag(one.cluster, one.group, one.lag, one.delay.ms if one.delay else -1, one.status)
            for one in ask.context.snapshots.lag_of(topic)
        ]
    )
