"""A partition of a simulated cluster: its log, what its leader remembers, its high watermark. What
decides are the machines of the product: the producers of a log, the verification of a transaction's
first batch, the offsets of groups.

One log stands for all replicas. What the high watermark has not passed may be lost with a lead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from tallymark.broker.partitions.verifier import InTransaction, check_of, has_waiting, is_open
from tallymark.client.reading.committed import AbortedTransaction, committed
from tallymark.errors import CODES, KafkaError
from tallymark.groups.offsets import OffsetsState
from tallymark.groups.pending import NO_PRODUCER, Written
from tallymark.groups.records import CommittedOffset, OffsetKey
from tallymark.log.producers.aborted import Aborted, aborted
from tallymark.log.producers.state import ProducerStates, next_sequence
from tallymark.protocol.records.batch import TRANSACTIONAL, Batch, BatchHeader, read_header
from tallymark.protocol.records.markers import Marker, marker_batch
from tallymark.protocol.topic_partition import TopicPartition
from tallymark.transactions.verifying import Turn, Verifications, code_for_client

if TYPE_CHECKING:
    from txn_world import World

NOT_LEADER: Final = CODES["NOT_LEADER_OR_FOLLOWER"]
Value = tuple[int, int]
"""Of which transaction of a client, and the how many-th of it."""
OffsetRecord = tuple[OffsetKey, CommittedOffset]


class Entry(NamedTuple):
    """A batch in the log. ``records``: values, or offsets of groups; none in a marker."""

    batch: Batch
    records: tuple[Any, ...]
    marker: Marker | None = None

    @property
    def header(self) -> BatchHeader:
        return self.batch.header


class Memory:
    """What a leader knows of its log; all of it follows from the log."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self.producers = ProducerStates()
        self.offsets = OffsetsState()
        self.aborted: list[Aborted] = []
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        header, first = entry.header, entry.header.base_offset
        if entry.marker is not None:
            ended = self.producers.add_marker(header, entry.marker, first, 0)
            if ended is not None and not ended.commit:
                self.aborted.append(aborted(ended))
            self.offsets.end(header.producer_id, commit=entry.marker.commit)
            return
        if header.producer_id >= 0:
            self.producers.add(header, first, 0)
        producer = header.producer_id if header.is_transactional else NO_PRODUCER
        for at, record in enumerate(entry.records, first):
            if isinstance(record[0], OffsetKey):
                self.offsets.replay(record[0], record[1], Written(at, producer))

    def of_offsets(self) -> dict[str, tuple[Any, ...]]:
        """What groups have: committed and pending."""
        groups = {*self.offsets.groups(), *self.offsets.pending.groups()}
        return {
            each: (tuple(self.offsets.of_group(each)), self.offsets.pending.of_group(each))
            for each in sorted(groups)
        }

    def of_producers(self) -> dict[int, tuple[Any, ...]]:
        """What is known of producers, apart from times."""
        return {
            each.producer_id: (
                each.epoch,
                tuple(each.batches),
                each.coordinator_epoch,
                each.txn_first_offset,
            )
            for each in self.producers
        }


class Produce(NamedTuple):
    """A batch of a transaction. ``adds``: the protocol of Kafka 4."""

    transaction: InTransaction
    sequence: int
    records: tuple[Any, ...]


