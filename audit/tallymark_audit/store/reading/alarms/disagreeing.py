"""Windows about which the two independent counts differ, found by way of the few windows that are
not COMPLETE: where both are, they agree. So a page may ask for it while there are millions of
verdicts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, and_, or_, select

from tallymark_audit.judge.states import UNDECIDED, State
from tallymark_audit.store.judged.verdicts import SPARK
from tallymark_audit.store.schema.rows import RowLike
from tallymark_audit.store.schema.tables import verdicts

_COMPARED: Final = ("state", "missing", "duplicates")
_UNDECIDED: Final = tuple(str(one) for one in UNDECIDED)
_SUSPECT: Final = tuple(str(one) for one in State if one not in UNDECIDED and one != State.COMPLETE)


@dataclass(frozen=True, slots=True)
class Counted:
    """What one of the two says about a window, and when it did (ms)."""

    state: str
    missing: int
    duplicates: int
    judged_at: int


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A window (start, ms) of a topic on an edge about which they differ."""

    edge: str
    topic: str
    window: int
    spark: Counted
    collector: Counted


def disagreements_between(
    connection: Connection, edges: Collection[str], start: int, end: int, limit: int
) -> list[Disagreement]:
    """Those of windows that begin from ``start`` up to ``end`` (ms, excluded), newest first, though
    Spark looked after the collector's last change. ``edges``: all edges to look at."""
    one, other = verdicts.alias("one"), verdicts.alias("other")
    # Expressions, not columns, on the right: SQLite, which knows no sizes here, must go from the
    # few that are suspect to the one window of the other source, and not by a range of windows.
    same = and_(
        other.c.edge == one.c.edge.concat(""),
        other.c.topic == one.c.topic,
        other.c.window == one.c.window + 0,
    )
    names = (*_COMPARED, "judged_at")
    query = (
        select(
            one.c.edge,
            one.c.topic,
            one.c.window,
            one.c.source,
            *(one.c[name].label(f"one_{name}") for name in names),
            *(other.c[name].label(f"other_{name}") for name in names),
        )
        .join(other, and_(same, one.c.source != other.c.source))
        .where(
            one.c.edge.in_(sorted(edges)),
            one.c.state.in_(_SUSPECT),
            one.c.window >= start,
            one.c.window < end,
            other.c.state.not_in(_UNDECIDED),
            or_(*(one.c[name] != other.c[name] for name in _COMPARED)),
            or_(
                and_(one.c.source == SPARK, one.c.judged_at >= other.c.judged_at),
                and_(other.c.source == SPARK, other.c.judged_at >= one.c.judged_at),
            ),
        )
        .order_by(one.c.window.desc(), one.c.edge, one.c.topic)
        .limit(2 * limit)  # a window of which both sides are suspect is found twice
    )
    found: dict[tuple[str, str, int], Disagreement] = {}
    for row in connection.execute(query).mappings():
        place = row["edge"], row["topic"], row["window"]
        sides = _counted(row, "one"), _counted(row, "other")
        spark, collector = sides if row["source"] == SPARK else reversed(sides)
        found.setdefault(place, Disagreement(*place, spark, collector))
    return list(found.values())[:limit]


def _counted(row: RowLike, side: str) -> Counted:
    return Counted(*(row[f"{side}_{name}"] for name in (*_COMPARED, "judged_at")))
