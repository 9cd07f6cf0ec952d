"""Reads what a reconciliation wrote, as a stranger would: only its JSON result. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallymark_audit.model.ranges import RangeSet
from tallymark_audit.proof.demo.truth import Identity


def named_missing(result: Mapping[str, Any], cluster: str) -> set[Identity]:
    """Every message that the result names as missing on a mirror's hop into ``cluster``."""
    return {
        Identity(cell["topic"], cell["partition"], cell["instance"], sequence, cell["server"])
        for verdict in result["verdicts"]
        if verdict["edge"].endswith(f"-to-{cluster}")
        for cell in verdict["cells"]
        for first, last in RangeSet.from_list(cell["missing"])
        for sequence in range(first, last + 1)
    }


def located(result: Mapping[str, Any]) -> int:
    """How many of the missing messages the result found upstream, with their offsets."""
    return sum(
        place["last_sequence"] - place["first_sequence"] + 1
        for verdict in result["verdicts"]
        for cell in verdict["cells"]
        for place in cell["located"]
    )


def lost_windows(result: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """Edge, topic and start (ms) of every window in which the result misses messages."""
    return [
        (verdict["edge"], verdict["topic"], verdict["window"])
        for verdict in result["verdicts"]
        if any(cell["missing"] for cell in verdict["cells"])
    ]


def total(result: Mapping[str, Any], name: str) -> int:
    """One of the sums over all edges, in messages."""
    return sum(edge[name] for edge in result["edges"])
