"""What an alert is about: a rule that holds for something, which its labels name.

Labels identify: they are few and do not change while it lasts (edge, topic, cluster). What is
different every time (windows, servers, counts, the link) is an annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tallymark.untrusted import escaped
from tallymark_audit.model.alert import fingerprint

Severity = Literal["critical", "warning"]
MAX_TEXT = 1000
"""Characters of one annotation."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A rule that holds now. It has to hold for ``hold_ms`` before it is posted."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    hold_ms: int = 0

    @property
    def fingerprint(self) -> str:
        """The identity of the alert: its labels, without its annotations."""
        return fingerprint(self.labels)


def condition(
    rule: str,
    severity: Severity,
    about: Mapping[str, str],
    annotations: Mapping[str, str],
    hold_ms: int = 0,
) -> Condition:
    """A condition whose labels are the rule, the severity and what it is ``about``; texts from
    outside are cut, and characters that do not print are escaped."""
    labels = {"alertname": rule, "severity": severity, **about}
    return Condition(
        {name: _plain(text) for name, text in labels.items()},
        {name: _plain(text) for name, text in annotations.items() if text},
        hold_ms,
    )


def _plain(text: str) -> str:
    shown = escaped(text[: MAX_TEXT + 1])
    return shown if len(shown) <= MAX_TEXT else shown[: MAX_TEXT - 1] + "…"
