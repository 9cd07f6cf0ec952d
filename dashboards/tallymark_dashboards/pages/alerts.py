"""Alerts: those that hold now, the pauses of notifications, and the log."""

from __future__ import annotations

from typing import Final

from tallymark_audit.store.judged.alerts import paused_until
from tallymark_audit.store.reading.alarms.alert_log import (
    WhichAlerts,
    alert_count,
    alert_log,
    alert_rules,
)
from tallymark_audit.store.reading.runs import DecisionsAsked, decision_page
from tallymark_dashboards.frame.ask import Ask
from tallymark_dashboards.frame.page import Page
from tallymark_dashboards.frame.registry import page
from tallymark_dashboards.pages.gather import webhook_host
from tallymark_dashboards.view.incidents.alert_rows import STATUSES, AlertRow, alert_row
from tallymark_dashboards.view.marks import Tone

HOLDING: Final = 200
"""Alerts that hold which are shown; more than that have one cause."""
ROWS: Final = 50
PAUSES: Final = 10


@page("/alerts", name="alerts", nav="Alerts", live=True)
def alerts(ask: Ask) -> Page:
    """All about alerts, those that hold first."""
    connection = ask.connection
    now = WhichAlerts(statuses=("firing", "pending"))
    holding = sorted(map(alert_row, alert_log(connection, now, HOLDING)), key=_urgent)
    status = ask.one_of("status", ("", *STATUSES), "")
    rules = alert_rules(connection)
    which = WhichAlerts(
        statuses=(status,) if status else (),
        rule=ask.one_of("rule", ("", *rules), ""),
        start=ask.range.start,
        end=ask.range.end,
    )
    count = alert_count(connection, which)
    paging = ask.paging(count, ROWS)
    log = [alert_row(row) for row in alert_log(connection, which, ROWS, paging.skip)]
    until = paused_until(connection)
    values = {
        "holding": holding,
        "more": alert_count(connection, now) - len(holding),
        "log": log,
        "count": count,
        "number": paging.number,
        "pages": paging.pages,
        "status": status,
        "rule": which.rule,
        "statuses": tuple(STATUSES),
        "rules": rules,
        "paused": until if until > ask.now else 0,
        "pauses": decision_page(connection, DecisionsAsked(actions=("pause", "resume")), PAUSES),
        "host": webhook_host(ask),
    }
    tone, firing = _told(holding)
    return Page("Alerts", "pages/alerts.html", values, tone, firing)


def _urgent(row: AlertRow) -> tuple[bool, bool, int]:
    """Firing before pending, critical before warning, then the newest."""
    return row.status != "firing", row.tone != "bad", -row.starts_at


def _told(rows: list[AlertRow]) -> tuple[Tone, int]:
    firing = [row.tone for row in rows if row.status == "firing"]
    tone: Tone = "bad" if "bad" in firing else "warn" if firing else ""
    return tone, len(firing)
