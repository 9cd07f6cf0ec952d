"""The items of a repair plan: the missing messages of one cell on one edge, and where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tallymark_audit.collector.judging.locate import OffsetRange
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.ranges import RangeSet


class MissingRun(NamedTuple):
    """Missing messages that follow each other upstream; first and last are included."""

    partition: int
    first_offset: int
    last_offset: int
    first_sequence: int
    last_sequence: int


@dataclass(frozen=True, slots=True)
class RepairItem:
    """The missing messages of one cell on one edge. ``topic`` is the name downstream; upstream it
    is ``key.topic``. ``places``: where the messages are upstream, as far as that is known;
    ``within``: the offsets between which all of the cell is. ``by_key``: the mirror chooses
    partitions by key. ``refused``: why the messages cannot be copied, ``""`` if they can."""

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
