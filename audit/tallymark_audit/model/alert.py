"""An alert, as it is kept: what it is about, and how far it has been reported. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Status = Literal["pending", "firing", "resolved"]
NotifiedState = Literal["", "firing", "resolved", "nobody"]


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert, from the moment (ms) its condition began to hold. ``told``: the last status that
    the webhook accepted, and when; ``nobody``: there was no webhook while the alert fired, or
    notifications were paused."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    status: Status
    starts_at: int
    ends_at: int = 0
    told: NotifiedState = ""
    told_at: int = 0

    @property
    def fingerprint(self) -> str:
        """The same for every alert about the same thing."""
        return fingerprint(self.labels)

    @property
    def rule(self) -> str:
        """Which rule made it."""
        return self.labels["alertname"]

    @property
    def finished(self) -> bool:
        """Whether nothing is left to be done about it."""
        return self.status == "resolved" and self.told in ("resolved", "nobody")


def fingerprint(labels: Mapping[str, str]) -> str:
    """16 hex digits of the labels, whatever their order."""
    digest = hashlib.blake2b(digest_size=8)
    for name, value in sorted(labels.items()):
        for text in (name, value):
            raw = text.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()
