"""The items of a repair plan: the missing messages of one cell on one edge, and where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tallymark_audit.collector.judging.locate import OffsetRange
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet


class MissingRun(NamedTuple):
    """Missing messages that lie one after the other upstream; first and last are included."""

    partition: int
    first_offset: int
    last_offset: int
    first_sequence: int
    last_sequence: int


@dataclass(frozen=True, slots=True)
class RepairItem:
    """The missing messages of one cell on one edge. ``topic`` is what it is called downstream;
    upstream it is ``key.topic``. ``places``: where they lie upstream, as far as that was found out;
    ``within``: where all of the cell lies. ``by_key``: the mirror lets keys decide on partitions.
    ``refused``: why they cannot be copied, ``""`` if they can."""

    edge: str
    upstream: str
    downstream: str
    key: CellKey
    topic: str
    missing: RangeSet
    count: int
    within: tuple[OffsetRange, ...]
    places: tuple[MissingRun, ...] = ()
    by_key: bool = False
    source: str = ""
    revision: int = 0
    refused: str = ""
