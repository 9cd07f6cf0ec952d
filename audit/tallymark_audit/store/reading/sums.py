"""Sums of verdicts over any period, and what of several hops counts once. Pages and the API read
these instead of verdicts.

Whole hours and ten minutes come from ``verdict_sums``, what a period has besides from the verdicts
themselves, so a sum is exact for any bounds. A message of a topic is claimed at its first hop, and
missing at the hop where it was lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Select,
    and_,
    func,
    or_,
    select,
    union_all,
)
from sqlalchemy.sql.expression import CTE

from tallymark_audit.judge.states import State
from tallymark_audit.model.edges import PRODUCER
from tallymark_audit.store.counted.totals import HOUR, MINUTES_10
from tallymark_audit.store.judged.verdicts import effective
from tallymark_audit.store.schema.balance import adding_columns
from tallymark_audit.store.schema.rows import RowLike
from tallymark_audit.store.schema.summed_tables import (
    BALANCED,
    BESIDE,
    IN_STATE,
    IS_BAD,
    SUMMED,
)
from tallymark_audit.store.schema.tables import (
    incident_windows,
    topic_sums,
    verdict_sums,
    verdicts,
)

Period = tuple[int, int]
"""Start and end (ms, excluded)."""
Only = Literal["all", "bad", "odd"]
"""Which rows of a period: all; those with bad windows; those that say more than that windows are
COMPLETE, which few do."""


@dataclass(slots=True)  # a heatmap makes thousands, and frozen ones take longer; never changed
class Sums:
    """Messages and windows of some verdicts. ``claimed = observed + pending + missing +
    explained``, always.

    ``observed``: how many of the claimed are there. ``pending``: they have not arrived, and it is
    not decided whether they will (OPEN, SETTLING, UNKNOWN). ``explained``: absent for a stated
    reason. Beside these are the ``duplicates`` (copies beyond the first), the ``unclaimed`` (seen,
    but never claimed) and the ``excused`` (refused or in doubt: never claimed, and absent).

    ``bad``: windows that are wrong or UNKNOWN and not accepted; ``accepted``: those that are, and
    were. ``states``: the number of windows by state, without zeros."""

    claimed: int = 0
    observed: int = 0
    pending: int = 0
    missing: int = 0
    explained: int = 0
    duplicates: int = 0
    unclaimed: int = 0
    excused: int = 0
    bad: int = 0
    accepted: int = 0
    states: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def windows(self) -> int:
        """All of them."""
        return sum(self.states.values())

    @property
    def wrong(self) -> tuple[int, int, int, int]:
        """By what an operator looks at first: missing, duplicates, unclaimed, bad windows."""
        return self.missing, self.duplicates, self.unclaimed, self.bad

    def __add__(self, other: Sums) -> Sums:
        states = dict(self.states)
        for name, count in other.states.items():
            states[name] = states.get(name, 0) + count
        return Sums(
            self.claimed + other.claimed,
            self.observed + other.observed,
            self.pending + other.pending,
            self.missing + other.missing,
            self.explained + other.explained,
            self.duplicates + other.duplicates,
            self.unclaimed + other.unclaimed,
            self.excused + other.excused,
            self.bad + other.bad,
            self.accepted + other.accepted,
            states,
        )


STATEMENTS: Final = 32
"""Statements that are kept as they were built: a page that is looked at asks the same of the same
topics each second, and to build a statement of twenty sums takes as long as to run it."""
_MESSAGES: Final = len((*BALANCED, *BESIDE))
_STATES: Final = tuple(str(state) for state in IN_STATE)
WRONG: Final = ("missing", "duplicates", "unclaimed")
"""Messages that are where they should not be, or are not."""
_ODD: Final = (*WRONG, *(name for state, name in IN_STATE.items() if state is not State.COMPLETE))


def sums_of(row: RowLike) -> Sums:
    """From a row that has the columns ``SUMMED``."""
    return sums_in([row[name] for name in SUMMED])


def sums_in(values: Sequence[Any]) -> Sums:
    """From the values of the columns ``SUMMED``, in that order. Sums of the database may be
    decimals, or NULL of nothing."""
    if not isinstance(values[0], int):
        values = [int(value or 0) for value in values]
    found = values[_MESSAGES:-2]
    if any(found[1:]):
        states = {name: count for name, count in zip(_STATES, found, strict=True) if count}
    else:  # nearly always all of them are in the first one, COMPLETE
        states = {_STATES[0]: found[0]} if found[0] else {}
    claimed, observed, pending, missing, explained, copies, unclaimed, excused = values[:_MESSAGES]
    bad, accepted = values[-2:]
    return Sums(
        claimed, observed, pending, missing, explained, copies, unclaimed, excused, bad, accepted,
        states,
    )  # fmt: skip


def summed(columns: Any, names: Sequence[str] = SUMMED) -> list[ColumnElement[Any]]:
    """The sums of these columns of a table or a subquery, under the same names."""
    return [func.sum(columns[name]).label(name) for name in names]


def once(hops: Mapping[str, Sums]) -> Sums:
    """The sums of several hops (by edge) as one, each message once: what was claimed counts at the
    first hops, and what is pending, missing or explained where that happened. Windows are those of
    all hops.

    Of a topic with branches a message may be missing in each of them: then as much is claimed as
    was owed there."""
    if not hops:
        return Sums()
    whole, *others = hops.values()
    if not others:
        return whole
    for one in others:
        whole = whole + one
    absent = whole.pending + whole.missing + whole.explained
    claimed = sum([hops[name].claimed for name in first_hops(frozenset(hops))])
    whole.claimed = max(claimed, absent)
    whole.observed = whole.claimed - absent
    return whole


@lru_cache(maxsize=1000)
def first_hops(edges: frozenset[str]) -> frozenset[str]:
    """Those of the edges where messages come in: from producers, or out of a cluster into which
    none of the edges leads."""
    return frozenset(
        edge
        for edge in edges
        if edge.startswith(f"{PRODUCER}-to-")
        or not any(one.endswith(f"-to-{edge.partition('-to-')[0]}") for one in edges - {edge})
    )


def hop_sums(
    connection: Connection, topics: Collection[str], start: int, end: int
) -> dict[str, dict[str, Sums]]:
    """The sums of these topics, by topic and edge, of the windows that begin from ``start`` up to
    ``end`` (ms, excluded)."""
    if not topics:
        return {}
    query = _hop_query(tuple(sorted(topics)), start, end)
    found: dict[str, dict[str, Sums]] = {}
    rows: Iterable[Any] = connection.execute(query)
    for row in rows:
        found.setdefault(row[0], {})[row[1]] = sums_in(row[2:])
    return found


@lru_cache(maxsize=STATEMENTS)
def _hop_query(topics: tuple[str, ...], start: int, end: int) -> Executable:
    source = period_sums(start, end, topics=topics)
    query = select(source.c.topic, source.c.edge, *summed(source.c))
    return query.group_by(source.c.topic, source.c.edge)


def period_sums(
    start: int,
    end: int,
    *,
    topics: Collection[str] | None = None,
    edge: str | None = None,
    only: Only = "all",
    finest: int = HOUR,
    columns: Sequence[str] = SUMMED,
) -> CTE:
    """The rows that make up a period: ``edge``, ``topic``, ``at`` (ms) and these of the columns
    ``SUMMED``, of whole hours, of ten minutes and of single windows; of none that is longer than
    ``finest`` (ms)."""
    parts: list[Select[Any]] = []
    left = [(start, end)] if start < end else [(0, 0)]
    for span in (HOUR, MINUTES_10):
        if finest % span == 0:
            whole = [one for period in left if (one := _whole(period, span))]
            left = [rest for period in left for rest in _rest(period, span)]
            if whole:
                parts.append(_of_spans(span, whole, only, columns))
    if left or not parts:
        parts.append(_of_windows(left, only, columns))
    if topics is not None:
        # By way of the edges that have the topic: both tables are in the order of edges.
        known, names = topic_sums.c, sorted(topics)
        parts = [
            one.join(
                topic_sums,
                and_(known.edge == _named(one, "edge"), known.topic == _named(one, "topic")),
            ).where(known.topic.in_(names))
            for one in parts
        ]
    if edge is not None:
        parts = [one.where(_named(one, "edge") == edge) for one in parts]
    return union_all(*parts).cte("period") if len(parts) > 1 else parts[0].cte("period")


def _named(query: Select[Any], name: str) -> ColumnElement[Any]:
    return query.selected_columns[name]


def _of_spans(
    span: int, periods: Sequence[Period], only: Only, columns: Sequence[str]
) -> Select[Any]:
    t = verdict_sums.c
    query = select(t.edge, t.topic, t.start.label("at"), *[t[name] for name in columns])
    query = query.where(t.span == span, _within(t.start, periods))
    if only == "odd":
        return query.where(or_(*[t[name] > 0 for name in _ODD]))
    return query.where(IS_BAD) if only == "bad" else query


def _of_windows(periods: Sequence[Period], only: Only, columns: Sequence[str]) -> Select[Any]:
    v, bad = verdicts.c, incident_windows.c
    added = {one.name: one for one in adding_columns(verdicts)}
    query = select(v.edge, v.topic, v.window.label("at"), *[added[name] for name in columns])
    if only == "bad":
        # By way of the few windows that are bad: told the period of the verdicts, too, SQLite would
        # begin with all verdicts of it.
        same = and_(bad.edge == v.edge, bad.topic == v.topic, bad.window == v.window)
        query = query.join(incident_windows, same)
        return query.where(bad.closed_at == 0, _within(bad.window, periods), effective())
    if only == "odd":
        # Of the columns as they are: sums of columns would have to be made of every verdict.
        odd = [v.state != str(State.COMPLETE), *[v[name] > 0 for name in WRONG]]
        query = query.where(or_(*odd))
    return query.where(_within(v.window, periods), effective())


def _within(column: ColumnElement[int], periods: Sequence[Period]) -> ColumnElement[bool]:
    return or_(*[and_(column >= low, column < high) for low, high in periods])


def _whole(period: Period, span: int) -> Period | None:
    """The part of a period that consists of whole spans."""
    low, high = period[0] + -period[0] % span, period[1] - period[1] % span
    return (low, high) if low < high else None


def _rest(period: Period, span: int) -> list[Period]:
    """What is left of a period without its whole spans."""
    whole = _whole(period, span)
    if whole is None:
        return [period]
    both = ((period[0], whole[0]), (whole[1], period[1]))
    return [one for one in both if one[0] < one[1]]