class SimulatedPartition:
    """See the module. ``log`` and ``verifications`` are what the broker's check looks at."""

    def __init__(self, world: World, place: TopicPartition) -> None:
        self.place = place
        self.epoch = 0
        self.entries: list[Entry] = []
        self.high_watermark = 0
        self.stalled_until_ms = 0
        self.no_leader_until_ms = 0
        self.memory = Memory()
        self.verifications: Verifications[Callable[[int], None]] | None = Verifications()
        self._world = world
        self._waiting: list[tuple[int, Callable[[int], None]]] = []

    @property
    def log(self) -> Memory:
        """With the producers of the log."""
        return self.memory

    @property
    def end(self) -> int:
        return self.entries[-1].header.next_offset if self.entries else 0

    @property
    def last_stable_offset(self) -> int:
        unstable = self.memory.producers.transactions.first_unstable(self.high_watermark)
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    @property
    def is_led(self) -> bool:
        return self._world.agenda.now_ms >= self.no_leader_until_ms

    # --- requests: the answer is an error code, when what it tells is committed

    def produce(self, asked: Produce, reply: Callable[[int], None]) -> None:
        """A batch of values, or of offsets of groups: then this side numbers it."""
        epoch = self.epoch
        adds = asked.transaction.adds
        code_of = partial(code_for_client, knows_abortable=True, adds=adds)

        def turn(code: int) -> None:
            if self.epoch != epoch:
                reply(NOT_LEADER)
            elif code:
                reply(code_of(code))
            else:
                self._append_checked(asked, code_of, reply)

        if not self.is_led:
            reply(NOT_LEADER)
            return
        self._verify(asked, turn)

    def commit_offset(self, record: OffsetRecord, reply: Callable[[int], None]) -> None:
        """Outside of any transaction."""
        if not self.is_led:
            reply(NOT_LEADER)
            return
        self._write(_header(self.end, self.epoch, -1, -1, -1, 1, 0), (record,))
        self._when_committed(self.end - 1, reply)

    def fetch_offset(self, key: OffsetKey, reply: Callable[[int | None], None]) -> None:
        """The group's position, -1 without one, None where it is not stable."""
        offsets = self.memory.offsets
        found = offsets.get(key.group, key.topic, key.partition)
        pending = offsets.pending.is_pending(key.group, key.topic, key.partition)
        answer = None if pending else -1 if found is None else found.offset
        self._when_committed(self.end - 1, lambda code: reply(None if code else answer))

    def write_marker(
        self, producer_id: int, epoch: int, marker: Marker, version: int
    ) -> tuple[int, int]:
        """(error code, the offset that must be committed before the answer)."""
        if not self.is_led:
            return NOT_LEADER, -1
        data = marker_batch(marker, producer_id, epoch, self._world.agenda.now_ms)
        header = read_header(data)
        try:
            wanted = self.memory.producers.check_marker(header, marker, version)
        except KafkaError as error:
            return error.code, -1
        if self.verifications is not None:
            self.verifications.marker(producer_id)
        if wanted:
            placed = header._replace(base_offset=self.end, partition_leader_epoch=self.epoch)
            self._world.check.marked(self, placed, marker)
            self._add(Entry(Batch(placed, memoryview(data)), (), marker))
            self._world.check.moved(self)
        return 0, self.end - 1

    def when_committed(self, offset: int, reply: Callable[[int], None]) -> None:
        """Answer 0 once the high watermark is behind ``offset``."""
        self._when_committed(offset, reply)

    # --- faults

    def lose_lead(self, for_ms: int) -> None:
        """Another replica leads, which may lack what was not committed."""
        world = self._world
        keep = world.random.randint(self.high_watermark, self.end)
        kept = [each for each in self.entries if each.header.next_offset <= keep]
        world.note("%s-%d has epoch %d, ends at %d", *self.place, self.epoch + 1, keep)
        self.epoch += 1
        self.no_leader_until_ms = world.agenda.now_ms + for_ms
        self.entries = kept
        self.memory = Memory(kept)
        self.verifications = Verifications()
        world.check.moved(self)
        waiting, self._waiting = self._waiting, []
        for _, reply in waiting:
            reply(NOT_LEADER)
        if self.end > self.high_watermark:
            self._commit_later()

    # --- reading

    def read_committed(self, start: int, until: int) -> Iterator[tuple[int, Any]]:
        """Offsets and records as a reader of committed ones sees them."""
        within = [
            each
            for each in self.entries
            if each.header.base_offset < until and each.header.last_offset >= start
        ]
        told = [
            AbortedTransaction(each.producer_id, each.first_offset)
            for each in self.memory.aborted
            if each.last_offset >= start and each.first_offset < until
        ]
        kept = {id(batch) for batch in committed([each.batch for each in within], told)}
        for entry in within:
            if id(entry.batch) in kept:
                for at, record in enumerate(entry.records, entry.header.base_offset):
                    if start <= at < until:
                        yield at, record

    # --- details

    def _verify(self, asked: Produce, turn: Callable[[int], None]) -> None:
        """As the broker's verifier, with the simulation's network."""
        _, producer_id, epoch, _ = asked.transaction
        partition = cast(Any, self)
        if is_open(partition, producer_id, epoch) and not has_waiting(partition, producer_id):
            turn(0)
            return
        verifications = self.verifications
        assert verifications is not None
        now = self._world.agenda.now_ms
        found, guard = verifications.arrives(producer_id, epoch, asked.sequence, turn, now)

        def answered(code: int) -> None:
            told, waited = verifications.answered(guard, code)
            for waiter in waited:
                waiter(told)

        if found is Turn.APPEND:
            turn(0)
        elif found is Turn.REFUSE:
            turn(CODES["INVALID_PRODUCER_EPOCH"])
        elif found is Turn.ASK:
            self._world.brokers.ask(asked.transaction, self.place, answered)

    def _append_checked(
        self, asked: Produce, code_of: Callable[[int], int], reply: Callable[[int], None]
    ) -> None:
        _, producer_id, epoch, _ = asked.transaction
        sequence = asked.sequence
        if isinstance(asked.records[0][0], OffsetKey):
            sequence = self._next_sequence(producer_id, epoch)
        header = _header(
            self.end,
            self.epoch,
            producer_id,
            epoch,
            sequence,
            len(asked.records),
            TRANSACTIONAL,
        )
        try:
            check_of(cast(Any, self), code_of)(header)
            kept = self.memory.producers.check(header)
        except KafkaError as error:
            reply(error.code)
            return
        if kept is None:
            self._world.check.written(self, header, asked.records)
            self._write(header, asked.records)
        self._when_committed(kept.last_offset if kept else self.end - 1, reply)

    def _next_sequence(self, producer_id: int, epoch: int) -> int:
        entry = self.memory.producers.get(producer_id)
        if entry is None or entry.epoch != epoch or not entry.batches:
            return 0
        return next_sequence(entry.batches[-1].last_sequence)

    def _write(self, header: BatchHeader, records: tuple[Any, ...]) -> None:
        self._add(Entry(Batch(header, memoryview(b"")), records))

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.memory.add(entry)
        self._commit_later()

    def _commit_later(self) -> None:
        world, end, epoch = self._world, self.end, self.epoch

        def commit() -> None:
            if self.epoch != epoch:
                return
            if self.stalled_until_ms > world.agenda.now_ms:
                world.agenda.at(self.stalled_until_ms, commit)
                return
            if end > self.high_watermark:
                self.high_watermark = end
                world.check.moved(self)
                due = [each for each in self._waiting if each[0] < end]
                self._waiting = [each for each in self._waiting if each[0] >= end]
                for _, reply in due:
                    reply(0)

        world.agenda.after(world.random.choice((1, 1, 2, 4, 30)), commit)

    def _when_committed(self, offset: int, reply: Callable[[int], None]) -> None:
        if offset < self.high_watermark:
            reply(0)
        else:
            self._waiting.append((offset, reply))


def _header(
    base: int, leader: int, producer: int, epoch: int, sequence: int, count: int, attributes: int
) -> BatchHeader:
    """Of a batch without bytes."""
    return BatchHeader(
        base, 0, leader, 2, 0, attributes, count - 1, 0, 0, producer, epoch, sequence, count
    )
