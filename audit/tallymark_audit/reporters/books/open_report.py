"""A report that is published and not acknowledged as a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class OpenReport:
    """``open``: its events that are not yet acknowledged. ``reports_from``: what was first reported
    in an event from that number on was not known to have arrived before this report."""

    reports_from: int
    last: int
    covers_from: int
    open: set[int]
