"""What the audit has to say, from the truth alone. Pure, and no code of the verdicts is used.

Per hop and message: acknowledged (or upstream) and not downstream is a LOSS; further copies that
upstream does not have are DUPLICATION; what is downstream and not upstream is UNCLAIMED; another
content is CORRUPT, which is found by the block of 1,024 sequences: unless both sides of the block
hold the same messages, each once, the change cannot show, and is counted as *hidden*; where it
holds a message whose delivery report a killed application never got, it may show or not.

What a deleted topic held had arrived, and is judged like what is still there; what its mirror had
not copied is lost for good (:attr:`Expectation.gone`). What was sent just before the deletion may
have been counted or not, so it may be called lost or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallymark_audit.proof.drill.faults.kinds import SCRUBBED_FAULTS
from tallymark_audit.proof.drill.truth.books_and_logs import (
    Book,
    Log,
    LostHost,
    MessageId,
    Seen,
    SenderRun,
    Unreadable,
)

LOSS: Final = "LOSS"
DUPLICATION: Final = "DUPLICATION"
CORRUPT: Final = "CORRUPT"
UNCLAIMED: Final = "UNCLAIMED"
SKEWED: Final = "SKEWED"
KINDS: Final = (LOSS, DUPLICATION, CORRUPT, UNCLAIMED, SKEWED)
BLOCK: Final = 1024
GROUP_MARK: Final = "-to-group:"
UNREPORTED_MS: Final = 3_000
"""Claims older than this had been reported; reports are made far more often."""
UNTOLD: Final = 10_000
"""A producer that is killed has fewer messages under way."""


class Cell(NamedTuple):
    """One cell on one edge."""

    edge: str
    topic: str
    window: int
    partition: int
    server: str
    instance: str


class Finding(NamedTuple):
    """One thing that is wrong in a cell: of LOSS and UNCLAIMED the message's sequence; of
    DUPLICATION the sequence and the how-manieth further copy; of CORRUPT the
    block's number; of SKEWED how many there are."""

    cell: Cell
    kind: str
    number: int
    copy: int = 0

    @property
    def mirrored(self) -> bool:
        """Whether it is about a mirror's hop, so that the message can be copied once more."""
        return not self.cell.edge.startswith("producer-") and GROUP_MARK not in self.cell.edge

    @property
    def who(self) -> MessageId:
        """The message it is about, unless it is about a block or a number of them."""
        return MessageId(self.cell.topic, self.cell.instance, self.cell.partition, self.number)


@dataclass(slots=True)
class Expectation:
    """``cells``: all that hold messages. ``items``: what is wrong. ``untold``: (instance,
    partition, sequence) of messages that are in no log, and whose delivery report a killed
    application never got: a LOSS or not, as the producer's own journal has it. ``hidden``: changed
    messages that cannot show. ``unclear``: what shows only if the journal holds what was not
    reported to the application. ``unsure``: the cells of a lost host whose claims may or may not
    have been reported. ``gone``: losses of which nothing is upstream any more. ``saved``: losses at
    a producer's edge that a broker has saved. ``young``: messages that came just before their topic
    was deleted. ``messages``: the number on each edge. ``aborted``: in aborted transactions."""

    cells: set[Cell] = field(default_factory=set[Cell])
    items: set[Finding] = field(default_factory=set[Finding])
    untold: set[tuple[str, int, int]] = field(default_factory=set[tuple[str, int, int]])
    unclear: set[Finding] = field(default_factory=set[Finding])
    unsure: set[Cell] = field(default_factory=set[Cell])
    gone: set[Finding] = field(default_factory=set[Finding])
    saved: set[Finding] = field(default_factory=set[Finding])
    young: set[MessageId] = field(default_factory=set[MessageId])
    hidden: int = 0
    aborted: int = 0
    messages: Counter[str] = field(default_factory=Counter[str])

    @property
    def there(self) -> set[Finding]:
        """The losses that a repair brings back: what is upstream, or was saved."""
        mirrored = (item for item in self.items if item.kind == LOSS and item.mirrored)
        return set(mirrored) - self.gone | self.saved

    @property
    def may_be_refused(self) -> bool:
        """Whether a repair may find a loss that it cannot bring back, expected or not."""
        lost = {item for item in self.items if item.kind == LOSS}
        return lost > self.there or bool(self.young or self.untold or self.unsure)

    def add(self, other: Expectation) -> None:
        """What is expected on other hops."""
        self.cells |= other.cells
        self.items |= other.items
        self.unclear |= other.unclear
        self.gone |= other.gone
        self.hidden += other.hidden
        self.messages.update(other.messages)

    def allows(self, item: Finding) -> bool:
        """Whether the item may be found and need not be."""
        if item.cell in self.unsure or item in self.unclear:
            return True
        if item.kind in (LOSS, DUPLICATION, UNCLAIMED) and item.who in self.young:
            return True
        who = (item.cell.instance, item.cell.partition, item.number)
        of_producer = item.cell.edge.startswith("producer-")
        return item.kind == LOSS and of_producer and who in self.untold


