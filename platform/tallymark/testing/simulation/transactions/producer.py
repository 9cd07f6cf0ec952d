"""A transactional producer of a simulation: the client's own manager of transactions, with a sender
that has one batch under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast

from tallymark.client.core.group_metadata import GroupMetadata
from tallymark.client.producing.batches.batch import NO_IDENTITY, Identity
from tallymark.client.producing.settings import ProducerSettings
from tallymark.client.producing.transactions.machine import Phase, Place
from tallymark.client.producing.transactions.manager import TransactionManager
from tallymark.errors import (
    CODES,
    CommitInDoubt,
    KafkaError,
    TallymarkError,
    TimedOutError,
    TransactionAbortableError,
    TransactionFatalError,
)
from tallymark.protocol.messages import ProduceRequest
from tallymark.protocol.messages.k00_produce import ProduceRequestPartition, ProduceRequestTopic
from tallymark.protocol.records.writer import encode_batch
from tallymark.testing.simulation.history import History
from tallymark.testing.simulation.transactions.cluster import SimulatedCluster
from tallymark.testing.simulation.zookeeper import EPOCH_MS

CALL_SECONDS: Final = 6.0
DELIVERY_SECONDS: Final = 12.0
_IN_LOG: Final = (0, CODES["DUPLICATE_SEQUENCE_NUMBER"])


class SimulatedSender:
    """In place of the client's Sender: batches go one by one, each until its outcome is known."""

    def __init__(self, cluster: SimulatedCluster, name: str, chance: Random) -> None:
        self._cluster = cluster
        self._name = name
        self._chance = chance
        self._highest: int | None = None
        self._ids: Any = None
        self._lost: Any = None
        self._identity: Identity = NO_IDENTITY
        self._sequences: dict[Place, int] = {}

    # --- for the manager

    def take_ids(self, ids: Any, on_lost: Any) -> None:
        """Where identities come from, and whom to tell of a lost batch."""
        self._ids, self._lost = ids, on_lost

    def bound_version(self, highest: int | None) -> None:
        """Of Produce."""
        self._highest = highest

    def pump(self) -> None:
        """Who waits looks again by himself."""

    async def flush(self) -> None:
        """Nothing lingers."""

    def give_up(self, error: TallymarkError, only_transactional: bool = False) -> None:
        """Nothing lingers."""

    def transaction_is(self, stage: object) -> None:
        """For interceptors, of which there are none."""

    # --- for the producer

    async def send(self, manager: TransactionManager, place: Place, values: Sequence[str]) -> None:
        """Until the values are in the log. Raises TransactionAbortableError,
        TransactionFatalError."""
        while not manager.may_send(place):
            manager.machine.check_send()
            await asyncio.sleep(0.02)
        if self._identity != self._ids.newest:
            self._identity, self._sequences = self._ids.newest, {}
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(values)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DELIVERY_SECONDS
        now_ms = EPOCH_MS + int(loop.time() * 1000)
        batch = encode_batch(
            [(None, value.encode(), (), now_ms) for value in values],
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=sequence,
            transactional=True,
        )
        while True:
            error = await self._try(place, batch)
            if error is None:
                return
            if not error.retriable:
                self._lost(error)
            elif loop.time() > deadline:
                self._lost(TimedOutError(f"{place}: not delivered in time: {error}"))
            manager.machine.check_send()
            await asyncio.sleep(self._chance.uniform(0.02, 0.3))

    async def _try(self, place: Place, batch: bytes) -> KafkaError | None:
        caller = self._cluster.of(place[0])
        led = await caller.leader(place[1])
        if led is None:
            return KafkaError(CODES["LEADER_NOT_AVAILABLE"], str(place))
        topic = ProduceRequestTopic(
            name=place[0],
            topic_id=caller.topic_id,
            partition_data=(ProduceRequestPartition(index=place[1], records=batch),),
        )
        request = ProduceRequest(
            transactional_id=self._name, acks=-1, timeout_ms=3000, topic_data=(topic,)
        )
        try:
            link = await self._cluster.link(led.broker)
            version = link.version_of(ProduceRequest, self._highest)
            answer = await link.request(request, version, timeout=self._cluster.request_timeout)
        except TallymarkError as error:
            caller.forget(place[1])
            return error if isinstance(error, KafkaError) else _NO_ANSWER
        code = answer.responses[0].partition_responses[0].error_code
        if code in _IN_LOG:
            return None
        caller.forget(place[1])
        return KafkaError(code, str(place))


