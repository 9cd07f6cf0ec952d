"""The types of the columns: how rows of the store and of reports become typed frames.

Times are ``datetime64[ms, UTC]`` (a stamp may lie further away than nanoseconds can say), names are
categories, states are ordered categories from COMPLETE to MIXED, counts are ``int64``. What is not
known is NaT or NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tallymark.clock import now_ms
from tallymark.errors import UserError
from tallymark_audit.judge.states import State
from tallymark_audit.model.time_format import parse_time

if TYPE_CHECKING:
    from pandas import DataFrame

Moment = str | int | datetime
"""A time: ms UTC, a datetime (without a zone it is UTC), or a text as of the command line."""
NAMES: Final = frozenset(
    {"edge", "topic", "source", "cluster", "tier", "server", "instance", "counter", "reporter"}
)
TIMES: Final = frozenset(
    {"window", "judged_at", "start", "day", "min_timestamp", "max_timestamp", "through", "as_of"}
)
SHARES: Final = frozenset({"share", "p50", "p95", "p99", "p999"})
TEXTS: Final = frozenset({"reasons", "reason", "accepted_by", "sequences"})
STATES: Final = tuple(str(state) for state in State)


def pandas() -> Any:
    """The module. UserError: it is not installed."""
    try:
        import pandas as found
    except ImportError as error:
        raise UserError(
            "pandas is not installed", "install it: pip install 'tallymark[frames]'"
        ) from error
    return found


def frame_of(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> DataFrame:
    """A typed frame of rows whose values are in the order of the columns. Times in them are ms, and
    negative where there is none."""
    pd = pandas()
    lists: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(columns)
    found: Any = pd.DataFrame(
        {name: _typed(pd, name, some) for name, some in zip(columns, lists, strict=True)}
    )
    return found


def frame_of_dicts(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """The same of rows with names; a column that a row lacks is empty there."""
    return frame_of(columns, ([row.get(name, _empty(name)) for name in columns] for row in rows))


def ms_of(moment: Moment | None) -> int | None:
    """A time in ms UTC. UserError: it is none."""
    if moment is None or isinstance(moment, int):
        return moment
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(aware.timestamp() * 1000)
    return parse_time(moment, now_ms())


def _empty(name: str) -> Any:
    if name in TIMES:
        return -1
    if name in SHARES:
        return None
    return "" if name in TEXTS or name in NAMES or name == "state" else 0


def _typed(pd: Any, name: str, values: Sequence[Any]) -> Any:
    if name in TIMES:
        return _times(pd, values)
    if name in NAMES:
        return pd.Categorical(values)
    if name == "state":
        return pd.Categorical(values, categories=STATES, ordered=True)
    if name in TEXTS:
        return pd.Series(values, dtype="object").map(_text)
    return pd.Series(values, dtype="float64" if name in SHARES else "int64")


def _times(pd: Any, values: Sequence[Any]) -> Any:
    """Without the window of what carries no time, which begins below zero."""
    import numpy as np  # comes with pandas

    known = np.array(values, dtype="int64")
    known[known < 0] = np.iinfo("int64").min  # NaT
    return pd.Series(known.view("datetime64[ms]")).dt.tz_localize("UTC")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "; ".join(map(str, value))