class _Message(NamedTuple):
    """A message upstream: its time, content and how often it is there."""

    timestamp: int
    crc: int
    copies: int


def expect(
    books: Iterable[Book],
    logs: Mapping[str, Log],
    mirrors: Iterable[tuple[str, str]],
    window_ms: int,
    lost: Iterable[LostHost] = (),
) -> Expectation:
    """``mirrors`` are (source, target)."""
    found = Expectation()
    for book in books:
        _expect_of_producer(found, book, logs.get(book.cluster, {}), window_ms)
    for host in lost:
        _doubt(found, host, window_ms)
    for source, target in mirrors:
        for origin, sequences in logs.get(source, {}).items():
            claims = {
                sequence: _Message(copies[0].timestamp, copies[0].crc, len(copies))
                for sequence, copies in sequences.items()
            }
            edge = f"{source}-to-{target}"
            _compare(found, edge, origin, claims, logs.get(target, {}), window_ms)
    return found


def _expect_of_producer(found: Expectation, book: Book, log: Log, window_ms: int) -> None:
    claims: dict[int, dict[int, _Message]] = {}
    found.aborted += len(book.aborted)
    for (partition, sequence), told in book.acked.items():
        claims.setdefault(partition, {})[sequence] = _Message(*told, 1)
    partitions = {origin.partition for origin in log if origin.instance == book.instance}
    for partition in sorted(partitions | claims.keys()):
        origin = SenderRun(book.topic, partition, book.server, book.instance)
        there, of_partition = log.get(origin, {}), claims.setdefault(partition, {})
        if not book.sent:
            last = max((*there, *of_partition), default=-1)
            untold = set(range(last + UNTOLD)) - there.keys() - of_partition.keys()
            untold -= {sequence for of, sequence in book.aborted if of == partition}
            found.untold |= {(book.instance, partition, sequence) for sequence in untold}
        # What is there and was not acknowledged is nothing wrong; twice it would be.
        doubtful = there.keys() - of_partition.keys()
        for sequence in doubtful:
            copies = there[sequence]
            of_partition[sequence] = _Message(copies[0].timestamp, copies[0].crc, 1)
        edge = f"producer-to-{book.cluster}"
        _compare(found, edge, origin, of_partition, log, window_ms, doubtful)


def expect_gone(found: Expectation, home: str, old: Log, now: Log, young: Set[MessageId]) -> None:
    """A topic of ``home`` was deleted with the ``old`` log, and made again: ``now`` is what stands
    there. The losses on the hops out of it have no place, unless they were sent again."""
    there = messages_of(now)
    gone = messages_of(old) - there
    found.gone |= {
        item
        for item in found.items
        if item.kind == LOSS and item.cell.edge.startswith(f"{home}-to-") and item.who in gone
    }
    found.young |= young
    found.items = {item for item in found.items if item.kind == CORRUPT or item.who not in young}
    found.gone &= found.items


def expect_repeats(found: Expectation, edge: str, doubtful: Set[MessageId]) -> None:
    """The group is given again what a killed member of it had in flight. Whether the member had
    processed it, so that it is processed twice, cannot be known."""
    unclear = {
        item
        for item in found.items
        if item.cell.edge == edge and item.kind == DUPLICATION and item.who in doubtful
    }
    found.items -= unclear
    found.unclear |= unclear


def expect_nothing(found: Expectation, place: Unreadable) -> None:
    """Cells that touch damage cannot be judged."""
    cells = {cell for cell in found.cells if place.covers(cell.edge, cell.topic, cell.window)}
    found.unsure |= cells
    found.items = {item for item in found.items if item.cell not in cells}


def messages_of(log: Log) -> set[MessageId]:
    """Every message of a log, once."""
    return {
        MessageId(origin.topic, origin.instance, origin.partition, sequence)
        for origin, sequences in log.items()
        for sequence in sequences
    }