_NO_ANSWER: Final = KafkaError(CODES["NETWORK_EXCEPTION"], "not connected")


@dataclass(slots=True)
class Numbers:
    """Of transactions in a run; values name theirs: ``<number:how many-th>``."""

    last: int = 0

    def next(self) -> int:
        """A new one."""
        self.last += 1
        return self.last


class TransactionalProducer:
    """Writes, commits and aborts until :attr:`ending` is set; begins anew where nothing else is
    left, unless another one has its id.

    Its history: ``begins`` (transaction), ``writes`` (transaction, topic, partition, values),
    ``in log`` (transaction, values), ``asks to commit`` or ``asks to abort`` (transaction), then
    ``committed``, ``aborted`` or ``in doubt``.
    """

    def __init__(
        self,
        name: str,
        cluster: SimulatedCluster,
        partitions: Sequence[Place],
        chance: Random,
        history: History,
        numbers: Numbers,
    ) -> None:
        self.name = name
        self.ending = False
        self.cluster = cluster
        self.chance = chance
        self.history = history
        self.manager: TransactionManager
        self.sender: SimulatedSender
        self._partitions = partitions
        self._numbers = numbers
        self._lives = 0

    @property
    def who(self) -> str:
        """In the history."""
        return f"{self.name}/{self._lives}"

    async def run(self) -> None:
        """To the end."""
        while not self.ending:
            self._lives += 1
            try:
                await self._live()
            except (TransactionFatalError, CommitInDoubt) as error:
                self.history.add(self.who, "ends", str(error))
                await asyncio.sleep(self.chance.uniform(0.5, 4))
        self.cluster.close()

    async def work(self, number: int) -> None:
        """What one transaction has in it."""
        for _ in range(self.chance.randint(1, 3)):
            count = self.chance.randint(1, 3)
            values = [f"<{number}:{self._numbers.next()}>" for _ in range(count)]
            await self.write(number, self.chance.choice(self._partitions), values)
        if self.chance.random() < 0.05:
            await asyncio.sleep(self.chance.uniform(0, 6))

    def over(self, *, committed: bool) -> None:
        """The end of a transaction is known."""

    async def write(self, number: int, place: Place, values: Sequence[str]) -> None:
        """Values in the transaction."""
        self.history.add(self.who, "writes", number, *place, *values)
        await self.sender.send(self.manager, place, values)
        self.history.add(self.who, "in log", number, *values)

    async def send_offset(self, place: Place, offset: int, group: str) -> None:
        """A position in the transaction."""
        await self.manager.send_offsets({place: offset}, GroupMetadata(group), CALL_SECONDS * 2)

    async def _live(self) -> None:
        self.sender = SimulatedSender(self.cluster, self.name, self.chance)
        timeout_ms = self.chance.choice([3_000, 10_000])
        settings = ProducerSettings(
            bootstrap_servers="simulated:1",
            transactional_id=self.name,
            transaction_timeout_ms=timeout_ms,
        )
        self.manager = TransactionManager(
            cast(Any, self.cluster), cast(Any, self.sender), self.name, settings
        )
        await self._until_done(self.manager.initialise)
        while not self.ending:
            await asyncio.sleep(self.chance.expovariate(4))
            await self._until_done(self.manager.begin)
            await self._transaction(self._numbers.next())

    async def _transaction(self, number: int) -> None:
        add = self.history.add
        add(self.who, "begins", number)
        try:
            await self.work(number)
            if self.chance.random() < 0.75:
                add(self.who, "asks to commit", number)
                await self._commit(number)
                add(self.who, "committed", number)
                self.over(committed=True)
                return
        except (TransactionAbortableError, TimedOutError) as error:
            add(self.who, "cannot commit", number, str(error))
        add(self.who, "asks to abort", number)
        await self._until_done(self.manager.abort)
        add(self.who, "aborted", number)
        self.over(committed=False)

    async def _commit(self, number: int) -> None:
        while True:
            try:
                return await self.manager.commit(CALL_SECONDS)
            except CommitInDoubt:
                if self.manager.machine.phase is Phase.FATAL:
                    self.history.add(self.who, "in doubt", number)
                    raise
            except TimedOutError:
                continue

    async def _until_done(self, call: Any) -> None:
        while True:
            try:
                await call(CALL_SECONDS)
                return
            except TimedOutError:
                await asyncio.sleep(0.1)
