"""How much a killed mirror may leave there twice. Pure.

Whoever goes on after a kill begins at the stored offsets, so what was handed to the target since
those is copied again: in flight, acknowledged, or acknowledged and about to be stored. How much
that is must not hang on how fast the mirror is, nor on how soon a busy machine lets it store. So it
is counted, and at ``most`` nothing more is sent until something is stored::

    stored ─────────────► sent                     a kill repeats
    │ acknowledged │ in flight │ ◄── at most ──►   all of this

Offsets are stored whenever a part of it has come together, so that nobody has to wait for room.
"""

from __future__ import annotations

from typing import Final

_PARTS: Final = 4


class DuplicateBound:
    """Counts the records that were sent since the offsets that are stored, of one mirror."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0
        """What a kill now would repeat, or more: exact after :meth:`stored`."""
        self._fresh = 0

    @property
    def room(self) -> int:
        """How many records may be sent now."""
        return self.most - self.count

    def may_send(self, records: int) -> bool:
        """Whether so many may be sent now. A batch that is larger than ``most`` may when it is
        the only one."""
        return self.count == 0 or records <= self.room

    def sent(self, records: int) -> None:
        """So many were handed to the target."""
        self.count += records
        self._fresh += records

    @property
    def is_due(self) -> bool:
        """Whether it is time to store offsets."""
        return self._fresh * _PARTS >= self.most

    def stored(self, left: int) -> None:
        """Offsets were stored, or could not be; ``left`` records were sent since."""
        self.count, self._fresh = left, 0
