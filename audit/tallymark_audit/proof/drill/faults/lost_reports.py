"""How many reports of each reporter may be lost one after another. Pure.

A report makes up for the last three that were lost before it, and no more was ever promised: behind
more of them the windows of its reporter stay UNKNOWN, which is right, and no drill can pass.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

from tallymark.protocol.records.batch import Record

IN_A_ROW: Final = 2
"""Reports of one reporter that are lost one after another, at most."""


class LostReports:
    """Counts, for each reporter, the last reports that were lost without one between them that
    arrived. A record's key names the reporter."""

    def __init__(self) -> None:
        self._in_a_row: dict[bytes, int] = {}

    def may_be_lost(self, records: Sequence[Record], places: Set[int]) -> set[int]:
        """Those of ``places`` in a batch that may be lost as well, from the first one on."""
        rows = dict(self._in_a_row)
        left: set[int] = set()
        for place, record in enumerate(records):
            row = rows.get(record.key or b"", 0)
            if place in places and row < IN_A_ROW:
                left.add(place)
            rows[record.key or b""] = row + 1 if place in left else 0
        return left

    def note(self, records: Sequence[Record], lost: Set[int]) -> None:
        """What became of a batch: the reports at the places ``lost`` were, the others arrive."""
        for place, record in enumerate(records):
            row = self._in_a_row.get(record.key or b"", 0)
            self._in_a_row[record.key or b""] = row + 1 if place in lost else 0
