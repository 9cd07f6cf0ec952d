"""Records that are counted and not told apart, since there were more runs than may be kept. Pure.

A cell may lack records that lie among them::

    missing     of what was promised, so many are not in the cell
    hidden      so many records of the topic and window are told apart from nobody

    missing = 0             as ever: what is in a cell was counted by name
    0 < missing <= hidden   UNKNOWN: all of it may be there, so none is named
    missing > hidden        LOSS: even if all that is hidden were the cell's, it lacks some; of how
                            many is said that which is certain

So nothing is ever called lost that is there, and nothing complete that is not.
"""

from __future__ import annotations


def may_hide(missing: int, hidden: int) -> str:
    """Why what is ``missing`` of a cell may be among ``hidden`` records; nothing if it cannot."""
    if not 0 < missing <= hidden:
        return ""
    return (
        f"what it lacks may be among {hidden} records of more runs than are kept, which are "
        "counted, not told apart"
    )


def at_least(missing: int, hidden: int) -> int:
    """How many are missing for certain."""
    return max(0, missing - hidden)


def not_told_apart(records: int) -> str:
    """What is said of an overflow cell."""
    return f"{records} records of more new runs than are kept: counted, not told apart"
