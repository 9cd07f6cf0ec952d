"""The questions of a transactional producer to its coordinator and to those of groups: each is
asked once, and an error in the answer is raised. Lives in the I/O thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from tallymark.client.core.cluster import Cluster
from tallymark.client.core.group_metadata import GroupMetadata
from tallymark.client.producing.batches.batch import Identity
from tallymark.client.producing.transactions.coordinator import (
    GROUP,
    TRANSACTION,
    CoordinatorFinder,
)
from tallymark.client.producing.transactions.requests import (
    Place,
    add_partitions,
    offset_commit,
    raise_code,
    read_added,
    read_committed_offsets,
)
from tallymark.errors import TallymarkError
from tallymark.net.client.versions import question
from tallymark.protocol.messages import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)
EXPLICIT: Final = {"produce": 11, "end": 4, "offsets": 4}
IMPLICIT: Final = {"produce": 13, "end": 5, "offsets": 5}
"""Highest versions without and with ``transaction.version`` 2."""


class TransactionQuestions:
    """See the module. ``deadline`` is a time of the loop. All raise ConnectError, KafkaError."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self.highest = EXPLICIT
        self._cluster = cluster
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._coordinators = CoordinatorFinder(cluster)

    def failed(self, error: TallymarkError) -> None:
        """The transaction coordinator answered with this, or not at all."""
        self._coordinators.failed(TRANSACTION, self._id, error)

    async def level(self) -> int:
        """Of ``transaction.version``; 0 where brokers know none."""
        answer = await self._cluster.ask_any(question())
        raise_code(answer.error_code, "ApiVersions")
        levels = {one.name: one.max_version_level for one in answer.finalized_features}
        return levels.get("transaction.version", 0)

    async def identity(self, held: Identity, deadline: float) -> Identity:
        """An id, or the next epoch of the one that is held."""
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=held[0],
            producer_epoch=held[1],
        )
        answer = await self._ask(request, 5, deadline)
        raise_code(answer.error_code, "InitProducerId")
        return answer.producer_id, answer.producer_epoch

    async def end(self, identity: Identity, commits: bool, deadline: float) -> Identity:
        """Commit or abort; the identity of the next transaction, NO_IDENTITY where it stays."""
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=commits,
        )
        answer = await self._ask(request, self.highest["end"], deadline)
        raise_code(answer.error_code, "EndTxn")
        return answer.producer_id, answer.producer_epoch

    async def add_partitions(
        self, identity: Identity, places: Iterable[Place], deadline: float
    ) -> bool:
        """True when these partitions are in the transaction."""
        request = add_partitions(self._id, identity, places)
        read_added(await self._ask(request, 3, deadline))
        return True

    async def add_offsets(self, identity: Identity, group: str, deadline: float) -> None:
        """The offsets of the group are in the transaction."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=identity[0],
            producer_epoch=identity[1],
            group_id=group,
        )
        answer = await self._ask(request, 4, deadline)
        raise_code(answer.error_code, f"group {group}")

    async def commit_offsets(
        self,
        identity: Identity,
        positions: Mapping[Place, int],
        group: GroupMetadata,
        deadline: float,
    ) -> None:
        """The group's coordinator keeps the offsets for the transaction."""
        request = offset_commit(self._id, identity, group, positions)
        key, highest = group.group_id, self.highest["offsets"]
        try:
            answer = await self._coordinators.ask(GROUP, key, request, highest, deadline)
            read_committed_offsets(answer)
        except TallymarkError as error:
            self._coordinators.failed(GROUP, key, error)
            raise

    async def _ask(self, request: Request[R], highest: int, deadline: float) -> R:
        return await self._coordinators.ask(TRANSACTION, self._id, request, highest, deadline)
