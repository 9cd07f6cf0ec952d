"""Alarms that were taken back: a window was called wrong, and later was not, although nothing had
been repaired. People who are woken by false alarms soon ignore the true ones.

Pure but for the reading: history and alerts come from the store, as any user reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import select

from tallymark_audit.proof.drill.faults import kinds
from tallymark_audit.proof.drill.findings.found import ALARMS
from tallymark_audit.proof.drill.truth.expected import DUPLICATION
from tallymark_audit.store import open_store
from tallymark_audit.store.schema.tables import alerts, verdict_history

Row = Mapping[str, Any]
WindowKey = tuple[str, str, int]
"""Edge, topic, window."""

_SILENCES: Final[Mapping[str, tuple[str, ...]]] = {
    "TallymarkReporterSilent": (
        "-producer",
        "-host",
        "-consumer",
        "-broker",
        kinds.TORN_TAIL,
        *kinds.REPLICA_FAULTS,
    ),
    "TallymarkMirrorSilent": (
        "-mirror",
        "-broker",
        kinds.TORN_TAIL,
        *kinds.REST_FAULTS,
        *kinds.REPLICA_FAULTS,
    ),
    "TallymarkCollectorSilent": (
        "-collector",
        "-broker",
        kinds.CUT_OUT,
        kinds.TORN_TAIL,
        *kinds.REST_FAULTS,
        *kinds.REPLICA_FAULTS,
    ),
}
"""The faults that explain an alert about silence, by the ends of their names."""
_OF_VERDICTS: Final = (
    "TallymarkMissingMessages",
    "TallymarkCorruptMessages",
    "TallymarkDuplicateMessages",
)


def read_history(store: str) -> list[dict[str, Any]]:
    """Every revision of every verdict that was an alarm: edge, topic, window, state, judged_at,
    reasons."""
    columns = ("edge", "topic", "window", "source", "revision", "state", "judged_at", "reasons")
    query = select(*[verdict_history.c[name] for name in columns])
    query = query.where(verdict_history.c.state.in_(ALARMS))
    with open_store(store) as opened, opened.read() as connection:
        rows = connection.execute(query.order_by(verdict_history.c.judged_at)).mappings().all()
    return [dict(row) for row in rows]


def read_alerts(store: str) -> list[dict[str, Any]]:
    """Every alert there was: rule, status, labels, starts_at, ends_at."""
    columns = ("rule", "status", "labels", "starts_at", "ends_at")
    query = select(*[alerts.c[name] for name in columns]).order_by(alerts.c.starts_at)
    with open_store(store) as opened, opened.read() as connection:
        return [dict(row) for row in connection.execute(query).mappings().all()]


def in_alarm(rows: Iterable[Row]) -> set[WindowKey]:
    """The windows that these verdicts call wrong."""
    return {_place(row) for row in rows if row["state"] in ALARMS}


def taken_back(
    history: Iterable[Row], rows: Iterable[Row], since: int = 0, but: Iterable[WindowKey] = ()
) -> list[str]:
    """Windows that were called wrong from ``since`` (ms) on and are not in ``rows``, the verdicts
    that hold; of each the first time. ``but``: windows that may have been repaired."""
    still = in_alarm(rows) | set(but)
    first: dict[WindowKey, Row] = {}
    for row in history:
        if row["judged_at"] >= since and _place(row) not in still and not _may_be_over(row):
            first.setdefault(_place(row), row)
    return [
        f"{row['edge']} {row['topic']} {row['window']} was {row['state']}: "
        f"{'; '.join(row['reasons'][:2])}"
        for row in first.values()
    ]


def alerts_taken_back(found: Iterable[Row], done: Iterable[str], since: int = 0) -> list[str]:
    """Alerts that began ``since`` (ms), fired and are over, and are not of what the drill has done
    (kinds of faults). Those of verdicts follow the verdicts: see :func:`taken_back`."""
    faults = tuple(done)
    return [
        f"{alert['rule']} {alert['labels']} from {alert['starts_at']} to {alert['ends_at']}"
        for alert in found
        if alert["status"] == "resolved"
        and alert["starts_at"] >= since
        and alert["rule"] not in _OF_VERDICTS
        and not any(kind.endswith(_SILENCES.get(alert["rule"], ())) for kind in faults)
    ]


def _may_be_over(row: Row) -> bool:
    """What was there twice is there once after its second copies were removed from the disk."""
    return row["state"] == DUPLICATION and row["topic"] in kinds.REMOVED_AT_REST


def _place(row: Row) -> WindowKey:
    return row["edge"], row["topic"], row["window"]
