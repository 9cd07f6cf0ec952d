"""What :mod:`audit_world` is made of: messages, clusters with their counters, producers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tallymark.client.producing.stamps import Stamp
from tallymark_audit.events.claim_book import ClaimBook
from tallymark_audit.model.cells import CellKey
from tallymark_audit.model.record_runs import SeenRun
from tallymark_audit.model.sides import Observation, merge_observations
from tallymark_audit.reporters.books.tally import Outcome, Tally
from tallymark_audit.testing import MemoryLog, Told

W = 1000
PARTITIONS = (0, 1)
ABORTED_ID = 666
"""The producer id of the transactions that are aborted."""
FATES: dict[str, tuple[Outcome | None, str]] = {
    "stored": (Outcome.ACKNOWLEDGED, "stored"),
    "acknowledged but lost": (Outcome.ACKNOWLEDGED, "lost"),
    "retried into a duplicate": (Outcome.ACKNOWLEDGED, "twice"),
    "delayed on the way": (Outcome.ACKNOWLEDGED, "held"),
    "changed on the way": (Outcome.ACKNOWLEDGED, "corrupt"),
    "answer lost, stored": (Outcome.IN_DOUBT, "stored"),
    "answer lost, not stored": (Outcome.IN_DOUBT, "lost"),
    "refused": (Outcome.FAILED, "lost"),
    "aborted": (Outcome.ABORTED, "aborted"),
    "never settled, stored": (None, "stored"),
    "never settled, not stored": (None, "lost"),
}
"""What the producer learns, and what becomes of it."""


def is_left_out(sequence: int) -> bool:
    """What the group leaves out on purpose."""
    return sequence % 7 == 3


def one_by_one(run: SeenRun) -> list[SeenRun]:
    return [
        replace(run, first=run.first + at, offset=run.offset + at, count=1, bytes=1, blocks=())
        for at in range(run.count)
    ]


@dataclass(eq=False)
class Message:
    """One message as whoever saw everything knows it. Times in ms. ``contents``: by cluster, of
    each copy there; ``processed``: how often the group came to it; ``late``: stamped in a time of
    which its producer had said before that all was told."""

    instance: str
    home: str
    partition: int
    sequence: int
    stamp: int
    sent_at: int
    late: bool
    outcome: Outcome | None = None
    told: bool = False
    contents: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    counted: dict[str, int] = field(default_factory=dict[str, int])
    """By cluster, how many copies its counter has seen."""
    expired: bool = False
    aborted: bool = False
    processed: int = 0
    """Or left out on purpose, see :func:`is_left_out`."""

    @property
    def window(self) -> int:
        return self.stamp - self.stamp % W if self.stamp >= 0 else -W

    @property
    def value(self) -> bytes:
        return f"{self.instance}{self.partition}:{self.sequence}".encode()

    def copies(self, cluster: str) -> int:
        """How many a reader of committed records finds there, or could while it was there."""
        return len(self.contents.get(cluster, ()))


@dataclass(eq=False)
class Cluster:
    """A cluster with its counter. ``batches``: the messages of each batch, by partition."""

    name: str
    topic: str
    logs: dict[int, MemoryLog] = field(default_factory=lambda: {p: MemoryLog() for p in PARTITIONS})
    batches: dict[int, list[tuple[Message, ...]]] = field(
        default_factory=lambda: {p: [] for p in PARTITIONS}
    )
    book: ClaimBook = field(default_factory=ClaimBook)
    counted_to: dict[int, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    cells: dict[int, dict[CellKey, Observation]] = field(
        default_factory=lambda: {p: {} for p in PARTITIONS}
    )
    counted_through: int = 0

    def append(self, partition: int, messages: Sequence[tuple[Message, bytes]]) -> None:
        """Write one batch of (message, value)."""
        told = [
            Told(Stamp(bytes.fromhex(m.instance), m.partition, m.sequence, "web"), m.stamp, value)
            for m, value in messages
        ]
        self.logs[partition].append(told)
        self.batches[partition].append(tuple(message for message, _ in messages))
        for message, value in messages:
            message.contents.setdefault(self.name, []).append(value)

    def seen(self) -> dict[CellKey, Observation]:
        """What the counter has counted, whole."""
        return merge_observations(s for cells in self.cells.values() for s in cells.values())


@dataclass(eq=False)
class Producer:
    """A producer run. ``reported``: until when (ms) it has said that all its claims are told."""

    instance: str
    home: str
    tally: Tally
    next: dict[int, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    reported: int = 0
    alive: bool = True
    silent: bool = False
    """It died, and nobody found its journal."""
