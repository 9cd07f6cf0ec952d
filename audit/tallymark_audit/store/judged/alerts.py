"""Alerts in the store, and until when notifications are paused."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, delete, func, or_, select, update

from tallymark_audit.model.alert import Alert, NotifiedState
from tallymark_audit.store.schema.rows import Row, RowLike
from tallymark_audit.store.schema.tables import alerts, meta
from tallymark_audit.store.schema.upsert import upsert

PAUSED = "alerts_paused_until"
DONE = ("resolved", "nobody")


def unfinished(connection: Connection) -> list[Alert]:
    """The alerts that are not resolved, and those whose end is not posted yet; oldest first."""
    query = select(alerts).where(or_(alerts.c.status != "resolved", alerts.c.told.not_in(DONE)))
    rows = connection.execute(query.order_by(alerts.c.starts_at, alerts.c.fingerprint)).mappings()
    return [_from_row(row) for row in rows if _is_sound(row)]


def last_told(connection: Connection) -> int:
    """When (ms) an alert was last posted; 0: never."""
    return connection.scalar(select(func.max(alerts.c.told_at))) or 0


def save(connection: Connection, changed: Iterable[Alert]) -> None:
    """Write what became of alerts."""
    upsert(connection, alerts, [_to_row(alert) for alert in changed])


def forget(connection: Connection, gone: Iterable[Alert]) -> None:
    """Remove those that never fired."""
    for alert in gone:
        connection.execute(delete(alerts).where(*_same(alert)))


def mark_told(connection: Connection, alert: Alert, told: NotifiedState, now: int) -> None:
    """The webhook has taken that of it. What has become of the alert meanwhile stays."""
    connection.execute(update(alerts).where(*_same(alert)).values(told=told, told_at=now))


def paused_until(connection: Connection) -> int:
    """Until when (ms) nothing is posted; 0: no pause."""
    value = connection.scalar(select(meta.c.value).where(meta.c.key == PAUSED))
    return int(value) if value and value.isdecimal() else 0


def pause(connection: Connection, until: int) -> None:
    """Post nothing until then (ms); 0: end the pause."""
    upsert(connection, meta, [{"key": PAUSED, "value": str(until)}])


def _same(alert: Alert) -> tuple[ColumnElement[bool], ...]:
    return alerts.c.fingerprint == alert.fingerprint, alerts.c.starts_at == alert.starts_at


def _to_row(alert: Alert) -> Row:
    return {
        "fingerprint": alert.fingerprint,
        "rule": alert.rule,
        "status": alert.status,
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "starts_at": alert.starts_at,
        "ends_at": alert.ends_at,
        "told": alert.told,
        "told_at": alert.told_at,
    }


def _is_sound(row: RowLike) -> bool:
    """Whether the row is an alert: a row that makes no sense must not stop the others."""
    labels, said = row["labels"], row["annotations"]
    return isinstance(labels, dict) and isinstance(said, dict) and "alertname" in labels


def _from_row(row: RowLike) -> Alert:
    return Alert(
        labels=row["labels"],
        annotations=row["annotations"],
        status=row["status"],
        starts_at=row["starts_at"],
        ends_at=row["ends_at"],
        told=row["told"],
        told_at=row["told_at"],
    )
