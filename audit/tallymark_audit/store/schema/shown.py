"""Verdicts and cells as they are shown: their counts add up (:mod:`.balance`), and what may still
arrive is ``pending``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tallymark_audit.judge.states import UNDECIDED, state_of
from tallymark_audit.store.schema.balance import counts_of
from tallymark_audit.store.schema.rows import Row, is_cells

_BALANCED = ("observed", "pending", "missing", "explained", "excused")


def shown_verdict(row: Row) -> Row:
    """A verdict as it is shown: claimed = observed + pending + missing + explained, in its cells
    too. ``excused`` messages were never acknowledged (refused or in doubt) and are absent: they
    stand beside these. While a window is not decided no message is missing, those that have not
    arrived are ``pending``. A verdict in this form stays as it is."""
    if "pending" in row:
        return row
    counts = counts_of(row)
    shown = {**row, **{name: counts[name] for name in _BALANCED}}
    if is_cells(row.get("cells")):
        shown["cells"] = [_shown_cell(cell) for cell in row["cells"]]
    return shown


def _shown_cell(cell: Row) -> Row:
    """Its ``pending``, ``missing`` and ``explained`` are ranges, and the numbers have names of
    their own; records that cannot be named are only in the numbers."""
    counts = counts_of(
        {
            "state": cell["state"],
            "claimed": _number(cell.get("claimed")),
            "observed": _number(cell.get("observed")),
            "missing": _number(cell.get("missing_count")),
            "duplicates": _number(cell.get("duplicates")),
            "unclaimed": _number(cell.get("unclaimed_count")),
            "explained": _size(cell.get("explained")),
        }
    )
    undecided = state_of(cell["state"]) in UNDECIDED
    return {
        **cell,
        "observed": counts["observed"],
        "missing": [] if undecided else cell["missing"],
        "missing_count": counts["missing"],
        "pending": cell["missing"] if undecided else [],
        "pending_count": counts["pending"],
        "explained_count": counts["explained"],
        "excused_count": counts["excused"],
    }


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _size(flat: Any) -> int:
    """The sequences of flat ranges; 0 where they make no sense."""
    if not isinstance(flat, Sequence) or len(flat) % 2:
        return 0
    if not all(isinstance(one, int) for one in flat):
        return 0
    return sum(last - first + 1 for first, last in zip(flat[::2], flat[1::2], strict=True))
