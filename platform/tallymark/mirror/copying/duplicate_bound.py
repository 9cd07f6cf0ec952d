"""How many records a killed mirror may leave in the target twice. Pure.

After a kill, a mirror begins at the stored offsets. It copies again what it has sent after these:
records in flight, and records that were acknowledged and whose offset is not stored yet. Their
number must not depend on the speed of the mirror or on the load of the machine. So the mirror
counts them, and sends nothing more at ``most`` until it has stored offsets::

    stored ─────────────► sent                     a kill repeats
    │ acknowledged │ in flight │ ◄── at most ──►   all of this

The mirror stores offsets at a quarter of that, so that it seldom has to wait.
"""

from __future__ import annotations

from typing import Final

_PARTS: Final = 4


class DuplicateBound:
    """Counts the records that one mirror has sent since it last stored offsets."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0
        """How many records a kill now would duplicate, at most; exact after :meth:`stored`."""
        self._fresh = 0

    @property
    def room(self) -> int:
        """How many records may be sent now."""
        return self.most - self.count

    def may_send(self, records: int) -> bool:
        """Whether so many may be sent now. A batch larger than ``most`` may be sent alone."""
        return self.count == 0 or records <= self.room

    def sent(self, records: int) -> None:
        """Count records that were handed to the target."""
        self.count += records
        self._fresh += records

    @property
    def is_due(self) -> bool:
        """Whether it is time to store offsets."""
        return self._fresh * _PARTS >= self.most

    def stored(self, left: int) -> None:
        """Offsets were stored, or the attempt failed; ``left`` records are sent and not stored."""
        self.count, self._fresh = left, 0
