"""The body of a post in the format of Alertmanager's webhook (version 4), so that its receivers can
read it::

    {"version": "4", "groupKey": "{}:{cluster=...}", "truncatedAlerts": 0,
     "status": "firing" | "resolved", "receiver": "tallymark", "externalURL": console,
     "groupLabels": {...}, "commonLabels": {...}, "commonAnnotations": {...},
     "alerts": [{"status", "labels", "annotations", "startsAt", "endsAt", "generatorURL",
                 "fingerprint"}]}

Times are RFC 3339; ``endsAt`` of an alert that fires is Go's zero time, as there. The alerts of one
collector are one group. A post names what has changed and what still fires, so its status is
"resolved" only when no alert of the group fires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tallymark_audit.alerts.machine import MAX_ALERTS, Telling
from tallymark_audit.model.alert import Alert

RECEIVER: Final = "tallymark"
NEVER: Final = "0001-01-01T00:00:00Z"
LINK: Final = "link"
"""The annotation that holds the address of the page about it."""


def body(
    told: Sequence[Telling],
    going_on: Sequence[Alert],
    group: Mapping[str, str],
    console: str,
    more: int = 0,
) -> dict[str, Any]:
    """The post about ``told`` (at most :data:`~.machine.MAX_ALERTS`), and as many other firing
    alerts as there is room for. ``group``: the labels that all of them share. ``more``: how many
    alerts have to wait for the next post."""
    room = max(0, MAX_ALERTS - len(told))
    shown = [*told, *(Telling(alert, "firing") for alert in going_on[:room])]
    firing = any(one.status == "firing" for one in shown) or len(going_on) > room or more > 0
    alerts = [_alert(one, group, console) for one in shown]
    return {
        "version": "4",
        "groupKey": "{}:{" + ", ".join(f'{name}="{text}"' for name, text in group.items()) + "}",
        "truncatedAlerts": len(going_on[room:]) + more,
        "status": "firing" if firing else "resolved",
        "receiver": RECEIVER,
        "groupLabels": dict(group),
        "commonLabels": _common([alert["labels"] for alert in alerts]),
        "commonAnnotations": _common([alert["annotations"] for alert in alerts]),
        "externalURL": console,
        "alerts": alerts,
    }


def time_text(ms: int) -> str:
    """RFC 3339 with milliseconds."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


def _alert(one: Telling, group: Mapping[str, str], console: str) -> dict[str, Any]:
    alert = one.alert
    return {
        "status": one.status,
        "labels": {**group, **alert.labels},
        "annotations": dict(alert.annotations),
        "startsAt": time_text(alert.starts_at),
        "endsAt": time_text(alert.ends_at) if one.status == "resolved" else NEVER,
        "generatorURL": alert.annotations.get(LINK, console),
        "fingerprint": alert.fingerprint,
    }


def _common(texts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first = texts[0] if texts else {}
    return {
        name: text for name, text in first.items() if all(one.get(name) == text for one in texts)
    }
