"""The two ways a connector coordinates its group: in ZooKeeper, or through the brokers."""

from __future__ import annotations

from typing import Protocol

from tallymark.client.consuming.commit import OffsetStore, ZooKeeperOffsets
from tallymark.client.consuming.coordination import Coordination, Parts
from tallymark.client.consuming.settings import ConsumerSettings, new_consumer_id
from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.core.group_metadata import GroupMetadata
from tallymark.client.core.security.security import ClientSecurity
from tallymark.client.group.coordinator import GroupCoordinator
from tallymark.client.group.coordinator_connection import CoordinatorConnection
from tallymark.client.group.offsets import BrokerOffsets
from tallymark.client.zookeeper_group.coordinator import Coordinator
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import CODES, CommitFailedError, UserError


class GroupProtocol(Protocol):
    """One of the ways: a connection, a store of offsets, a coordination."""

    member: str
    """What logs call this consumer."""

    store: OffsetStore

    def coordinate(self, parts: Parts) -> Coordination: ...

    def membership(self) -> GroupMetadata:
        """As which member it reads at this moment."""
        ...

    def close(self) -> None: ...


class ZooKeeperGroupProtocol:
    """Algorithm 1 of the paper. Raises ConnectError when ZooKeeper is not there."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self.member = settings.consumer_id or new_consumer_id(settings.group)
        self._settings = settings
        self._zookeeper = ZooKeeper(
            settings.zookeeper_connect or "",
            session_timeout_ms=settings.session_ms,
            connect_timeout_ms=settings.connect_timeout_ms,
        )
        self.store: OffsetStore = ZooKeeperOffsets(self._zookeeper, settings.group)
        # A cluster that does not register in ZooKeeper has no chroot there until a group makes it.
        self._zookeeper.start(create_root=bool(settings.servers))

    def coordinate(self, parts: Parts) -> Coordination:
        """The thread that runs the state machine."""
        settings = self._settings
        return Coordinator(
            self._zookeeper, settings.group, self.member, parts, settings.auto_commit_ms
        )

    def membership(self) -> GroupMetadata:
        """UserError: transactions store offsets with the brokers."""
        raise UserError(
            f"group {self._settings.group} keeps its offsets in ZooKeeper, which no transaction "
            "writes to",
            'give coordinator="brokers"',
        )

    def close(self) -> None:
        """End the session. Idempotent."""
        self._zookeeper.close()


class BrokerGroupProtocol:
    """Kafka's classic group protocol. Connects with the first request."""

    def __init__(self, settings: ConsumerSettings, security: ClientSecurity) -> None:
        self.member = settings.group_instance_id or new_consumer_id(settings.group)
        self._settings = settings
        bootstrap = Bootstrap.of(
            settings.servers or None,
            None if settings.servers else settings.zookeeper_connect,
            security,
        )
        self._link = CoordinatorConnection(bootstrap, settings)
        self._offsets = BrokerOffsets(self._link, settings)
        self.store: OffsetStore = self._offsets

    def coordinate(self, parts: Parts) -> Coordination:
        """The loop that runs the state machine, and its worker."""
        return GroupCoordinator(self._link, self._offsets, self._settings, self.member, parts)

    def membership(self) -> GroupMetadata:
        """CommitFailedError while it is in no generation of its group: what names no member is
        not checked by a coordinator."""
        term, settings = self._offsets.term, self._settings
        if term.generation < 0 or not term.member_id:
            raise CommitFailedError(
                CODES["REBALANCE_IN_PROGRESS"],
                f"this consumer is in no generation of group {settings.group} at this moment",
            )
        instance = settings.group_instance_id
        return GroupMetadata(settings.group, term.generation, term.member_id, instance)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._link.close()
