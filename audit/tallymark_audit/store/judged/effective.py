"""Which of two verdicts on a window holds: the collector's or Spark's. In SQL and in Python."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from sqlalchemy import ColumnElement, and_, exists, or_

from tallymark_audit.judge.states import UNDECIDED
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import verdicts

COLLECTOR: Final = "collector"
SPARK: Final = "spark"
_UNDECIDED: Final = tuple(str(state) for state in UNDECIDED)


@cache
def effective() -> ColumnElement[bool]:
    """The condition that keeps one verdict a window: Spark's, until the collector, which watches
    on, decides on something newer than Spark has looked at (a repair, late data)."""
    other = verdicts.alias("other")
    same = and_(
        other.c.edge == verdicts.c.edge,
        other.c.topic == verdicts.c.topic,
        other.c.window == verdicts.c.window,
    )
    spark_wins = and_(
        verdicts.c.source == COLLECTOR,
        other.c.source == SPARK,
        or_(
            other.c.judged_at >= verdicts.c.judged_at,
            verdicts.c.state.in_(_UNDECIDED),
        ),
    )
    collector_wins = and_(
        verdicts.c.source == SPARK,
        other.c.source == COLLECTOR,
        other.c.judged_at > verdicts.c.judged_at,
        other.c.state.not_in(_UNDECIDED),
    )
    return ~exists().where(same, or_(spark_wins, collector_wins))


def effective_of(rows: Mapping[str, Row | None]) -> Row | None:
    """The same of the verdicts of one window by source; None if there is none."""
    collector, spark = rows.get(COLLECTOR), rows.get(SPARK)
    if collector is None or spark is None:
        return spark if collector is None else collector
    decided = collector["state"] not in UNDECIDED
    return collector if decided and collector["judged_at"] > spark["judged_at"] else spark
