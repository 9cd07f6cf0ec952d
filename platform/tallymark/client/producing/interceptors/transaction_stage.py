"""How far the transaction of a producer is, as its interceptors are told. Pure.

::

    OPEN ──► ENDING ──► COMMITTED | ABORTED | IN_DOUBT
      └──────────────────► ABORTED
"""

from __future__ import annotations

from enum import IntEnum


class TransactionStage(IntEnum):
    """Every record that is accepted from OPEN until the end is in the transaction. The numbers are
    in the audit's journals, and never change."""

    OPEN = 1
    """Begun. Its end was not asked for: whatever becomes of the producer, it is never committed."""
    ENDING = 2
    """A commit is about to be asked for: from now on it may be committed."""
    COMMITTED = 3
    ABORTED = 4
    """It was aborted, or can only be: nothing will ever be asked that commits it."""
    IN_DOUBT = 5
    """Whether it was committed is not known, and this producer can ask no more."""
