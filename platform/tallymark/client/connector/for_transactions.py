"""What a consumer does for transactions that store its positions: a mixin of the connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tallymark.client.connector.engine import Engine
from tallymark.client.connector.group_protocols import GroupProtocol
from tallymark.client.consuming.hooks import Hooks
from tallymark.client.consuming.settings import ConsumerSettings
from tallymark.client.core.group_metadata import GroupMetadata
from tallymark.errors import UserError
from tallymark.protocol.topic_partition import TopicPartition


class ForTransactions:
    """The part of a :class:`~tallymark.client.connector.connector.ConsumerConnector` for positions
    that ``Producer.send_offsets_to_transaction`` stores. :mod:`tallymark.copying` is the whole
    loop."""

    if TYPE_CHECKING:
        _settings: ConsumerSettings
        _protocol: GroupProtocol
        _hooks: Hooks

        def _check(self) -> None: ...
        def _running(self) -> Engine: ...

    def group_metadata(self) -> GroupMetadata:
        """As which member, in which generation, it reads at this moment (KIP-447). Ask for it
        *before* taking messages, and give it with their positions: partitions may move at any time
        after that, and the coordinator of the group then refuses the positions.

        Raises CommitFailedError while it is in no generation (it joins, or was put out: take
        messages, which makes it join again, and do not commit them); UserError for a group in
        ZooKeeper.
        """
        self._check()
        self._running()
        return self._protocol.membership()

    def rewind_to_committed(self, first: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """After an aborted transaction: go back to the committed offsets in the partitions of
        ``first``, which names the first offset that was taken of each; that is where it goes where
        none is committed. Partitions that were given up meanwhile are left alone, also those that
        have come back: these began at the committed offset. Waits for open transactions that store
        offsets of them, up to ``request_timeout_ms``. Returns where it went.

        Raises KafkaError (UNSTABLE_OFFSET_COMMIT: such a transaction is still open) or
        ConnectError when the offsets cannot be read: nothing has moved, call it again.
        """
        self._check()
        store = self._protocol.store
        return self._running().rewinder.to_stored(first, lambda places: store.read(places, 0))

    def processed(self, positions: Mapping[TopicPartition, int]) -> None:
        """All messages before these offsets are processed, and a transaction is about to store
        that: for the hooks (audit), which otherwise hear of it from ``commit_offsets()``."""
        self._hooks.done_before(positions)

    def check_transactional(self) -> None:
        """UserError unless transactions alone store its offsets, and it reads no records that were
        aborted, or may yet be."""
        settings = self._settings
        if settings.where != "brokers":
            self._protocol.membership()
        if settings.enable_auto_commit:
            raise UserError(
                f"group {settings.group} stores offsets by itself, also of what was aborted",
                "give the consumer enable_auto_commit=False",
            )
        if settings.isolation != "read_committed":
            raise UserError(
                f"group {settings.group} reads records of transactions that may be aborted",
                'give the consumer isolation="read_committed"',
            )
