"""Keep the watermarks of the edges into a cluster."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from tallymark.deployment import AuditSettings
from tallymark.errors import TallymarkError
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.edges import is_audited, passes
from tallymark_audit.judge.hops import Hop
from tallymark_audit.judge.judging import counters_through, settle_ms, topics_known
from tallymark_audit.judge.states import GOOD, state_of
from tallymark_audit.judge.watermarks import Judged, watermark
from tallymark_audit.store import facts
from tallymark_audit.store.rows import Row
from tallymark_audit.store.tables import progress, verdicts, watermarks
from tallymark_audit.store.upsert import upsert
from tallymark_audit.store.verdicts import effective

log: Final = logging.getLogger(__name__)
MAX_HOLES: Final = 100
MAX_LOOK: Final = 2000
"""Windows that are not good, looked at from the oldest on; more than that many accepted ones in a
row would hide a later hole, nothing else."""


def update_watermarks(
    ledger: Ledger, hops: Sequence[Hop], settings: AuditSettings, now: int
) -> None:
    """Write the watermark of every topic on these edges, where it moved."""
    with ledger.store.read() as connection:
        old = {
            (row["edge"], row["topic"]): row
            for row in connection.execute(select(watermarks)).mappings()
        }
        rows = [
            row
            for hop in hops
            for topic in _topics(connection, hop, settings)
            if (row := _sound_row(connection, hop, topic, settings, now)) is not None
        ]
    moved = [row for row in rows if _differs(row, old.get((row["edge"], row["topic"])))]
    if moved:
        with ledger.write(now) as connection:
            upsert(connection, watermarks, moved)


def _sound_row(
    connection: Connection, hop: Hop, topic: str, settings: AuditSettings, now: int
) -> Row | None:
    """None where something in the store makes no sense: that watermark stands still, the topic's
    windows say why, and the others go on."""
    try:
        return _row(connection, hop, topic, settings, now)
    except (SQLAlchemyError, TallymarkError):
        raise
    except Exception as error:
        log.debug("no watermark of %s on %s", topic, hop.edge.name, exc_info=error)
        return None


def _row(connection: Connection, hop: Hop, topic: str, settings: AuditSettings, now: int) -> Row:
    horizon = _horizon(connection, hop, topic, settings, now)
    query = select(verdicts.c.window, verdicts.c.state, verdicts.c.accepted_by).where(
        verdicts.c.edge == hop.edge.name,
        verdicts.c.topic == topic,
        verdicts.c.state.not_in([str(state) for state in GOOD]),
        effective(),
    )
    judged = [
        Judged(row.window, state_of(row.state), bool(row.accepted_by))
        for row in connection.execute(query.order_by(verdicts.c.window).limit(MAX_LOOK))
    ]
    mark = watermark(judged, horizon, settings.window_ms)
    return {
        "edge": hop.edge.name,
        "topic": topic,
        "through": mark.through,
        "horizon": horizon - horizon % settings.window_ms,
        "holes": [[hole.window, str(hole.state), hole.accepted] for hole in mark.holes[:MAX_HOLES]],
        "at": now,
    }


def _horizon(
    connection: Connection, hop: Hop, topic: str, settings: AuditSettings, now: int
) -> int:
    """Up to when (ms) the absence of records means that there were none."""
    known = topics_known(connection, hop)
    settle = settle_ms(connection, hop, topic, settings, now)
    horizon = min(now, *counters_through(connection, hop, topic, known)) - settle
    if hop.edge.kind == "producer":
        for reporter in facts.reporters_of(connection, hop.edge.downstream, topic, ()):
            if not reporter.ended and not reporter.backfill:
                horizon = min(horizon, reporter.complete_through)
    return max(0, horizon)


def _topics(connection: Connection, hop: Hop, settings: AuditSettings) -> list[str]:
    edge = hop.edge
    if edge.implied:
        query = select(verdicts.c.topic).where(verdicts.c.edge == edge.name).distinct()
    else:
        cluster = edge.downstream if edge.kind == "producer" else edge.upstream
        query = select(progress.c.topic).where(progress.c.cluster == cluster).distinct()
    topics = sorted(row.topic for row in connection.execute(query))
    return [t for t in topics if is_audited(t, settings.topics) and passes(edge, t)]


def _differs(row: Row, old: object) -> bool:
    if old is None:
        return True
    return any(row[name] != old[name] for name in ("through", "horizon", "holes"))  # type: ignore[index]  # a row of the store
