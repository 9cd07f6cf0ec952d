"""All that is known about an incident on one time line: when its windows were found bad and when
they were good again, which alerts were sent, what happened to the logs, which jobs and repairs ran,
and what people decided."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Connection, Select, or_, select

from tallymark_audit.judge.states import GOOD, State
from tallymark_audit.model.edges import PRODUCER
from tallymark_audit.store.judged.graph import known_edges
from tallymark_audit.store.reading.incidents import WindowIncident
from tallymark_audit.store.reading.window_evidence import edge_of
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import (
    alerts,
    decisions,
    incidents,
    repairs,
    runs,
    verdict_history,
)

MOST: Final = 200
"""Moments of one kind, the last ones."""
BEFORE_MS: Final = 600_000
"""What happened to the logs so long before the first window belongs to it, too."""
_WELL: Final = tuple(str(one) for one in (*GOOD, State.OPEN, State.SETTLING))
MomentKind = Literal["verdict", "alert", "told", "resolved", "log", "run", "repair", "decision"]


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened (``at``, ms). ``window``: about which window; None: about all of
    them, or about the topic. ``what``: one word, as LOSS, TallymarkMissingMessages, truncated or
    reconcile; ``text``: a line about it. ``row``: the row of the store, as JSON has it."""

    at: int
    kind: MomentKind
    what: str
    text: str
    row: Row
    window: int | None = None


def timeline(connection: Connection, one: WindowIncident, about: Collection[str]) -> list[Moment]:
    """Its moments, the earliest first. ``about``: the fingerprints of the alerts that there can be
    about its topic on its edge."""
    edge = edge_of([known.edge for known in known_edges(connection)], one.edge)
    clusters = sorted({edge.upstream, edge.downstream, edge.home} - {PRODUCER})
    names = sorted({one.topic, edge.downstream_topic(one.topic)})
    found = [
        *_verdicts(connection, one),
        *_alerts(connection, one, about),
        *_logs(connection, one, clusters, names),
        *_runs(connection, one),
        *_repairs(connection, one),
        *_decisions(connection, one),
    ]
    return sorted(found, key=lambda moment: (moment.at, moment.kind, moment.window or 0))


def _verdicts(connection: Connection, one: WindowIncident) -> list[Moment]:
    past = verdict_history.c
    query = select(verdict_history).where(
        past.edge == one.edge,
        past.topic == one.topic,
        past.window.between(one.first_window, one.last_window),
        # A first verdict only says that there are messages, unless they are wrong.
        or_(past.revision > 0, past.state.not_in(_WELL)),
    )
    return [
        Moment(
            row["judged_at"],
            "verdict",
            row["state"],
            "; ".join(row["reasons"]),
            row,
            row["window"],
        )
        for row in _last(connection, query, past.judged_at, past.revision)
    ]


def _alerts(connection: Connection, one: WindowIncident, about: Collection[str]) -> list[Moment]:
    """Those about the edge and topic that began while it lasted."""
    a = alerts.c
    query = select(alerts).where(a.fingerprint.in_(about), a.starts_at >= one.opened_at)
    if one.closed_at:
        query = query.where(a.starts_at <= one.closed_at)
    found: list[Moment] = []
    for row in _last(connection, query, a.starts_at):
        said = row["annotations"]
        text = str(said.get("summary", "")) if isinstance(said, dict) else ""
        found.append(Moment(row["starts_at"], "alert", row["rule"], text, row))
        if row["told_at"]:
            told = f"posted as {row['told']}"
            found.append(Moment(row["told_at"], "told", row["rule"], told, row))
        if row["ends_at"]:
            found.append(Moment(row["ends_at"], "resolved", row["rule"], text, row))
    return found


def _logs(
    connection: Connection, one: WindowIncident, clusters: list[str], names: list[str]
) -> list[Moment]:
    met = incidents.c
    query = select(incidents).where(
        met.cluster.in_(clusters),
        met.topic.in_(names),
        met.at >= min(one.first_window, one.opened_at) - BEFORE_MS,
    )
    if one.closed_at:
        query = query.where(met.at <= one.closed_at)
    return [
        Moment(row["at"], "log", row["kind"], row["reason"], row)
        for row in _last(connection, query, met.id)
    ]


def _runs(connection: Connection, one: WindowIncident) -> list[Moment]:
    """Jobs that judged some of its windows, and ended since it was opened."""
    t = runs.c
    query = select(runs).where(
        t.from_ms <= one.last_window,
        t.to_ms > one.first_window,
        or_(t.finished_at == 0, t.finished_at >= one.opened_at),
    )
    return [
        Moment(row["finished_at"] or row["started_at"], "run", row["job"], row["outcome"], row)
        for row in _last(connection, query, t.id)
    ]


def _repairs(connection: Connection, one: WindowIncident) -> list[Moment]:
    t = repairs.c
    query = select(repairs).where(
        t.edge == one.edge,
        t.topic == one.topic,
        t.window.between(one.first_window, one.last_window),
    )
    return [
        Moment(
            row["at"],
            "repair",
            f"repair {row['id']}",
            f"{row['copied']} copied, {row['present']} were there: {row['outcome']}"
            + (f" ({row['reason']})" if row["reason"] else ""),
            row,
            row["window"],
        )
        for row in _last(connection, query, t.id)
    ]


def _decisions(connection: Connection, one: WindowIncident) -> list[Moment]:
    """The users who accepted its windows, or began to repair them."""
    t = decisions.c
    query = select(decisions).where(
        t.edge == one.edge,
        t.topic == one.topic,
        t.window <= one.last_window,
        t.window_end > one.first_window,
    )
    return [
        Moment(
            row["at"],
            "decision",
            row["action"],
            f"by {row['who']}" + (f": {row['note']}" if row["note"] else ""),
            row,
            row["window"] if row["action"] != "repair" else None,
        )
        for row in _last(connection, query, t.id)
    ]


def _last(connection: Connection, query: Select[Any], *order: ColumnElement[int]) -> list[Row]:
    """The last rows by these columns."""
    found = query.order_by(*(one.desc() for one in order)).limit(MOST)
    return [dict(row) for row in connection.execute(found).mappings()]
