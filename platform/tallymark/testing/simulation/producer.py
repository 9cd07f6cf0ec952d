"""A simulated producer: unique values, idempotence, acks=all, one batch at a time, sent again until
its outcome is known."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from random import Random
from typing import Final

from tallymark.errors import CODES, KafkaError, TallymarkError
from tallymark.protocol.messages import InitProducerIdRequest, ProduceRequest
from tallymark.protocol.messages.k00_produce import ProduceRequestPartition, ProduceRequestTopic
from tallymark.protocol.records.writer import encode_batch
from tallymark.testing.simulation.caller import Caller, may_have_happened
from tallymark.testing.simulation.history import History
from tallymark.testing.simulation.zookeeper import EPOCH_MS

_NEW_IDENTITY: Final = {
    CODES[name]
    for name in (
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "UNKNOWN_PRODUCER_ID",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_PRODUCER_ID_MAPPING",
    )
}
_DUPLICATE: Final = CODES["DUPLICATE_SEQUENCE_NUMBER"]
_NOTHING_APPENDED: Final = {
    CODES[name]
    for name in ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")
}
"""Of a broker that keeps one replica: it looks before it appends, not after."""


class SimulatedProducer:
    """Writes to all partitions until :attr:`ending` is set, and ends when every outcome is known.

    Its history: ``sent`` (number, partition, values), then ``acknowledged`` (number, partition,
    offset), ``refused`` (certainly not appended) or ``in doubt``.
    """

    def __init__(
        self, name: str, caller: Caller, partitions: int, chance: Random, history: History
    ) -> None:
        self.name = name
        self.ending = False
        self.given_up = False
        self.caller = caller
        self._partitions = partitions
        self._chance = chance
        self._history = history
        self._identity: tuple[int, int] | None = None
        self._sequences: defaultdict[int, int] = defaultdict(int)
        self._made = 0

    async def run(self) -> None:
        """To the end."""
        while not self.ending:
            await asyncio.sleep(self._chance.expovariate(20))
            await self._send(self._chance.randrange(self._partitions))
        self.caller.close()

    async def _send(self, partition: int) -> None:
        count = self._chance.randint(1, 3)
        first, self._made = self._made, self._made + count
        values = [f"<{self.name}:{number}>" for number in range(first, first + count)]
        self._history.add(self.name, "sent", first, partition, *values)
        padding = "." * self._chance.choice([0, 50, 700])
        now_ms = EPOCH_MS + int(asyncio.get_running_loop().time() * 1000)
        maybe = False
        while True:
            identity = await self._identify()
            batch = encode_batch(
                [(None, (value + padding).encode(), (), now_ms) for value in values],
                producer_id=identity[0],
                producer_epoch=identity[1],
                base_sequence=self._sequences[partition],
            )
            code, offset, uncertain = await self._try(partition, batch)
            if code in (0, _DUPLICATE):
                self._sequences[partition] += count
                self._history.add(self.name, "acknowledged", first, partition, offset)
                return
            maybe = maybe or uncertain
            if code in _NEW_IDENTITY:
                self._identity = None
                self._sequences.clear()
                what = "in doubt" if maybe else "refused"
                self._history.add(self.name, what, first, partition, code)
                return
            if self.given_up:
                self._history.add(self.name, "in doubt", first, partition, code)
                return
            self.caller.forget(partition)
            await asyncio.sleep(self._chance.uniform(0.02, 0.3))

    async def _try(self, partition: int, batch: bytes) -> tuple[int, int, bool]:
        """(error code, offset, whether it may have been appended although it is an error)."""
        led = await self.caller.leader(partition)
        if led is None:
            return CODES["LEADER_NOT_AVAILABLE"], -1, False
        topic = ProduceRequestTopic(
            name=self.caller.topic,
            topic_id=self.caller.topic_id,
            partition_data=(ProduceRequestPartition(index=partition, records=batch),),
        )
        request = ProduceRequest(acks=-1, timeout_ms=3000, topic_data=(topic,))
        try:
            answer = await self.caller.ask(led.broker, request)
        except TallymarkError as error:
            code = error.code if isinstance(error, KafkaError) else CODES["NETWORK_EXCEPTION"]
            return code, -1, may_have_happened(error)
        (part,) = answer.responses[0].partition_responses
        return part.error_code, part.base_offset, part.error_code not in _NOTHING_APPENDED

    async def _identify(self) -> tuple[int, int]:
        while self._identity is None:
            answer = await self.caller.ask_any(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            )
            if answer.error_code == 0:
                self._identity = answer.producer_id, answer.producer_epoch
                self._history.add(self.name, "identity", *self._identity)
            else:
                await asyncio.sleep(0.2)
        return self._identity
