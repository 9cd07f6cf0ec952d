"""Transactional ids on a partition of ``__transaction_state`` with several replicas, without
followers: the test moves the high watermark, takes and gives the lead, and says when markers are
written. Requests go through the broker's handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Final, cast

from replicated_shard import WALL, ReplicatedShard, partitions_of

from tallymark.broker.groups.shards import GroupShards
from tallymark.broker.settings.broker import BrokerSettings
from tallymark.broker.state import BrokerState
from tallymark.broker.transactions.shard import TransactionShard
from tallymark.broker.transactions.shards import TransactionShards
from tallymark.errors import CODES
from tallymark.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    EndTxnRequest,
    InitProducerIdRequest,
)
from tallymark.protocol.schema import Message
from tallymark.protocol.topic_partition import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tallymark.transactions.markers import Outcome

SETTINGS: Final = BrokerSettings()
_CONNECTION: Final = cast(Any, SimpleNamespace(host="h", listener="", principal="User:p"))
NAMES: Final = {code: name for name, code in CODES.items()}

_LONGEST_S: Final = 60.0


class HeldMarkers:
    """Writes no markers: the test says when all partitions have one."""

    def __init__(self) -> None:
        self.begun: list[Outcome] = []
        self._completed: dict[str, Callable[[Outcome], None]] = {}

    def begin(self, outcome: Outcome, completed: Callable[[Outcome], None]) -> None:
        self.begun.append(outcome)
        self._completed[outcome.transactional_id] = completed

    def drop(self, outcomes: Iterable[Outcome]) -> None:
        for each in outcomes:
            self._completed.pop(each.transactional_id)

    def write(self) -> None:
        """All partitions of the newest outcome have the marker."""
        outcome = self.begun[-1]
        self._completed.pop(outcome.transactional_id)(outcome)


class _Ids:
    """The part of a cluster that gives producer ids."""

    def __init__(self) -> None:
        self.last = 6

    async def next_producer_id(self) -> int:
        self.last += 1
        return self.last


class ReplicatedTransactions(ReplicatedShard[TransactionShards]):
    """A broker's transactional ids; :meth:`lead` first."""

    TURNS = 20

    def __init__(self) -> None:
        super().__init__(TRANSACTIONS_TOPIC, _CONNECTION)
        self.now_ms = WALL
        self.markers = HeldMarkers()
        nothing = cast(Any, None)
        self.state = BrokerState(
            SETTINGS,
            partitions_of((TRANSACTIONS_TOPIC, OFFSETS_TOPIC, "t")),
            cast(Any, _Ids()),
            GroupShards(SETTINGS, lambda: WALL),
            lambda: self.now_ms,
            nothing,
            nothing,
        )
        self.shards = self.state.transaction_shards
        self.shards.sender = self.markers

    async def lead(self, epoch: int = 0, known: int = 0) -> TransactionShard:
        """:meth:`lead_of`, and the ids are loaded."""
        await self.shards.take(self.lead_of(epoch, known))
        return self.shard

    @property
    def shard(self) -> TransactionShard:
        """The shard of all ids."""
        return self.shards.of("id", 1)

    async def ask(self, request: Message, version: int) -> Any:
        """A request whose answer leaves once the followers have all records, and, where the
        transaction before is still ending, when it was waited for that."""
        task = await self.start(request, version)
        self.commit_all()
        return await asyncio.wait_for(task, _LONGEST_S)

    async def bring(self, state: str) -> tuple[int, int]:
        """The id into that state ("Ongoing", "PrepareCommit"); its producer id and epoch."""
        if state == "Empty":
            return await self.begun()
        producer = await self.opened()
        if state != "Ongoing":
            commit = state.endswith("Commit")
            assert (await self.ask(end(producer, commit=commit), 3)).error_code == 0
        if state.startswith("Complete"):
            self.complete()
        return producer

    async def ask_without_lead(self, request: Message) -> Any:
        """A request to a broker that leads nothing."""
        return await (await self.start(request, 4))

    def complete(self) -> None:
        """All partitions have the marker of the newest outcome, and that is committed."""
        self.markers.write()
        self.commit_all()

    async def begun(self, version: int = 4) -> tuple[int, int]:
        """InitProducerId: producer id and epoch."""
        answer = await self.ask(init(), version)
        assert answer.error_code == 0, NAMES[answer.error_code]
        return answer.producer_id, answer.producer_epoch

    async def opened(self) -> tuple[int, int]:
        """An open transaction."""
        producer = await self.begun()
        assert added(await self.ask(add(producer), 3)) == ["NONE"]
        return producer


def init(producer: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000) -> InitProducerIdRequest:
    """A producer begins."""
    return InitProducerIdRequest("id", timeout_ms, *producer)


def add(producer: tuple[int, int], topic: str = "t") -> AddPartitionsToTxnRequest:
    """Its transaction gets a partition; v3."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnRequestTopic(topic, [0])],
    )


def added(answer: Any) -> list[str]:
    """The errors in the answer to :func:`add`, in order."""
    return [
        NAMES[part.partition_error_code]
        for topic in answer.results_by_topic_v3_and_below
        for part in topic.results_by_partition
    ]


def by_broker(
    producer: tuple[int, int], *, verify_only: bool, topic: str = "t"
) -> AddPartitionsToTxnRequest:
    """A partition's leader asks, or adds; v4 and later."""
    topics = [AddPartitionsToTxnRequestTopic(topic, [0])]
    one = AddPartitionsToTxnRequestTransaction("id", *producer, verify_only, topics)
    return AddPartitionsToTxnRequest(transactions=[one])


def verified(answer: Any) -> str:
    """The error in the answer to :func:`by_broker`."""
    (one,) = answer.results_by_transaction
    return NAMES[one.topic_results[0].results_by_partition[0].partition_error_code]


def add_offsets(producer: tuple[int, int], group: str = "g") -> AddOffsetsToTxnRequest:
    """Its transaction gets the offsets of a group."""
    return AddOffsetsToTxnRequest("id", *producer, group)


def end(producer: tuple[int, int], *, commit: bool) -> EndTxnRequest:
    """Its transaction ends."""
    return EndTxnRequest("id", *producer, commit)
