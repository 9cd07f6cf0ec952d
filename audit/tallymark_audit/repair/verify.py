"""After a repair: whether the windows are good by now, and which are still open."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Connection

from tallymark_audit.judge.verdicts import GOOD, UNDECIDED, State
from tallymark_audit.repair.plan import RepairPlan
from tallymark_audit.store import Store
from tallymark_audit.store.reading import queries

EVERY_S = 0.5
LEFT_ALONE = frozenset({State.DUPLICATION, State.CORRUPT})
"""States that a plan leaves as they are."""


class OpenWindow(NamedTuple):
    """A window of the plan that is not good (yet). ``decided``: it was judged after the repair, so
    waiting longer changes nothing. ``left_alone``: nothing is missing in it any more, and copying
    does not repair the other faults."""

    edge: str
    topic: str
    window: int
    state: str
    reason: str
    decided: bool
    left_alone: bool = False


def still_open(connection: Connection, plan: RepairPlan, since: int) -> list[OpenWindow]:
    """The windows of the plan's copied items that are not good, as judged from"""
    windows = sorted({(i.edge, i.key.topic, i.key.window) for i in plan.items if not i.refused})
    found: list[OpenWindow] = []
    for edge, topic, window in windows:
        rows = queries.windows(connection, edge, topic, window, window + 1)
        if not rows:
            found.append(OpenWindow(edge, topic, window, "", "it has no verdict any more", True))
        elif rows[0]["state"] not in GOOD:
            row = rows[0]
            judged = row["judged_at"] >= since
            decided = judged and row["state"] not in UNDECIDED
            told = "; ".join(row["reasons"]) or f"{row['missing']} missing"
            reason = told if judged else f"not judged again yet; before: {told}"
            alone = decided and row["state"] in LEFT_ALONE
            found.append(OpenWindow(edge, topic, window, row["state"], reason, decided, alone))
    return found


def wait_until_good(
    store: Store,
    plan: RepairPlan,
    since: int,
    seconds: float,
    sleep: Callable[[float], object] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> list[OpenWindow]:
    """Wait at most ``seconds`` until every window of the plan is good, or is judged again and not
    good; returns what is still open then."""
    end = now() + seconds
    while True:
        with store.read() as connection:
            left = still_open(connection, plan, since)
        if all(one.decided for one in left) or now() >= end:
            return left
        sleep(EVERY_S)
