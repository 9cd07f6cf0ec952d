"""What a verdict adds to the sums, in Python and in SQL.

A verdict has three counts. ``claimed``: the messages that were acknowledged. ``observed``: all that
were seen, also those without a claim. ``explained``: all whose absence has a stated reason, also
those that were never acknowledged. So ``claimed`` is not the sum of the other two. The balanced
numbers add up, for every verdict and so for every sum::

    claimed = observed + pending + missing + explained

Beside that stand the duplicates, what was seen without a claim, and ``excused``: refused or in
doubt, so never claimed. Nothing is missing, repeated or without a claim while that is undecided:
what has not arrived is ``pending``. Once it is decided, what is left over (records that are known
by their number only: excused, or perhaps among those without a stamp) is ``explained``.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, Table, and_, case, literal

from tallymark_audit.judge.states import GOOD, UNDECIDED, State, state_of
from tallymark_audit.store.schema.rows import RowLike
from tallymark_audit.store.schema.summed_tables import ACCEPTED, BAD, IN_STATE, SUMMED

PASSING: Final = frozenset({State.OPEN, State.SETTLING})
"""The states of which nothing bad can be said yet."""
_DECIDED: Final = frozenset(str(state) for state in State if state not in UNDECIDED)
"""A state that is not known is UNKNOWN."""
Added = dict[str, int]
"""What a verdict adds to sums, by column."""
NOTHING: Final[Added] = dict.fromkeys(SUMMED, 0)


def counts_of(row: RowLike) -> Added:
    """The messages of a verdict, balanced: ``claimed``, ``observed``, ``pending``, ``missing``,
    ``explained``, ``duplicates``, ``unclaimed`` and ``excused``."""
    undecided = row["state"] not in _DECIDED
    claimed = row["claimed"]
    missing = min(row["missing"], claimed)
    rest = claimed - missing
    observed = min(rest, max(0, row["observed"] - row["unclaimed"]))
    explained = min(row["explained"], rest - observed)
    open_end = rest - observed - explained
    return {
        "claimed": claimed,
        "observed": observed,
        "pending": open_end + missing if undecided else 0,
        "missing": 0 if undecided else missing,
        "explained": explained if undecided else explained + open_end,
        "duplicates": 0 if undecided else row["duplicates"],
        "unclaimed": 0 if undecided else row["unclaimed"],
        "excused": row["explained"] - explained,
    }


def added_by(row: RowLike) -> Added:
    """All that one verdict adds to the sums."""
    state = state_of(row["state"])
    wrong = state not in GOOD and state not in PASSING
    accepted = bool(row["accepted_by"])
    return {
        **counts_of(row),
        **{name: int(state is one) for one, name in IN_STATE.items()},
        BAD: int(wrong and not accepted),
        ACCEPTED: int(wrong and accepted),
    }


def adding_columns(verdicts: Table) -> list[ColumnElement[Any]]:
    """:func:`added_by` as columns of a query, in the order of ``SUMMED``."""
    c = verdicts.c
    undecided = c.state.not_in(sorted(_DECIDED))
    missing = _least(c.missing, c.claimed)
    rest = c.claimed - missing
    seen = c.observed - c.unclaimed
    observed = _least(rest, case((seen > 0, seen), else_=0))
    explained = _least(c.explained, rest - observed)
    open_end = rest - observed - explained
    wrong = c.state.not_in([str(state) for state in (*GOOD, *PASSING)])
    columns: dict[str, ColumnElement[Any]] = {
        "claimed": c.claimed,
        "observed": observed,
        "pending": case((undecided, open_end + missing), else_=0),
        "missing": case((undecided, 0), else_=missing),
        "explained": explained + case((undecided, 0), else_=open_end),
        "duplicates": case((undecided, 0), else_=c.duplicates),
        "unclaimed": case((undecided, 0), else_=c.unclaimed),
        "excused": c.explained - explained,
        **{name: _one_if(_is(c.state, state)) for state, name in IN_STATE.items()},
        BAD: _one_if(and_(wrong, c.accepted_by == "")),
        ACCEPTED: _one_if(and_(wrong, c.accepted_by != "")),
    }
    return [columns[name].label(name) for name in SUMMED]


def _is(column: ColumnElement[str], state: State) -> ColumnElement[bool]:
    if state is State.UNKNOWN:
        return column.not_in([str(one) for one in State if one is not State.UNKNOWN])
    return column == str(state)


def _one_if(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return case((condition, literal(1)), else_=literal(0))


def _least(one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((one < other, one), else_=other)