def expect_skew(found: Expectation, books: Iterable[Book], before: int, window_ms: int) -> None:
    """Add what producers have to report as skewed: what they stamped before that time (ms)."""
    for book in books:
        counts: Counter[Cell] = Counter()
        for (partition, _), told in book.acked.items():
            if told.timestamp < before:
                origin = SenderRun(book.topic, partition, book.server, book.instance)
                counts[_cell(f"producer-to-{book.cluster}", origin, told.timestamp, window_ms)] += 1
        found.items |= {Finding(cell, SKEWED, count) for cell, count in counts.items()}


def _doubt(found: Expectation, host: LostHost, window_ms: int) -> None:
    """What a lost host sent last was perhaps never reported, so it may show as UNCLAIMED or not,
    and a loss of it may show or not. What it had reported long before has to be right. On a busy
    machine its last report may be older than reports should ever be."""
    edge = f"producer-to-{host.cluster}"
    found.unsure |= {
        cell
        for cell in found.cells
        if (cell.edge, cell.instance) == (edge, host.instance)
        and cell.window + window_ms > min(host.at - UNREPORTED_MS, host.reported)
    }
    found.items = {item for item in found.items if item.cell not in found.unsure}


def _compare(
    found: Expectation,
    edge: str,
    origin: SenderRun,
    claims: Mapping[int, _Message],
    log: Log,
    window_ms: int,
    doubtful: Set[int] = frozenset(),
) -> None:
    there = log.get(origin, {})
    blocks = _Blocks()
    for sequence in sorted(claims.keys() | there.keys()):
        copies = there.get(sequence, [])
        message = claims.get(sequence)
        told = message or _Message(copies[0].timestamp, copies[0].crc, 1)
        cell = _cell(edge, origin, told.timestamp, window_ms)
        found.cells.add(cell)
        blocks.add(cell, sequence, message, copies, sequence in doubtful)
        if message is None:
            found.items.add(Finding(cell, UNCLAIMED, sequence))
        else:
            found.messages[edge] += 1
        if not copies:
            found.items.add(Finding(cell, LOSS, sequence))
        for number in range(1, len(copies) - told.copies + 1):
            found.items.add(Finding(cell, DUPLICATION, sequence, number))
    if GROUP_MARK not in edge:  # a group tells what it has processed, not what that held
        found.items |= blocks.items()
        found.unclear |= blocks.unclear()
        if origin.topic in SCRUBBED_FAULTS:
            found.unclear |= blocks.not_showing()
        found.hidden += blocks.hidden()


class _Blocks:
    """Which blocks of an origin's cells hold other contents than upstream's, and of which of them
    that can show."""

    def __init__(self) -> None:
        self._changed: Counter[tuple[Cell, int]] = Counter()
        self._unequal: set[tuple[Cell, int]] = set()
        self._doubtful: set[tuple[Cell, int]] = set()

    def add(
        self,
        cell: Cell,
        sequence: int,
        message: _Message | None,
        copies: Sequence[Seen],
        doubtful: bool,
    ) -> None:
        """One message upstream (None: it is not there), and its copies downstream. ``doubtful``:
        upstream may know or not that it has the message."""
        block = (cell, sequence // BLOCK)
        if doubtful:
            self._doubtful.add(block)
        if message is None or message.copies > 1 or len(copies) != 1:
            self._unequal.add(block)
        if message and any(copy.crc != message.crc for copy in copies):
            self._changed[block] += 1

    def items(self) -> set[Finding]:
        """What has to be found."""
        return self._showing() - self.unclear()

    def unclear(self) -> set[Finding]:
        """What may be found or not."""
        return {one for one in self._showing() if (one.cell, one.number) in self._doubtful}

    def hidden(self) -> int:
        """Changed messages that cannot be found."""
        return sum(count for block, count in self._changed.items() if not self._shows(*block))

    def not_showing(self) -> set[Finding]:
        """What cannot show by itself. A scrub may know what was counted first, and say it."""
        every = {Finding(cell, CORRUPT, number) for cell, number in self._changed}
        return every - self._showing()

    def _showing(self) -> set[Finding]:
        return {
            Finding(cell, CORRUPT, number)
            for cell, number in self._changed
            if self._shows(cell, number)
        }

    def _shows(self, cell: Cell, number: int) -> bool:
        return (cell, number) not in self._unequal


def _cell(edge: str, origin: SenderRun, timestamp: int, window_ms: int) -> Cell:
    window = timestamp - timestamp % window_ms
    return Cell(edge, origin.topic, window, origin.partition, origin.server, origin.instance)
