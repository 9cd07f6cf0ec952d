"""Alerts by what they are about and by time: the log of an alert, and who was notified of an
incident."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, or_, select

from tallymark_audit.store.counted.facts import chunks
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import alerts

MOST_OF_ONE: Final = 2_000
"""Alerts read for a page of incidents, the newest of each hundred of fingerprints."""


class WhichAlerts(NamedTuple):
    """Which of them; None or empty is all. ``start`` and ``end`` (ms, excluded): those that held at
    some time then."""

    statuses: Sequence[str] = ()
    rule: str = ""
    start: int | None = None
    end: int | None = None


def alerts_of(connection: Connection, fingerprints: Collection[str]) -> list[Row]:
    """All alerts that ever were of these fingerprints, the oldest first."""
    found: list[Row] = []
    for some in chunks(sorted(fingerprints)):
        query = select(alerts).where(alerts.c.fingerprint.in_(some))
        query = query.order_by(alerts.c.starts_at.desc()).limit(MOST_OF_ONE)
        found += [dict(row) for row in connection.execute(query).mappings()]
    return sorted(found, key=lambda row: (row["starts_at"], row["fingerprint"]))


def alert_log(
    connection: Connection, which: WhichAlerts, limit: int = 50, skip: int = 0
) -> list[Row]:
    """Alerts, the newest first."""
    t = alerts.c
    query = select(alerts).where(*_conditions(which))
    query = query.order_by(t.starts_at.desc(), t.fingerprint).limit(limit).offset(skip)
    return [dict(row) for row in connection.execute(query).mappings()]


def alert_count(connection: Connection, which: WhichAlerts) -> int:
    """How many of them there are."""
    query = select(func.count()).select_from(alerts).where(*_conditions(which))
    return connection.scalar(query) or 0


def alert_rules(connection: Connection) -> list[str]:
    """The rules of which there ever was an alert, by name."""
    return list(connection.scalars(select(alerts.c.rule).distinct().order_by(alerts.c.rule)))


def _conditions(which: WhichAlerts) -> list[ColumnElement[bool]]:
    t = alerts.c
    found: list[ColumnElement[bool]] = []
    if which.statuses:
        found.append(t.status.in_(which.statuses))
    if which.rule:
        found.append(t.rule == which.rule)
    if which.end is not None:
        found.append(t.starts_at < which.end)
    if which.start is not None:
        found.append(or_(t.ends_at == 0, t.ends_at >= which.start))
    return found
