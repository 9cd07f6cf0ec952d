"""A transactional producer of a simulated cluster: our client's machine, with an application that
writes, commits and aborts. What it asks is a generator's ``yield``: an :class:`Ask`, several at
once, or a pause in ms."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from txn_network import Act
from txn_partition import Produce

from tallymark.broker.partitions.verifier import InTransaction
from tallymark.client.producing.batches.batch import NO_IDENTITY, Identity
from tallymark.client.producing.transactions.machine import TransactionMachine
from tallymark.errors import (
    CODES,
    CommitInDoubt,
    KafkaError,
    TallymarkError,
    TimedOutError,
    TransactionAbortableError,
    TransactionFatalError,
)
from tallymark.groups.records import CommittedOffset, OffsetKey
from tallymark.protocol.topic_partition import OFFSETS_TOPIC, TopicPartition
from tallymark.transactions.inputs import Add, Decision, End, Initialise
from tallymark.transactions.transaction import TV2

if TYPE_CHECKING:
    from txn_world import World

TIMEOUT_MS: Final = 1_000
GROUPS: Final[TopicPartition] = (OFFSETS_TOPIC, 0)
_IN_LOG: Final = (0, CODES["DUPLICATE_SEQUENCE_NUMBER"])
_OUT_OF_ORDER: Final = CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"]
_BUSY: Final = CODES["CONCURRENT_TRANSACTIONS"]


class Ask(NamedTuple):
    """A request; the answer is None where there was none in time."""

    act: Act


Work = Generator["Ask | list[Ask] | int", Any, Any]


class Mine(NamedTuple):
    """A batch that was sent, with its numbers."""

    identity: Identity
    place: TopicPartition
    sequence: int
    records: tuple[Any, ...]


class TransactionalClient:
    """One life of a producer. ``transaction`` is the number of its present one."""

    def __init__(self, world: World, name: str, implicit: bool) -> None:
        self.world = world
        self.name = name
        self.life = world.next_life()
        self.machine = TransactionMachine(name)
        self.implicit = implicit
        self.alive = True
        self.paused_until_ms = 0
        self.transaction = -1
        self.fatal: TallymarkError | None = None
        self.self_fenced = False
        """An InitProducerId of its own was not answered: when it arrives late, it fences this."""
        self._timeout_ms = world.random.choice((1_500, 4_000, 8_000))
        self._identity: Identity = NO_IDENTITY
        self._sequences: dict[TopicPartition, int] = {}
        self._work = self.run()
        self._step(None)

    def __repr__(self) -> str:
        return f"{self.name}/{self.life}"

    # --- what it does

    def run(self) -> Work:
        """To the end of its life."""
        try:
            yield from self._initialise()
            while not self.world.ending:
                yield self.world.random.choice((1, 10, 50, 300))
                yield from self._one_transaction()
        except (TransactionFatalError, CommitInDoubt) as error:
            self.fatal = error
            self.world.note("%r ends: %s", self, error)
            self.world.check.fatal(self)
        self.alive = False
        self.world.ended(self)

    def work(self) -> Work:
        """The records and offsets of one transaction."""
        chance, world = self.world.random, self.world
        for _ in range(chance.randint(0, 3)):
            place = chance.choice(world.outputs)
            batches = [
                world.values_of(self.transaction, chance.randint(1, 2))
                for _ in range(chance.choice((1, 1, 2)))
            ]
            yield from self.send(place, batches)
        if chance.random() < 0.3:
            position = world.next_position()
            yield from self.send_offset(OffsetKey("plain", "t", chance.randrange(2)), position)
        if chance.random() < 0.2:
            yield chance.choice((100, 2_000, 6_000))

    def over(self, *, committed: bool) -> None:
        """The application has heard of the end."""

    def _one_transaction(self) -> Work:
        machine, world = self.machine, self.world
        machine.check_begin()
        if machine.must_renew:
            machine.renewed((yield from self._new_identity(machine.identity)))
        machine.begin()
        self.transaction = world.begun(self)
        told = world.transactions[self.transaction]
        commit = world.random.random() < 0.7
        try:
            yield from self.work()
            if commit:
                told.phase, told.asked_at = "commit asked", world.agenda.now_ms
                machine.commit()
                yield from self._end()
                told.phase, told.at = "committed", world.agenda.now_ms
                world.check.told(self.transaction)
                self.over(committed=True)
                return
        except TransactionAbortableError as error:
            world.note("%r: transaction %d: %s", self, self.transaction, error)
        told.phase = "abort asked"
        machine.abort()
        yield from self._end()
        told.phase, told.at = "aborted", world.agenda.now_ms
        world.check.told(self.transaction)
        self.over(committed=False)

    # --- as the client's manager does it

    def _initialise(self) -> Work:
        self.machine.initialise()
        identity = yield from self._new_identity(NO_IDENTITY)
        self.machine.initialised(identity, self.implicit)

    def _new_identity(self, held: Identity) -> Work:
        self.world.check.asks_for_an_id(self)
        request = Initialise(self.name, self._timeout_ms, *held)
        decision = yield from self._until(
            lambda reply: self.world.coordinator.initialise(repr(self), request, reply),
            self.machine.id_failed_again,
            doubtful=True,
        )
        identity = (decision.producer_id, decision.producer_epoch)
        self.world.check.given(self, identity)
        return identity

    def _end(self) -> Work:
        machine = self.machine
        if not machine.end_wanted():
            return
        version = TV2 if self.implicit else 0
        end = End(*machine.identity, machine.commits, version)
        decision = yield from self._until(
            lambda reply: self.world.coordinator.end(repr(self), self.name, end, reply),
            machine.end_failed,
        )
        if decision is not None:
            identity = (decision.producer_id, decision.producer_epoch)
            machine.ended(identity if self.implicit else NO_IDENTITY)
            self.world.check.identity(machine.identity)

    def _until(
        self, act: Act, again: Callable[[TallymarkError], bool], *, doubtful: bool = False
    ) -> Work:
        while True:
            found: Decision | None = yield Ask(act)
            if found is not None and not found.error:
                return found
            code = CODES["NETWORK_EXCEPTION"] if found is None else found.error
            self.self_fenced = self.self_fenced or (doubtful and found is None)
            if not again(KafkaError(code, "simulated")):
                return None
            yield 20 if code == _BUSY else 100

    def _add(self, place: TopicPartition) -> Work:
        """Wait until the partition is in the transaction. Raises TransactionAbortableError."""
        machine = self.machine
        while not machine.may_send(place):
            machine.check_send()
            add = Add(*machine.identity, frozenset(machine.wanted))
            found = yield from self._until(partial(self._ask_to_add, add), machine.add_failed)
            if found is None:
                machine.check_send()
            else:
                machine.partitions_added(set(add.partitions))

    def send(self, place: TopicPartition, batches: list[tuple[Any, ...]]) -> Work:
        """Several batches at once, each again until it is in the log."""
        yield from self._add(place)
        machine = self.machine
        if self._identity != machine.identity:
            self._identity, self._sequences = machine.identity, {}
        left: list[Mine] = []
        told = self.world.transactions[self.transaction]
        for records in batches:
            told.sent.extend((place, value) for value in records)
            left.append(Mine(self._identity, place, self._sequences.get(place, 0), records))
            self._sequences[place] = left[-1].sequence + len(records)
        for _ in range(8):
            codes = yield [Ask(partial(self._produce, batch)) for batch in left]
            first = left[0]
            for batch, code in zip(tuple(left), codes, strict=True):
                if code in _IN_LOG:
                    left.remove(batch)
                    self.world.check.acknowledged(self, batch.records)
                elif code is not None and not self._may_retry(code, batch is first):
                    machine.batch_lost(KafkaError(code, f"{place}"))
                    machine.check_send()
            if not left:
                return
            yield 30
        machine.batch_lost(TimedOutError(f"{place}: not delivered in time"))
        machine.check_send()

    def _may_retry(self, code: int, is_first: bool) -> bool:
        return KafkaError(code).retriable or (code == _OUT_OF_ORDER and not is_first)

    def send_offset(self, key: OffsetKey, position: int) -> Work:
        """A position of a group in the transaction."""
        machine = self.machine
        machine.check_send()
        if not self.implicit:
            add = Add(*machine.identity, frozenset((GROUPS,)))
            yield from self._until(partial(self._ask_to_add, add), machine.add_failed)
            machine.check_send()
            machine.offsets_added()
        machine.offsets_asked()
        self.world.check.offset_sent(self.transaction, key, position)
        record = (key, CommittedOffset(position, -1, "", 0, -1))
        while True:
            code = yield Ask(partial(self._produce, Mine(machine.identity, GROUPS, 0, (record,))))
            if code == 0:
                return
            error: TallymarkError = TimedOutError("no answer")
            if code is not None:
                error = KafkaError(code, "offsets")
            if not machine.offsets_failed(error):
                machine.check_send()
            yield 30

    def _ask_to_add(self, add: Add, reply: Callable[[Decision], None]) -> None:
        self.world.coordinator.add(repr(self), self.name, add, reply)

    def _produce(self, batch: Mine, reply: Callable[[int], None]) -> None:
        transaction = InTransaction(self.name, *batch.identity, self.implicit)
        asked = Produce(transaction, batch.sequence, batch.records)
        self.world.partitions[batch.place].produce(asked, reply)

    # --- steps

    def kill(self) -> None:
        """Without a word."""
        self.alive = False
        self._work.close()

    def _step(self, value: Any) -> None:
        if not self.alive:
            return
        now = self.world.agenda.now_ms
        if self.paused_until_ms > now:
            self.world.agenda.at(self.paused_until_ms, self._step, value)
            return
        try:
            wanted = self._work.send(value)
        except StopIteration:
            return
        if isinstance(wanted, int):
            self.world.agenda.after(wanted, self._step, None)
        elif isinstance(wanted, Ask):
            self._ask(wanted.act, self._step)
        else:
            self._ask_all(wanted)

    def _ask(self, act: Act, answered: Callable[[Any], None]) -> None:
        self.world.network.ask(lambda: self.alive, act, answered, TIMEOUT_MS)

    def _ask_all(self, wanted: list[Ask]) -> None:
        answers: list[Any] = [None] * len(wanted)
        left = [len(wanted)]

        def heard(at: int, answer: Any) -> None:
            answers[at] = answer
            left[0] -= 1
            if not left[0]:
                self._step(answers)

        for at, one in enumerate(wanted):
            self._ask(one.act, partial(heard, at))
