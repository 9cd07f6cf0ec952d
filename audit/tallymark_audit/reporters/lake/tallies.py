"""What a load gives of one commit of one table, so that it can be reported. Shapes only.

A commit is the truth about what came into the table: its tallies were written together with its
files. So a report can be made again from the table's history at any time, and says the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tallymark_audit.model.cells import Block, CellKey, Copy
from tallymark_audit.model.ranges import Range


@dataclass(frozen=True, slots=True)
class LakeTally:
    """What one commit, or one task of it, brought of one cell.

    ``count``: rows in the table, every copy; rows that came late are rows like others. ``ranges``:
    the sequences of these rows, first and last included; none of rows without a stamp.
    ``again``: the sequences of which there are at least two rows, at least three ..., as such
    ranges; in its place ``copies`` may name further rows, if it names all of them. ``quarantined``:
    sequences of rows that went to the quarantine table instead, and ``quarantined_count`` how many
    rows these are, those without a stamp too. ``blocks``: contents, where the deployment checks
    them. Timestamps (ms) are those of the rows, -1 without any."""

    key: CellKey
    count: int = 0
    ranges: tuple[Range, ...] = ()
    bytes: int = 0
    copies: tuple[Copy, ...] = ()
    quarantined: tuple[Range, ...] = ()
    quarantined_count: int = 0
    blocks: tuple[Block, ...] = ()
    min_timestamp: int = -1
    max_timestamp: int = -1
    again: tuple[tuple[Range, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedThrough:
    """How far the table has come with a partition of the cluster's log: every record below
    ``offset`` is in the table, in the quarantine, or in a gap. ``topic_id`` (a UUID, in either
    spelling, or ``""``) distinguishes a topic from its successor of the same name."""

    topic: str
    partition: int
    offset: int
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class LakeGap:
    """Offsets from ``start`` up to ``end``, excluded, that could not be loaded, with the reason of
    a mirror's gap: ``retention`` is a loss."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class LakeCommit:
    """One commit that loaded rows. ``version``: the table's, which rises with every commit; ``at``
    is when it was made, ms. ``tallies`` may hold several of a cell, and may be read only once."""

    version: int
    at: int
    tallies: Iterable[LakeTally] = ()
    loaded: tuple[LoadedThrough, ...] = ()
    gaps: tuple[LakeGap, ...] = ()
