"""What is counted: cells, and the hops whose two ends are compared.

A *cell* is (tier, cluster, topic, partition, window, server, instance); topic and partition are the
origin's, as the stamp says, so a mirror does not change a cell. Tier and cluster say where it was
counted: they belong to the claim or the observation. The rest is :class:`CellKey`.

What each side reports about a cell is in :mod:`tallymark_audit.model.sides`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from tallymark.deployment import Mirror
from tallymark_audit.model.hashing import MASK
from tallymark_audit.model.ranges import RangeSet

FOREVER: Final = (1 << 63) - 1
"""Later than every time (ms), and behind every offset."""
GROUP: Final = "group:"
"""The prefix that marks a consumer group, where edges name their ends."""
LAKE: Final = "lake"
"""The end of a hop into the data lake, the kind of its reporters, and their tier."""
OVERFLOW: Final = "(overflow)"
"""The server of a cell that holds records of more runs than may be kept, by number; it has no
instance. A stamp always has one, so no stamp can name such a cell."""


RunName = tuple[str, str]
"""Server and instance, as stamps and reports have them."""
EdgeTopic = tuple[str, str]
"""Name of an edge, and the edge's name of a topic."""
TopicWindow = tuple[str, int]
"""Topic, and start of a window in ms."""
EdgeWindow = tuple[str, str, int]
"""Name of an edge, topic, and start of a window in ms."""


class CellKey(NamedTuple):
    """One cell, wherever it is counted.

    ``window`` is the start of the window in ms UTC; ``instance`` is 16 hex digits, and ``""``
    together with server ``""`` for records that carry no stamp (``partition`` is then the partition
    of the log that holds them, since their origin is not known).
    """

    topic: str
    partition: int
    window: int
    server: str
    instance: str

    @property
    def stamped(self) -> bool:
        """Whether the records name the run that sent them; without it they can only be counted."""
        return bool(self.instance)

    @property
    def run(self) -> RunName:
        """The run that sent the records."""
        return self.server, self.instance

    @property
    def overflow(self) -> bool:
        """Whether these are records of many cells, which were too many to be kept apart."""
        return self.server == OVERFLOW and not self.instance


class Block(NamedTuple):
    """What a cell holds of 1,024 consecutive sequences: ``block`` 0 is 0 to 1023. ``hash`` is the
    sum, modulo 2^64, of the hashes of (sequence, key, value): parts of a block add up in any order,
    so two sides that hold the same records of a block agree however these were batched."""

    block: int
    records: int
    hash: int


class Summary(NamedTuple):
    """The rest of a cell that had more ranges than may be kept: the number of its records, and the
    sum of the hashes of the acknowledged sequences, modulo 2^64. Equal sums show equal records;
    they do not show which are missing."""

    accepted: int
    acknowledged: int
    failed: int
    in_doubt: int
    fingerprint: int


class Copy(NamedTuple):
    """A record that was counted again: the place of the further copy, and the sequence that it
    repeats."""

    partition: int
    offset: int
    sequence: int


class Explanation(NamedTuple):
    """Why sequences are not downstream: :data:`EXCUSES` or :data:`EXPIRED`."""

    reason: str
    ranges: RangeSet


ABORTED: Final = "aborted"
FILTERED: Final = "filtered"
FAILED: Final = "failed"
IN_DOUBT: Final = "in doubt"
QUARANTINED: Final = "quarantined"
EXCUSES: Final = (ABORTED, FILTERED, FAILED, IN_DOUBT, QUARANTINED)
"""Reasons for which nothing is lost: never committed, left out on purpose, refused, never promised,
or in the lake's quarantine table. Of a sequence with several the first counts."""
EXPIRED: Final = "expired"
"""It was promised, and upstream deleted it before it was passed on: missing for good."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One hop that is judged: what ``upstream`` has, ``downstream`` must have.

    ``upstream`` is ``producer`` or a cluster, ``downstream`` a cluster, ``group:<name>`` or
    ``lake``; ``topics`` is the regular expression of the topics that pass the hop (the declared
    filter), by their names upstream, which verdicts use. The rules of a ``mirror`` also say which
    topics it leaves out and how it names the others. ``implied`` marks the producer edge of a
    mirror's target, which usually has no producers of its own. ``overdue_ms``: a window that the
    load has not come to for so long after its end is not waited for any more."""

    name: str
    upstream: str
    downstream: str
    kind: Literal["producer", "mirror", "consumer", "lake"]
    topics: str = ".*"
    implied: bool = False
    mirror: Mirror | None = None
    overdue_ms: int = 0

    @property
    def reported(self) -> bool:
        """Whether what is downstream is known from reports alone, on the upstream's audit topic: no
        counter reads a consumer group or a lake."""
        return self.kind in ("consumer", "lake")

    @property
    def home(self) -> str:
        """The cluster whose collector judges the edge: the one that counts the later of its two
        sides."""
        return self.downstream if self.kind in ("producer", "mirror") else self.upstream

    @property
    def group(self) -> str:
        """Of a consumer edge the group's name; of the lake's edge the name that its reporters give
        as theirs."""
        return self.downstream.removeprefix(GROUP)

    @property
    def uncommitted(self) -> bool:
        """Whether records of aborted transactions are carried over on purpose."""
        return self.mirror is not None and self.mirror.isolation == "read_uncommitted"

    def downstream_topic(self, topic: str) -> str:
        """What the upstream's topic is called downstream."""
        return self.mirror.target_topic(topic) if self.mirror else topic

    def upstream_topics(self, topic: str, known: Iterable[str]) -> tuple[str, ...]:
        """Those of the upstream's ``known`` topics that are called ``topic`` downstream, sorted.
        More than one: the hop cannot be judged, see :func:`tallymark_audit.model.edges.collision`.
        """
        copies = (lambda _: True) if self.mirror is None else self.mirror.copies
        return tuple(
            sorted(t for t in set(known) if copies(t) and self.downstream_topic(t) == topic)
        )


def window_of(timestamp: int, window_ms: int) -> int:
    """The start of the window a timestamp (ms) falls in. Every timestamp below zero, which is what
    records without one have, falls in the one window ``-window_ms``: it never mixes with time."""
    return timestamp - timestamp % window_ms if timestamp >= 0 else -window_ms


def overflow_key(topic: str, partition: int, window: int) -> CellKey:
    """The cell of the records whose runs are not kept apart, of the partition in which they were
    read."""
    return CellKey(topic, partition, window, OVERFLOW, "")


def merge_blocks(one: tuple[Block, ...], other: tuple[Block, ...]) -> tuple[Block, ...]:
    """The blocks of two parts of a cell, which add up."""
    if not one or not other:
        return one or other
    merged = {block.block: block for block in one}
    for block in other:
        known = merged.get(block.block)
        merged[block.block] = (
            Block(block.block, known.records + block.records, known.hash + block.hash & MASK)
            if known
            else block
        )
    return tuple(merged[number] for number in sorted(merged))
