"""How complete topics are, by hour or any other span of event time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallymark_audit.frames.columns import STATES, pandas
from tallymark_audit.judge.states import UNDECIDED
from tallymark_audit.store.schema.tables import SUMS

if TYPE_CHECKING:
    from pandas import DataFrame

MILLIONTHS: Final = 1_000_000


def completeness(verdicts: DataFrame, by: str = "1h") -> DataFrame:
    """Verdicts summed up by edge, topic and span ``by`` of event time (pandas' notation: ``10min``,
    ``1h``, ``1D``; spans begin at midnight UTC): windows, undecided (windows that may change by
    themselves), the worst state, the sums of the messages, and ``share``.

    ``share`` is the part of the claimed messages of decided windows that is there or explained,
    rounded *down* to millionths: it is 1.0 only where nothing is missing. NaN where nothing is
    decided. Copies never make up for what is missing."""
    pd = pandas()
    frame: Any = verdicts
    frame = frame[frame["window"].notna()]
    start = frame["window"].dt.floor(by)
    undecided = frame["state"].isin([str(state) for state in UNDECIDED])
    counted = frame[list(SUMS)].assign(
        windows=1,
        undecided=undecided.astype("int64"),
        worst=frame["state"].cat.codes.astype("int64"),
        promised=frame["claimed"].where(~undecided, 0),
        lacking=frame["missing"].where(~undecided, 0),
    )
    keys = [frame["edge"].astype("object"), frame["topic"].astype("object"), start.rename("start")]
    groups = counted.groupby(keys, sort=True)
    found = groups.sum()
    codes = groups["worst"].max()
    found["state"] = pd.Categorical.from_codes(codes, categories=STATES, ordered=True)
    found["share"] = _share(pd, found["promised"], found["lacking"])
    decided = found["windows"] > found["undecided"]
    found["share"] = found["share"].where(decided)
    columns = ["windows", "undecided", "state", *SUMS, "share"]
    return found[columns]


def _share(pd: Any, promised: Any, lacking: Any) -> Any:
    """Rounded down in integers: a ratio of floats would show one of a hundred million as none."""
    there = (promised - lacking).clip(lower=0)
    whole = promised.where(promised > 0, 1)
    share = (there * MILLIONTHS // whole) / MILLIONTHS
    return share.where(promised > 0, 1.0)
