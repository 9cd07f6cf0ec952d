"""What a log remembers of idempotent producers: is a batch new, a duplicate, or after a gap? Pure.

Per producer id the last five batches are kept, as many as a producer may have in flight (KIP-98,
KAFKA-5494). :meth:`ProducerStates.check` decides before a batch is written,
:meth:`ProducerStates.add` remembers it afterwards:

=======================================  =====================================================
epoch older than the known one           INVALID_PRODUCER_EPOCH
same first and last sequence as a kept   a repetition: answered with the original's offset
follows the last sequence                new
lies in what is surely in the log        DUPLICATE_SEQUENCE_NUMBER: stored, where is forgotten
anything else                            OUT_OF_ORDER_SEQUENCE_NUMBER
newer epoch                              new, if it begins with sequence 0
unknown producer                         new, whatever its sequence: retention may have taken the
                                         earlier ones, and after a power failure the log knows less
=======================================  =====================================================

Sequences run from 0 to 2^31 - 1 and then begin again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallymark.errors import CODES, KafkaError
from tallymark.protocol.records.batch import BatchHeader

KEPT: Final = 5
_MODULUS: Final = 2**31
_NEAR: Final = 2**30
"""How far back a sequence counts as earlier: further, it could as well be later."""


class KeptBatch(NamedTuple):
    """Sequences and offsets of a batch, both inclusive."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class ProducerEntry:
    """One producer. Every sequence from ``known_from`` to the last one is in the log.

    ``coordinator_epoch`` and ``txn_first_offset`` belong to transactions (-1: none open).
    ``updated_ms`` is the time of its last batch.
    """

    producer_id: int
    epoch: int
    batches: list[KeptBatch] = field(default_factory=list)
    known_from: int = 0
    updated_ms: int = -1
    coordinator_epoch: int = -1
    txn_first_offset: int = -1


class ProducerStates:
    """The producers of one log by their id."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader) -> KeptBatch | None:
        """Check a batch with a producer id. Returns None when it is new, the kept batch when it is
        a duplicate of that. Raises KafkaError 45, 46 or 47 as in the table above. Changes nothing.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        if header.producer_epoch < entry.epoch:
            raise _refused("INVALID_PRODUCER_EPOCH", header, f"the epoch is {entry.epoch}")
        first = header.base_sequence
        if header.producer_epoch > entry.epoch:
            if first != 0:
                raise _refused("OUT_OF_ORDER_SEQUENCE_NUMBER", header, "a new epoch begins at 0")
            return None
        expected = next_sequence(entry.batches[-1].last_sequence) if entry.batches else 0
        if first == expected:
            return None
        last = last_sequence(header)
        for kept in entry.batches:
            if kept.first_sequence == first and kept.last_sequence == last:
                return kept
        if entry.batches and _within(entry.known_from, expected, first, last):
            raise _refused("DUPLICATE_SEQUENCE_NUMBER", header, f"{expected} is next")
        raise _refused("OUT_OF_ORDER_SEQUENCE_NUMBER", header, f"{expected} is next")

    def add(self, header: BatchHeader, first_offset: int, now_ms: int) -> None:
        """Remember a batch that was written at ``first_offset``, or found there at a start."""
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            entry = ProducerEntry(header.producer_id, header.producer_epoch)
            self._entries[header.producer_id] = entry
        entry.updated_ms = now_ms
        if header.base_sequence < 0:
            return  # a marker has no sequence
        batches = entry.batches
        if not batches or header.base_sequence != next_sequence(batches[-1].last_sequence):
            entry.known_from = header.base_sequence
            batches.clear()
        batches.append(_kept(header, first_offset))
        if len(batches) > KEPT:
            del batches[0]
        if (batches[-1].last_sequence - entry.known_from) % _MODULUS > _NEAR:
            entry.known_from = (batches[-1].last_sequence - _NEAR) % _MODULUS

    def deepen(self, tail: Iterable[BatchHeader]) -> None:
        """Add batches that are not in the snapshot: it holds only the last one of a producer, and a
        start after a clean stop must recognise all five. ``tail``: the newest batches of the log,
        in order."""
        before: dict[int, list[KeptBatch]] = {}
        for header in tail:
            entry = self._entries.get(header.producer_id)
            if entry is None or not entry.batches or entry.epoch != header.producer_epoch:
                continue
            if header.base_sequence < 0 or header.base_offset >= entry.batches[0].first_offset:
                continue
            chain = before.setdefault(header.producer_id, [])
            if chain and next_sequence(chain[-1].last_sequence) != header.base_sequence:
                chain.clear()
            chain.append(_kept(header, header.base_offset))
        for producer_id, chain in before.items():
            entry = self._entries[producer_id]
            if next_sequence(chain[-1].last_sequence) == entry.batches[0].first_sequence:
                entry.known_from = chain[0].first_sequence
                entry.batches[:] = [*chain, *entry.batches][-KEPT:]

    def expire(self, now_ms: int, after_ms: int) -> int:
        """Forget producers that were idle so long and have no open transaction. Returns how
        many."""
        idle = [
            entry.producer_id
            for entry in self._entries.values()
            if now_ms - entry.updated_ms >= after_ms and entry.txn_first_offset < 0
        ]
        for producer_id in idle:
            del self._entries[producer_id]
        return len(idle)


def next_sequence(sequence: int) -> int:
    """The sequence after this one: 0 after 2^31 - 1."""
    return (sequence + 1) % _MODULUS


def last_sequence(header: BatchHeader) -> int:
    """The sequence of the last record of a batch."""
    return (header.base_sequence + header.last_offset_delta) % _MODULUS


def _kept(header: BatchHeader, first_offset: int) -> KeptBatch:
    return KeptBatch(
        header.base_sequence,
        last_sequence(header),
        first_offset,
        first_offset + header.last_offset_delta,
    )


def _within(known_from: int, expected: int, first: int, last: int) -> bool:
    """Whether ``first``..``last`` lies in ``known_from`` up to but not including ``expected``."""
    length = (expected - known_from) % _MODULUS
    return (first - known_from) % _MODULUS <= (last - known_from) % _MODULUS < length


def _refused(name: str, header: BatchHeader, why: str) -> KafkaError:
    return KafkaError(
        CODES[name],
        f"producer {header.producer_id} epoch {header.producer_epoch} "
        f"sequence {header.base_sequence}: {why}",
    )
