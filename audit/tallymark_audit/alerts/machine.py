"""From conditions to alerts, and which of them are posted. Pure: the time is an argument.

The life of an alert. Each step is kept in the store, so that a restart changes nothing::

    condition holds      for hold_ms          condition is gone
    ──────────────► pending ─────────► firing ────────────────► resolved
                       │ gone first
                       ▼
                    forgotten

Posts follow, at their own pace: nothing, then firing (again every ``repeat_ms``), then resolved. An
alert that fires is always posted: if it was resolved before its first post, it is posted as firing
first and as resolved with the next post. A post may be repeated, never left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from tallymark_audit.alerts.conditions import Condition
from tallymark_audit.model.alert import Alert, NotifiedState, Status

MAX_ALERTS: Final = 100
"""Alerts in one post; the others wait for the next."""
LONGEST_BACKOFF_MS: Final = 600_000


class Telling(NamedTuple):
    """An alert, and the status to post of it."""

    alert: Alert
    status: Literal["firing", "resolved"]


class Step(NamedTuple):
    """What a step changed: rows to write, and rows to forget."""

    changed: list[Alert]
    forgotten: list[Alert]


def advance(
    known: Iterable[Alert], conditions: Iterable[Condition], now: int, muted: bool = False
) -> Step:
    """The alerts, given the conditions that hold now. ``known`` are those not finished; ``muted``:
    nothing is posted at the moment."""
    holding = {one.fingerprint: one for one in conditions}
    changed: list[Alert] = []
    forgotten: list[Alert] = []
    newest: dict[str, int] = {}
    for alert in known:
        mark = alert.fingerprint
        newest[mark] = max(newest.get(mark, -1), alert.starts_at)
        if alert.status == "resolved":
            continue
        holds = holding.pop(mark, None)
        if holds is not None:
            later = _going_on(alert, holds, now)
            if later != alert:
                changed.append(later)
        elif alert.status == "pending":
            forgotten.append(alert)
        else:
            told: NotifiedState = "nobody" if muted and not alert.told else alert.told
            ends = max(now, alert.starts_at)
            changed.append(replace(alert, status="resolved", ends_at=ends, told=told))
    for mark, condition in holding.items():
        begins = max(now, newest.get(mark, -1) + 1)  # clocks may go back, rows may not be lost
        fresh = Alert(condition.labels, condition.annotations, "pending", begins)
        changed.append(_going_on(fresh, condition, now))
    return Step(changed, forgotten)


def news(alerts: Iterable[Alert], now: int, repeat_ms: int) -> list[Telling]:
    """What is to be posted, the most urgent first: new alerts, resolved ones, and those that still
    fire ``repeat_ms`` after their last post."""
    fresh: list[Telling] = []
    over: list[Telling] = []
    again: list[Telling] = []
    for alert in alerts:
        if alert.status == "pending" or alert.finished:
            continue
        if not alert.told:
            fresh.append(Telling(alert, "firing"))
        elif alert.status == "resolved":
            over.append(Telling(alert, "resolved"))
        elif now - alert.told_at >= repeat_ms:
            again.append(Telling(alert, "firing"))
    fresh.sort(key=lambda one: (one.alert.labels.get("severity", ""), one.alert.starts_at))
    return [*fresh, *over, *again]


def next_post_at(last_try: int, failures: int, interval_ms: int) -> int:
    """When (ms) the next post may be tried: one in ``interval_ms``, fewer while they fail."""
    longest = max(interval_ms, LONGEST_BACKOFF_MS)
    return last_try + min(longest, interval_ms << min(failures, 16))


def still_firing(alerts: Iterable[Alert], told: Sequence[Telling]) -> list[Alert]:
    """The other alerts that still fire: a post that did not name them would look as if all were
    resolved."""
    named = {id(one.alert) for one in told}
    return [one for one in alerts if one.status == "firing" and id(one) not in named]


def _going_on(alert: Alert, condition: Condition, now: int) -> Alert:
    fires = alert.status == "firing" or now - alert.starts_at >= condition.hold_ms
    status: Status = "firing" if fires else "pending"
    return replace(alert, status=status, annotations=condition.annotations)
