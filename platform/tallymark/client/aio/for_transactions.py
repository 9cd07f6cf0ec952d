"""What a consumer does for transactions that store its positions, for coroutines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.core.group_metadata import GroupMetadata
from tallymark.errors import CommitFailedError, UserError
from tallymark.protocol.topic_partition import TopicPartition

T = TypeVar("T")


class AsyncForTransactions:
    """See :class:`~tallymark.client.connector.for_transactions.ForTransactions`, whose calls and
    errors these are. Messages are taken some time before they are handed out: the group's metadata
    are those of the moment before that."""

    _group: GroupMetadata | CommitFailedError | None = None
    """As of before what waits was taken; None: nothing was."""

    if TYPE_CHECKING:

        def _connector(self) -> ConsumerConnector: ...
        async def _call(self, function: Callable[[], T]) -> T: ...
        def _moved(self, places: Mapping[TopicPartition, int]) -> None: ...

    def group_metadata(self) -> GroupMetadata:
        """As which member the next messages were read. Ask for it before taking messages, and give
        it with their positions to ``send_offsets_to_transaction``."""
        connector = self._connector()
        if isinstance(self._group, CommitFailedError):
            raise self._group
        return self._group or connector.group_metadata()

    async def rewind_to_committed(
        self, first: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """After an aborted transaction: go back to the committed offsets."""
        connector = self._connector()

        def move() -> dict[TopicPartition, int]:
            moved = connector.rewind_to_committed(first)
            self._moved(moved)
            return moved

        return await self._call(move)

    def _note_group(self, connector: ConsumerConnector) -> None:
        """Messages are about to be taken."""
        try:
            self._group = connector.group_metadata()
        except CommitFailedError as error:
            self._group = error
        except UserError:
            self._group = None  # a group in ZooKeeper
