"""An alert as a line. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tallymark_dashboards.view.marks import Tone

_TONES: Final[Mapping[str, Tone]] = {"critical": "bad", "warning": "warn"}
STATUSES: Final[Mapping[str, tuple[str, Tone, str]]] = {
    "firing": ("!", "bad", "its condition holds"),
    "pending": ("…", "wait", "its condition holds, not yet for long enough to be sent"),
    "resolved": ("✓", "good", "its condition is over"),
}
"""The status of an alert: symbol, tone and meaning."""
_TOLD: Final = {
    "firing": "notified",
    "resolved": "notified that it is over",
    "nobody": "not sent: no webhook, or a pause",
    "": "not sent yet",
}
ABOUT: Final = ("edge", "topic", "cluster", "partition", "kind", "group", "mirror")


@dataclass(frozen=True, slots=True)
class AlertRow:
    """One alert. ``tone``: of its severity while it holds. ``about``: its labels in words. ``edge``
    and ``topic``: "" where it has none. Times are ms, 0 is not yet."""

    fingerprint: str
    rule: str
    severity: str
    tone: Tone
    symbol: str
    status: str
    status_tone: Tone
    summary: str
    description: str
    about: str
    edge: str
    topic: str
    cluster: str
    starts_at: int
    ends_at: int
    told: str
    told_at: int


def alert_row(row: Mapping[str, Any]) -> AlertRow:
    """From a row of the store; what makes no sense there is left out."""
    labels, said = _texts(row["labels"]), _texts(row["annotations"])
    severity, status = labels.get("severity", ""), str(row["status"])
    symbol, tone, _ = STATUSES.get(status, ("?", "warn", ""))
    holds = status != "resolved"
    return AlertRow(
        fingerprint=row["fingerprint"],
        rule=row["rule"],
        severity=severity or "alert",
        tone=_TONES.get(severity, "warn") if holds else "",
        symbol=symbol,
        status=status,
        status_tone=_TONES.get(severity, "warn") if status == "firing" else tone,
        summary=said.get("summary") or str(row["rule"]),
        description=said.get("description", ""),
        about=", ".join(f"{name} {labels[name]}" for name in ABOUT if labels.get(name)),
        edge=labels.get("edge", ""),
        topic=labels.get("topic", ""),
        cluster=labels.get("cluster", ""),
        starts_at=row["starts_at"],
        ends_at=row["ends_at"],
        told=_TOLD.get(str(row["told"])) or str(row["told"]),
        told_at=row["told_at"],
    )


def _texts(raw: object) -> dict[str, str]:
    if not isinstance(raw, dict):
        return {}
    pairs: dict[Any, Any] = raw  # pyright: ignore[reportUnknownVariableType]
    return {str(name): str(value) for name, value in pairs.items()}
