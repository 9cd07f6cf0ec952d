"""What a consumer does for transactions that store its positions, for coroutines."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tallymark.client.connector.connector import ConsumerConnector
from tallymark.client.core.group_metadata import GroupMetadata
from tallymark.client.reading.message import Message
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
        _waiting: deque[Any]

        def _connector(self) -> ConsumerConnector: ...
        async def _call(self, function: Callable[[], T]) -> T: ...
        def _take(self, columns: bool) -> None: ...
        async def _fill(self) -> None: ...
        def _moved(self, places: Mapping[TopicPartition, int]) -> None: ...

    async def poll(self, timeout: float = 1.0, max_records: int = 500) -> list[Message]:
        """The next messages, ``max_records`` at most; waits while there is none, ``timeout``
        seconds and up to 0.25 more. All were taken at once: :meth:`group_metadata` is now as of
        before them. ClosedError after ``close()``."""
        self._take(columns=False)
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        while not self._waiting:
            await self._fill()
            if clock() >= end:
                break
        found: list[Message] = []
        with contextlib.suppress(IndexError):
            while len(found) < max_records:
                found.append(self._waiting.popleft())
        return found

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

    async def processed(self, positions: Mapping[TopicPartition, int]) -> None:
        """All messages before these offsets are processed, and a transaction is about to store
        that."""
        connector = self._connector()
        await self._call(lambda: connector.processed(positions))

    async def check_transactional(self) -> None:
        """UserError unless transactions alone store its offsets, and it reads what is committed."""
        await self._call(self._connector().check_transactional)

    def _note_group(self, connector: ConsumerConnector) -> None:
        """Messages are about to be taken."""
        try:
            self._group = connector.group_metadata()
        except CommitFailedError as error:
            self._group = error
        except UserError:
            self._group = None  # a group in ZooKeeper
