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
outside of its open transaction          INVALID_TXN_STATE
=======================================  =====================================================

Sequences run from 0 to 2^31 - 1 and then begin again.

A transaction is open from its first batch until a marker: a newer epoch alone does not end it.
:meth:`ProducerStates.check_marker` decides whether a marker is written:

=======================================  =====================================================
older coordinator than the last marker's TRANSACTION_COORDINATOR_FENCED
older epoch                              INVALID_PRODUCER_EPOCH
the same epoch, in TV2 (KIP-890)         INVALID_PRODUCER_EPOCH where something is open, since its
                                         end has raised the epoch; else a repetition: success
=======================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallymark.errors import CODES, KafkaError
from tallymark.log.producers.transactions import EndedTransaction, OpenTransactions
from tallymark.protocol.records.batch import BatchHeader
from tallymark.protocol.records.markers import Marker

KEPT: Final = 5
TV2: Final = 2
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

    ``coordinator_epoch`` is that of its last marker, ``txn_first_offset`` where its open
    transaction begins; -1: none. ``updated_ms`` is the time of its last batch or marker.
    """

    producer_id: int
    epoch: int
    batches: list[KeptBatch] = field(default_factory=list)
    known_from: int = 0
    updated_ms: int = -1
    coordinator_epoch: int = -1
    txn_first_offset: int = -1


class ProducerStates:
    """The producers of one log by their id. ``transactions`` are theirs."""

    __slots__ = ("_entries", "transactions")

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}
        self.transactions = OpenTransactions(
            (entry.producer_id, entry.txn_first_offset)
            for entry in self._entries.values()
            if entry.txn_first_offset >= 0
        )

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
        if entry.txn_first_offset >= 0 and not header.is_transactional:
            raise _refused("INVALID_TXN_STATE", header, "the batch is not of its transaction")
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

    def check_marker(self, header: BatchHeader, marker: Marker, version: int) -> bool:
        """Whether the marker is to be written; False for a repetition, which has its effect
        already. ``version``: the level of ``transaction.version`` of the transaction's end
        (KIP-1228). Raises KafkaError 47 or 52 as in the table above. Changes nothing."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return True
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise _refused(
                "TRANSACTION_COORDINATOR_FENCED",
                header,
                f"coordinator epoch {marker.coordinator_epoch}, {entry.coordinator_epoch} is known",
            )
        is_old = header.producer_epoch < entry.epoch
        is_same = version >= TV2 and header.producer_epoch == entry.epoch
        if is_same and entry.txn_first_offset < 0:
            return False
        if is_old or is_same:
            raise _refused("INVALID_PRODUCER_EPOCH", header, f"the epoch is {entry.epoch}")
        return True

    def add(self, header: BatchHeader, first_offset: int, now_ms: int) -> None:
        """Remember a batch of a producer that was written at ``first_offset``, or found there at a
        start."""
        entry = self._entry(header)
        entry.updated_ms = now_ms
        if header.base_sequence < 0:
            return  # a control batch that ends no transaction
        if header.is_transactional and entry.txn_first_offset < 0:
            entry.txn_first_offset = first_offset
            self.transactions.begin(header.producer_id, first_offset)
        batches = entry.batches
        if not batches or header.base_sequence != next_sequence(batches[-1].last_sequence):
            entry.known_from = header.base_sequence
            batches.clear()
        batches.append(_kept(header, first_offset))
        if len(batches) > KEPT:
            del batches[0]
        if (batches[-1].last_sequence - entry.known_from) % _MODULUS > _NEAR:
            entry.known_from = (batches[-1].last_sequence - _NEAR) % _MODULUS

    def add_marker(
        self, header: BatchHeader, marker: Marker, offset: int, now_ms: int
    ) -> EndedTransaction | None:
        """Remember a marker that was written at ``offset``, or found there. Returns the transaction
        that it ends, if one is open here."""
        entry = self._entry(header)
        entry.updated_ms = now_ms
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.txn_first_offset = -1
        return self.transactions.end(header.producer_id, offset, marker.commit)

    def _entry(self, header: BatchHeader) -> ProducerEntry:
        """The producer's entry, in the epoch of the batch: of another epoch no sequence is kept,
        but the transaction stays open."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = ProducerEntry(header.producer_id, header.producer_epoch)
            self._entries[header.producer_id] = entry
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches = []
            entry.known_from = 0
        return entry

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
