"""After a repair: whether the windows are good by now, and which are still open.

A verdict that is not good counts only if it knows the copies: the collector of the cluster has
counted all that was there when the last was acknowledged, and the window was judged after that. A
run of Spark counts the logs by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from tallymark_audit.judge.verdicts import GOOD, UNDECIDED, State
from tallymark_audit.model.cells import LAKE
from tallymark_audit.repair.items import RepairItem
from tallymark_audit.repair.plan import RepairPlan
from tallymark_audit.store import Store
from tallymark_audit.store.counted.facts import counted_through
from tallymark_audit.store.judged.effective import SPARK
from tallymark_audit.store.reading import queries
from tallymark_audit.store.schema.rows import Row
from tallymark_audit.store.schema.tables import repairs, window_changes

EVERY_S = 0.5
LEFT_ALONE = frozenset({State.DUPLICATION, State.CORRUPT})
"""States that a plan leaves as they are."""


class OpenWindow(NamedTuple):
    """A window of the plan that is not good (yet). ``decided``: it was judged with what the repair
    copied, so waiting longer changes nothing. ``left_alone``: nothing is missing in it any more,
    and copying does not repair the other faults."""

    edge: str
    topic: str
    window: int
    state: str
    reason: str
    decided: bool
    left_alone: bool = False


def still_open(connection: Connection, plan: RepairPlan) -> list[OpenWindow]:
    """The windows of the plan's copied items that are not good."""
    items = {(i.edge, i.key.topic, i.key.window): i for i in plan.items if not i.refused}
    found: list[OpenWindow] = []
    for (edge, topic, window), item in sorted(items.items(), key=lambda one: one[0]):
        rows = queries.windows(connection, edge, topic, window, window + 1)
        if not rows:
            found.append(OpenWindow(edge, topic, window, "", "it has no verdict any more", True))
        elif rows[0]["state"] not in GOOD:
            row = rows[0]
            judged = _knows_the_copies(connection, plan.made_at, item, row)
            decided = judged and row["state"] not in UNDECIDED
            told = "; ".join(row["reasons"]) or f"{row['missing']} missing"
            reason = told if judged else f"not judged again yet; before: {told}"
            alone = decided and row["state"] in LEFT_ALONE
            found.append(OpenWindow(edge, topic, window, row["state"], reason, decided, alone))
    return found


def _knows_the_copies(connection: Connection, made_at: int, item: RepairItem, verdict: Row) -> bool:
    """See the module. What a lake has is reported by its loads, and counted by no collector."""
    judged_at: int = verdict["judged_at"]
    if item.downstream == LAKE:
        return judged_at >= made_at
    done, changes, key = repairs.c, window_changes.c, item.key
    copied_at = connection.scalar(
        select(func.max(done.at)).where(
            done.edge == item.edge,
            done.topic == key.topic,
            done.window == key.window,
            done.at >= made_at,
        )
    )
    since = copied_at or made_at
    if verdict["source"] == SPARK:
        return judged_at >= since
    if counted_through(connection, item.downstream, item.topic) < since:
        return False
    changed_at = connection.scalar(
        select(changes.changed_at).where(
            changes.cluster == item.downstream,
            changes.topic == item.topic,
            changes.window == key.window,
        )
    )
    return judged_at > (changed_at or 0)


def wait_until_good(
    store: Store,
    plan: RepairPlan,
    seconds: float,
    sleep: Callable[[float], object] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> list[OpenWindow]:
    """Wait at most ``seconds`` until every window of the plan is good, or is judged again and not
    good; returns what is still open then."""
    end = now() + seconds
    while True:
        with store.read() as connection:
            left = still_open(connection, plan)
        if all(one.decided for one in left) or now() >= end:
            return left
        sleep(EVERY_S)
