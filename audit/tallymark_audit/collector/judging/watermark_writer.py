"""Keep the watermarks of the edges into a cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from tallymark.deployment import AuditSettings
from tallymark.errors import TallymarkError
from tallymark_audit.collector.judging.horizons import Horizons
from tallymark_audit.collector.ledger import Ledger
from tallymark_audit.judge.hops import Hop
from tallymark_audit.judge.states import GOOD, state_of
from tallymark_audit.judge.watermarks import JudgedWindow, watermark
from tallymark_audit.model.cells import Edge
from tallymark_audit.model.edges import is_audited, passes
from tallymark_audit.store.judged.verdict_changes import Answers
from tallymark_audit.store.judged.verdicts import effective
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import verdicts, watermarks
from tallymark_audit.store.schema.upsert import upsert

log: Final = logging.getLogger(__name__)
MAX_HOLES: Final = 100
MAX_LOOK: Final = 2000
"""Windows that are not good, looked at from the oldest on; more than that many accepted ones in a
row would hide a later hole, nothing else."""


def update_watermarks(
    ledger: Ledger, hops: Sequence[Hop], settings: AuditSettings, now: int, answers: Answers
) -> None:
    """Write the watermark of every topic on these edges, where it moved. ``answers``: the same from
    one time to the next."""
    with ledger.store.read() as connection:
        answers.look(connection, now)
        look = _Look(connection, settings, now, answers, Horizons(connection, settings, now))
        old = {
            (row["edge"], row["topic"]): row
            for row in connection.execute(select(watermarks)).mappings()
        }
        rows = [
            row
            for hop in hops
            for topic in look.topics(hop)
            if (row := look.sound_row(hop, topic)) is not None
        ]
    moved = [row for row in rows if _differs(row, old.get((row["edge"], row["topic"])))]
    if moved:
        with ledger.write(now) as connection:
            upsert(connection, watermarks, moved)


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the watermarks, in one snapshot, at ``now`` (ms)."""

    connection: Connection
    settings: AuditSettings
    now: int
    answers: Answers
    horizons: Horizons

    def sound_row(self, hop: Hop, topic: str) -> Row | None:
        """The row; None where something in the store makes no sense: that watermark does not move,
        the verdicts of the topic give the reason, and other watermarks move on."""
        try:
            return self._row(hop, topic)
        except (SQLAlchemyError, TallymarkError):
            raise
        except Exception as error:
            log.debug("no watermark of %s on %s", topic, hop.edge.name, exc_info=error)
            return None

    def topics(self, hop: Hop) -> list[str]:
        """The edge's topics of which there may be a watermark."""
        edge = hop.edge
        if edge.implied:
            topics: Iterable[str] = self.answers.of(
                ("topics", edge.name), lambda: self._judged_topics(edge)
            )
        else:
            cluster = edge.downstream if edge.kind == "producer" else edge.upstream
            topics = self.horizons.topics(cluster)
        audited = self.settings.topics
        return [t for t in sorted(topics) if is_audited(t, audited) and passes(edge, t)]

    def _row(self, hop: Hop, topic: str) -> Row:
        horizon = self.horizons.of(hop, topic)
        name, window_ms = hop.edge.name, self.settings.window_ms
        bad = self.answers.of(("bad", name, topic), lambda: self._bad_windows(name, topic))
        mark = watermark(bad, horizon, window_ms)
        return {
            "edge": name,
            "topic": topic,
            "through": mark.through,
            "horizon": horizon - horizon % window_ms,
            "holes": [
                [hole.window, str(hole.state), hole.accepted] for hole in mark.holes[:MAX_HOLES]
            ],
            "at": self.now,
        }

    def _bad_windows(self, edge: str, topic: str) -> list[JudgedWindow]:
        """The bad windows that the watermark needs. It ends at the first one without an acceptance,
        and a row keeps :data:`MAX_HOLES` of them."""
        query = select(verdicts.c.window, verdicts.c.state, verdicts.c.accepted_by).where(
            verdicts.c.edge == edge,
            verdicts.c.topic == topic,
            verdicts.c.state.not_in([str(state) for state in GOOD]),
            effective(),
        )
        judged = [
            JudgedWindow(row.window, state_of(row.state), bool(row.accepted_by))
            for row in self.connection.execute(query.order_by(verdicts.c.window).limit(MAX_LOOK))
        ]
        first = next((at for at, one in enumerate(judged) if not one.accepted), len(judged))
        return judged[: max(MAX_HOLES, first + 1)]

    def _judged_topics(self, edge: Edge) -> list[str]:
        query = select(verdicts.c.topic).where(verdicts.c.edge == edge.name).distinct()
        return list(self.connection.scalars(query))


def _differs(row: Row, old: object) -> bool:
    if old is None:
        return True
    return any(row[name] != old[name] for name in ("through", "horizon", "holes"))  # type: ignore[index]  # a row of the store
