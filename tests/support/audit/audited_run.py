"""A producer that is audited, killed and started again, beside somebody who noted what it did.

The notes are a dictionary of what was told to the run; they know nothing of ranges, revisions,
journals or events.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tallymark.client.producing.batches.tally import BatchTally
from tallymark.client.producing.delivery import RecordMetadata
from tallymark.client.producing.interceptors.producer_interceptor import ProducerContext
from tallymark_audit.events.claim_book import ClaimBook, fold
from tallymark_audit.events.event_codec import decode_event
from tallymark_audit.events.events import AuditEvent
from tallymark_audit.model.cells import Block
from tallymark_audit.model.edges import AUDIT_TOPIC
from tallymark_audit.model.hashing import BLOCK, MASK, content, mix
from tallymark_audit.model.sides import Claim
from tallymark_audit.reporters.books.tally_cell import Outcome
from tallymark_audit.reporters.journal.orphans import Replay
from tallymark_audit.reporters.producer import producer_run
from tallymark_audit.reporters.producer.producer_run import ProducerRun, RunSettings
from tallymark_audit.testing import FailingDisk, ProcessDiedError

W = 1000
CLUSTER = "cluster-1"
Fate = Literal["arrives", "lost", "refused", "waits"]
"""Of an event: ``lost`` is acknowledged, and then cut off (of a living run); ``waits`` is not
answered."""


class Record(NamedTuple):
    """What the notes say of a record."""

    window: int
    outcome: Outcome | None


Notes = dict[tuple[int, int], Record]
"""(partition, sequence) -> what became of it."""


@dataclass
class Life:
    """One run of the producer. ``ways`` are the notes as they may be if it was killed in the midst
    of something: before it, and after each run of the batch."""

    instance: bytes
    run: ProducerRun
    disk: FailingDisk
    notes: Notes = field(default_factory=dict)
    ways: list[Notes] = field(default_factory=list)
    next: dict[int, int] = field(default_factory=dict)
    open: list[BatchTally] = field(default_factory=list)
    dead: bool = False
    broken: bool = False
    """Whether its journal was given up at some time."""


@dataclass
class AuditedHost:
    """A host with one producer at a time, and the audit topic of its cluster."""

    folder: Path
    max_ranges: int = 1000
    content_check: bool = True
    now: int = 10_000
    fate: Fate = "arrives"
    arrived: list[AuditEvent] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    waiting: list[Future[Any]] = field(default_factory=list)
    offset: int = 0
    dies_at: int | None = None
    fails_at: int | None = None
    torn: float = 0.0
    for_ever: bool = False

    def __post_init__(self) -> None:
        self.start()

    @property
    def life(self) -> Life:
        """The present one."""
        return self.lives[-1]

    def start(self) -> None:
        """A new run; the one before is dead."""
        instance = len(self.lives).to_bytes(8, "big")
        disk = FailingDisk(self.fails_at, self.dies_at, self.torn, self.for_ever)
        settings = RunSettings(W, self.folder, 100, 10**9, self.max_ranges, self.content_check)
        context = ProducerContext(
            instance=instance,
            server="web",
            client_id="shop",
            acks=-1,
            backfill=False,
            publish=self._publish,
            create_topic=_made,
            read_cluster_id=lambda: CLUSTER,
        )
        self.lives.append(Life(instance, ProducerRun(context, settings, disk), disk))

    def accept(self, partition: int, timestamps: list[int]) -> None:
        """Hand in a batch."""
        life = self.life
        first = life.next.get(partition, 0)
        life.next[partition] = first + len(timestamps)
        values = [payload(first + at) for at in range(len(timestamps))]
        size, span = sum(map(len, values)), (min(timestamps), max(timestamps))
        batch = BatchTally(
            "t", partition, life.instance, "web", first, timestamps, size, False, span, values
        )
        life.open.append(batch)
        self._do(batch, None, lambda: life.run.accept(batch))

    def settle(self, at: int, outcome: Outcome) -> None:
        """End one of the open batches."""
        life = self.life
        if life.open:
            batch = life.open.pop(at % len(life.open))
            self._do(batch, outcome, lambda: life.run.settle(batch, outcome))

    def tick(self, fate: Fate = "arrives") -> None:
        """Let time pass."""
        self.now += 150
        self.fate = fate
        self._do(None, None, lambda: self.life.run.tick(self.now, None))

    def flush(self, fate: Fate = "arrives") -> None:
        """As the producer calls it."""
        self.fate = fate
        self._do(None, None, lambda: self.life.run.flush(self.now, None))

    def close(self) -> None:
        """The application is done: what is open is given up first."""
        while self.life.open and not self.life.dead:
            self.settle(0, Outcome.IN_DOUBT)
        if self.life.dead:
            return
        self.fate = "arrives"
        self._do(None, None, lambda: self.life.run.close(self.now))
        self.life.dead = True

    def kill(self) -> None:
        """``kill -9``, if it lives still."""
        self.life.dead = True
        self.life.disk.dead = True
        self.life.disk.bury()
        # And what it was replaying for others: the kernel lets go of these files too.
        waiting, self.waiting = self.waiting, []
        for future in waiting:
            future.set_exception(ConnectionError("died"))

    def replay(self, fate: Fate = "arrives") -> None:
        """Somebody on the host looks for journals."""
        self.fate = fate
        Replay(self.folder, CLUSTER, self._publish).start(self.now)

    def book(self) -> ClaimBook:
        """What a reader of the topic knows."""
        return fold(self.arrived)

    def claims(self, life: Life, book: ClaimBook) -> dict[tuple[int, int], Claim]:
        """By partition and window."""
        return {
            (key.partition, key.window): claim
            for key, claim in book.claims().items()
            if key.instance == life.instance.hex()
        }

    def _do(
        self, batch: BatchTally | None, outcome: Outcome | None, do: Callable[[], None]
    ) -> None:
        life = self.life
        ways = [life.notes]
        if batch is not None:
            for runs in _by_window(batch):
                noted = copy.copy(ways[-1])
                for sequence, window in runs:
                    noted[batch.partition, sequence] = Record(window, outcome)
                ways.append(noted)
        module: Any = producer_run
        clock, module.now_ms = module.now_ms, lambda: self.now
        try:
            do()
            life.notes = ways[-1]
        except ProcessDiedError:
            life.ways = ways
            self.kill()
        finally:
            module.now_ms = clock
        life.broken = life.broken or life.run.troubles.journals_lost > 0

    def _publish(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int | None
    ) -> Future[Any]:
        assert topic == AUDIT_TOPIC
        future: Future[Any] = Future()
        if self.fate == "refused":
            future.set_exception(ConnectionError("away"))
        elif self.fate == "waits":
            self.waiting.append(future)
        else:
            self.offset += 1
            event = decode_event(value or b"")
            # Of a dead run nobody can repeat what the cluster loses after it has acknowledged it.
            if self.fate == "arrives" or event.instance != self.life.instance.hex():
                self.arrived.append(event)
            future.set_result(RecordMetadata(AUDIT_TOPIC, 0, self.offset, 0))
        return future


def expected(notes: Notes, over: bool) -> dict[tuple[int, int], dict[Outcome | None, set[int]]]:
    """By partition and window: the sequences of each outcome; when the run is ``over``, what was
    pending is in doubt."""
    cells: dict[tuple[int, int], dict[Outcome | None, set[int]]] = {}
    for (partition, sequence), record in notes.items():
        outcome = record.outcome
        if outcome is None and over:
            outcome = Outcome.IN_DOUBT
        cell = cells.setdefault((partition, record.window), {})
        cell.setdefault(outcome, set()).add(sequence)
    return cells


def agrees(claim: Claim, cell: dict[Outcome | None, set[int]]) -> bool:
    """Whether the claim says of the cell what the notes say."""
    acknowledged = cell.get(Outcome.ACKNOWLEDGED, set())
    failed, doubt = cell.get(Outcome.FAILED, set()), cell.get(Outcome.IN_DOUBT, set())
    total = sum(map(len, cell.values()))
    if claim.count != total:
        return False
    if claim.summary is not None:
        hashes = sum(map(mix, acknowledged)) & MASK
        counts = (total, len(acknowledged), len(failed), len(doubt), hashes)
        return tuple(claim.summary) == counts
    return (
        members(claim.accepted) == set().union(*cell.values())
        and members(claim.acknowledged) == acknowledged
        and members(claim.failed) == failed
        and members(claim.in_doubt) == doubt
    )


def blocks_of(acknowledged: set[int]) -> list[Block]:
    """The contents of these records, added up one by one."""
    blocks: dict[int, Block] = {}
    for sequence in acknowledged:
        number = sequence // BLOCK
        known = blocks.get(number, Block(number, 0, 0))
        hashes = known.hash + content(sequence, None, payload(sequence)) & MASK
        blocks[number] = Block(number, known.records + 1, hashes)
    return [blocks[number] for number in sorted(blocks)]


def payload(sequence: int) -> bytes:
    """What the record of that sequence holds."""
    return b"value %d" % sequence


def members(ranges: Any) -> set[int]:
    """The integers of a RangeSet."""
    return {number for first, last in ranges for number in range(first, last + 1)}


def _by_window(batch: BatchTally) -> list[list[tuple[int, int]]]:
    runs: list[list[tuple[int, int]]] = []
    for at, timestamp in enumerate(batch.timestamps):
        window = timestamp // W * W
        if not runs or runs[-1][-1][1] != window:
            runs.append([])
        runs[-1].append((batch.first_sequence + at, window))
    return runs


def _made(*_: Any) -> Future[bool]:
    future: Future[bool] = Future()
    future.set_result(True)
    return future


def files_of(folder: Path) -> list[str]:
    """What stands in the journals' folder."""
    return sorted(os.listdir(folder)) if folder.exists() else []
