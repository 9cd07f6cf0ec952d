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
from tallymark.client.producing.interceptors.transaction_stage import TransactionStage
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

OPEN = TransactionStage.OPEN
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
    stage: TransactionStage | None = None
    held: dict[tuple[int, int], Outcome] = field(default_factory=dict)
    """What was acknowledged or given up in the open transaction."""
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

    def transaction_is(self, stage: TransactionStage) -> None:
        """Of one transaction after the other: what is sent before one begins has its end, and an
        end comes when all that was sent in it has its own."""
        life = self.life
        begins, ends = stage is OPEN, stage > TransactionStage.ENDING
        if (begins and life.open) or begins is not (life.stage is None):
            return
        while ends and life.open and not life.dead:
            self.settle(0, Outcome.ACKNOWLEDGED)
        if life.dead:
            return
        before = with_pending(life.notes, outcome_at_death(life.stage))
        after = with_pending(life.notes, outcome_at_death(stage))
        if ends:
            for at, outcome in life.held.items():
                end = outcome_at_death(stage)
                if stage is TransactionStage.COMMITTED:
                    end = outcome
                for notes in (life.notes, after):
                    notes[at] = Record(notes[at].window, end)
            life.held = {}
        self._do(None, None, lambda: life.run.transaction_is(stage))
        if life.dead:
            life.ways = [before, after]
        else:
            life.stage = None if ends else stage

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
        life = self.life
        life.notes = with_pending(life.notes, outcome_at_death(life.stage))
        self._do(None, None, lambda: life.run.close(self.now))
        life.dead = True

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
            holds = outcome in (Outcome.ACKNOWLEDGED, Outcome.IN_DOUBT) and life.stage is not None
            for runs in _by_window(batch):
                noted = copy.copy(ways[-1])
                for sequence, window in runs:
                    if holds and outcome is not None:
                        life.held[batch.partition, sequence] = outcome
                    noted[batch.partition, sequence] = Record(window, None if holds else outcome)
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


def outcome_at_death(stage: TransactionStage | None) -> Outcome:
    """Of what is pending: a transaction of which nobody asked a commit is aborted some time."""
    known = {
        OPEN: Outcome.ABORTED,
        TransactionStage.ABORTED: Outcome.ABORTED,
        TransactionStage.COMMITTED: Outcome.ACKNOWLEDGED,
    }
    return known.get(stage, Outcome.IN_DOUBT) if stage is not None else Outcome.IN_DOUBT


def with_pending(notes: Notes, outcome: Outcome) -> Notes:
    """The notes of a life that is over."""
    return {at: Record(record.window, record.outcome or outcome) for at, record in notes.items()}


def expected(
    notes: Notes, over: bool, stage: TransactionStage | None = None
) -> dict[tuple[int, int], dict[Outcome | None, set[int]]]:
    """By partition and window: the sequences of each outcome; when the run is ``over``, what was
    pending ended with its transaction, or is in doubt."""
    cells: dict[tuple[int, int], dict[Outcome | None, set[int]]] = {}
    for (partition, sequence), record in notes.items():
        outcome = record.outcome
        if outcome is None and over:
            outcome = outcome_at_death(stage)
        cell = cells.setdefault((partition, record.window), {})
        cell.setdefault(outcome, set()).add(sequence)
    return cells


def check(host: AuditedHost, life: Life, exact_contents: bool = True) -> None:
    """The claims of a life that is over are those of one of the ways it may have ended. A death
    between a record's acknowledgement and its contents leaves these out: they are not checked."""
    book = host.book()
    claims = host.claims(life, book)
    ways = [expected(notes, over=True, stage=life.stage) for notes in life.ways or [life.notes]]
    matching = [
        way
        for way in ways
        if claims.keys() == way.keys()
        and all(
            agrees(claims[at], way[at]) or (life.ways and _half_done(claims[at], way[at]))
            for at in way
        )
    ]
    assert matching, (claims, ways)
    for at, cell in matching[0].items():
        acknowledged = cell.get(Outcome.ACKNOWLEDGED, set())
        told = list(claims[at].blocks)
        if exact_contents:
            assert told == blocks_of(acknowledged)
            assert sum(claims[at].latency[1::2]) == len(acknowledged)
        assert sum(block.records for block in told) <= len(acknowledged)
    if life.notes or life.ways:
        reporter = book.reporters.get(f"producer-{life.instance.hex()}")
        if reporter is not None:
            assert reporter.closed
            assert reporter.ahead == ()


def _half_done(claim: Claim, cell: dict[Outcome | None, set[int]]) -> bool:
    """Whether a cell that only counts, of a life that was killed while its committed records were
    settled, says no more than is true: of the rest it does not know which they are."""
    acknowledged, summary = cell.get(Outcome.ACKNOWLEDGED, set()), claim.summary
    if summary is None:
        return False
    left = len(acknowledged) - summary.acknowledged
    doubted = len(cell.get(Outcome.IN_DOUBT, set()))
    total = sum(map(len, cell.values()))
    return left > 0 and (summary.accepted, summary.in_doubt) == (total, doubted + left)


def agrees(claim: Claim, cell: dict[Outcome | None, set[int]]) -> bool:
    """Whether the claim says of the cell what the notes say."""
    acknowledged = cell.get(Outcome.ACKNOWLEDGED, set())
    failed, doubt = cell.get(Outcome.FAILED, set()), cell.get(Outcome.IN_DOUBT, set())
    aborted = cell.get(Outcome.ABORTED, set())
    total = sum(map(len, cell.values()))
    if claim.count != total:
        return False
    if claim.summary is not None:
        hashes = sum(map(mix, acknowledged)) & MASK
        unseen = len(failed) + len(aborted) + len(cell.get(Outcome.FILTERED, set()))
        counts = (total, len(acknowledged), unseen, len(doubt), hashes)
        return tuple(claim.summary) == counts
    return (
        members(claim.accepted) == set().union(*cell.values())
        and members(claim.acknowledged) == acknowledged
        and members(claim.failed) == failed
        and members(claim.aborted) == aborted
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
