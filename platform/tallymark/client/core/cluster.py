"""A client's view of one cluster: metadata that is kept fresh, and a connection per broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from tallymark.client.core import supervised
from tallymark.client.core.bootstrap import Bootstrap
from tallymark.client.core.connections import Connections
from tallymark.client.core.metadata import Metadata, TopicInfo
from tallymark.client.metrics import Metrics, guarded
from tallymark.errors import (
    CODES,
    AuthenticationError,
    ClosedError,
    ConnectError,
    KafkaError,
    TallymarkError,
    TimedOutError,
    UserError,
    WrongClusterError,
)
from tallymark.net.addresses import Address
from tallymark.net.client.broker_connection import BrokerConnection
from tallymark.protocol.messages import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tallymark.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)
log: Final = logging.getLogger(__name__)

METADATA_MAX_AGE: Final = 300.0
"""Seconds after which metadata is requested again without any error."""
RETRY_BACKOFF: Final = 0.1
LOOK_AGAIN: Final = 1.0
"""Seconds for which ZooKeeper's list of brokers is used before it is read again."""


class Cluster:
    """Knows the brokers of one cluster and sends requests to them. Lives in one event loop.

    ``request_timeout`` (seconds) bounds every single request.
    """

    def __init__(
        self,
        bootstrap: Bootstrap,
        client_id: str,
        *,
        request_timeout: float = 30.0,
        create_topics: bool = False,
        metrics: Metrics | None = None,
    ) -> None:
        self.metrics = guarded(metrics)
        """Called with every measurement; None: nothing is measured
        (:mod:`tallymark.client.metrics`)."""
        self.metadata = Metadata()
        self.request_timeout = request_timeout
        self.connections = Connections(
            client_id, min(10.0, request_timeout), bootstrap.security, self.metrics
        )
        self.connections.verify = self._check_cluster
        self.connections.origin = self._origin
        self._bootstrap = bootstrap
        self._create_topics = create_topics
        self._refreshing: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[tuple[Address, ...]] | None = None
        self._looked_at = 0.0
        self._refreshed_at = -METADATA_MAX_AGE
        self._interest: set[str] = set()
        self._said = ""

    async def close(self) -> None:
        """Close every connection."""
        both: tuple[asyncio.Task[Any] | None, ...] = (self._refreshing, self._looking)
        running: list[asyncio.Task[Any]] = [task for task in both if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self.connections.close()

    # --- metadata ---------------------------------------------------------------------------

    async def topic(self, name: str, timeout: float) -> TopicInfo:
        """The topic; its metadata is requested until it exists. A broker may create the topic at
        the first request.

        Raises the broker's KafkaError when a retry cannot help, TimedOutError naming the last
        reason after ``timeout`` seconds.
        """
        deadline = asyncio.get_running_loop().time() + timeout
        reason: TallymarkError | None = None
        while True:
            info = self.metadata.topic(name)
            if info is not None:
                return info
            try:
                await asyncio.wait_for(self.refresh([name]), _left(deadline))
                reason = self._topic_error(name)
            except TimeoutError:
                pass  # the reason before this one says more
            except AuthenticationError:
                raise
            except ConnectError as error:
                reason = error
            except KafkaError as error:
                reason = error
            if isinstance(reason, KafkaError) and not reason.retriable:
                raise reason
            if self.metadata.topic(name) is None and _left(deadline) <= RETRY_BACKOFF:
                why = str(reason) if reason else f"no answer from {self._bootstrap}"
                raise TimedOutError(f"topic {name} is not known after {timeout:g} s: {why}")
            if self.metadata.topic(name) is None:
                await asyncio.sleep(RETRY_BACKOFF)

    async def refresh(self, names: Iterable[str] | None) -> None:
        """Request the metadata of ``names`` (None: of all topics) now."""
        wanted = None if names is None else sorted(set(names))
        request = MetadataRequest(
            topics=None
            if wanted is None
            else tuple(MetadataRequestTopic(name=name) for name in wanted),
            allow_auto_topic_creation=self._create_topics,
        )
        response = await self.ask_any(request)
        self._compare(str(self._bootstrap), response)
        self._interest.update(wanted or ())
        self.metadata.update(response, whole=wanted is None)

    def refresh_soon(self) -> asyncio.Task[None]:
        """Request the metadata of every topic in use, in the background; one request at a time.
        The task never fails: errors are logged, and the metadata stays as it was."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = supervised.start(self._refresh_quietly(), "metadata refresh")
        return self._refreshing

    def refresh_if_old(self) -> None:
        """:meth:`refresh_soon` when the last response is older than METADATA_MAX_AGE."""
        if asyncio.get_running_loop().time() - self._refreshed_at > METADATA_MAX_AGE:
            self.refresh_soon()

    async def _refresh_quietly(self) -> None:
        # At most one request per back-off, however many partitions need it.
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._refreshed_at + RETRY_BACKOFF - loop.time()))
        self._refreshed_at = loop.time()
        try:
            if self._interest:
                await self.refresh(self._interest)
        except ClosedError:
            return  # closed by us meanwhile
        except TallymarkError as error:
            if str(error) != self._said:  # once, not ten times a second while a broker is away
                self._said = str(error)
                log.warning("metadata could not be refreshed: %s", error)
        else:
            self._said = ""

    def _compare(self, address: str, response: MetadataResponse) -> None:
        known, found = self.metadata.cluster_id, response.cluster_id
        if known and found and known != found:
            raise WrongClusterError(address, known, found)

    async def _check_cluster(self, stream: BrokerConnection) -> None:
        """Check that the broker is still one of this cluster: after a reconnect another cluster may
        have the port or the host name. WrongClusterError before any other request is sent."""
        if self.metadata.cluster_id:
            self._compare(str(stream.address), await stream.request(MetadataRequest(topics=())))

    def _origin(self, address: Address) -> str:
        if address in self._bootstrap.servers:
            return ""
        told = [node for node, known in self.metadata.brokers.items() if known == address]
        if not told:
            return ""
        return (
            f"broker {told[0]} of {self._bootstrap} tells clients to connect there: look at its "
            "advertised.listeners"
        )

    def _topic_error(self, name: str) -> KafkaError | None:
        code = self.metadata.error(name)
        return KafkaError(code, f"topic {name}") if code else None

    # --- requests ---------------------------------------------------------------------------

    async def ask(self, address: Address, message: Request[R], version: int | None = None) -> R:
        """Send one request to the broker at ``address``. ConnectError, KafkaError 7 or 13."""
        stream = await self.connections.get(address)
        return await stream.request(message, version, timeout=self.request_timeout)

    async def ask_any(self, message: Request[R]) -> R:
        """Send one request to any broker. Tries open connections, known brokers, then the
        bootstrap list, one after the other, until one answers.

        Raises ConnectError naming every address that was tried and why it failed;
        AuthenticationError when none answered and at least one refused our log-in.
        """
        failures: list[str] = []
        refusal: AuthenticationError | None = None
        tried: set[Address] = set()
        for source in (self._connected, self._known, self._begin_again):
            try:
                addresses = await source()
            except (ConnectError, UserError) as error:  # from ZooKeeper
                if not tried:
                    raise
                failures.append(str(error))
                break
            for address in addresses:
                if address in tried:
                    continue
                tried.add(address)
                try:
                    return await self.ask(address, message)
                except ConnectError as error:
                    failures.append(str(error))
                    if isinstance(error, AuthenticationError):
                        refusal = refusal or error
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    failures.append(str(error))
        raise refusal or ConnectError(str(self._bootstrap), "bootstrap", "; ".join(failures))

    async def ask_controller(self, message: Request[R]) -> R:
        """Send one request to the controller (any broker, where none is known)."""
        if self.metadata.controller not in self.metadata.brokers:
            await self.refresh([])
        address = self.metadata.brokers.get(self.metadata.controller)
        return await (self.ask_any(message) if address is None else self.ask(address, message))

    def leader_address(self, topic: str, partition: int) -> Address | None:
        """Where the partition's leader listens; None while that is not known."""
        leader = self.metadata.leader(topic, partition)
        return None if leader is None else self.metadata.brokers.get(leader.broker)

    async def leader_stream(self, topic: str, partition: int) -> BrokerConnection:
        """A connection to the partition's leader.

        Raises KafkaError 3 (no such partition) or 5 (no leader), ConnectError.
        """
        if self.leader_address(topic, partition) is None:
            await self.refresh([topic])
        return await self.connections.get(self.known_leader(topic, partition))

    def known_leader(self, topic: str, partition: int) -> Address:
        """As :meth:`leader_address`; KafkaError 3 (no such partition) or 5 (no leader)."""
        address = self.leader_address(topic, partition)
        if address is None:
            missing = self.metadata.leader(topic, partition) is None
            name = "UNKNOWN_TOPIC_OR_PARTITION" if missing else "LEADER_NOT_AVAILABLE"
            raise KafkaError(CODES[name], f"{topic}-{partition}")
        return address

    async def _connected(self) -> tuple[Address, ...]:
        streams = sorted(self.connections.open_streams(), key=lambda stream: stream.due)
        return tuple(stream.address for stream in streams)

    async def _begin_again(self) -> tuple[Address, ...]:
        """The bootstrap addresses. ZooKeeper is read by one caller at a time and at most once a
        second, however many retry: each read opens a session there."""
        if not self._bootstrap.zookeeper:
            return self._bootstrap.servers
        now = asyncio.get_running_loop().time()
        if self._looking is None or (self._looking.done() and now > self._looked_at + LOOK_AGAIN):
            self._looking = supervised.start(self._bootstrap.addresses(), "asking ZooKeeper")
            self._looked_at = now
        return await asyncio.shield(self._looking)

    async def _known(self) -> tuple[Address, ...]:
        return tuple(self.metadata.brokers.values())


def _left(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())
