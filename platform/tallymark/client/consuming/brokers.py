"""The fetcher's way to the brokers: one simple consumer, made anew when the brokers moved."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from tallymark.client.core.metadata import TopicInfo
from tallymark.client.reading.fetched import Fetched, FetchSpec
from tallymark.client.reading.list_offsets import OffsetAnswered
from tallymark.errors import KafkaError
from tallymark.protocol.topic_partition import TopicPartition

LOG: Final = logging.getLogger("tallymark.client.connector.connector")


class FetchClient(Protocol):
    """What of :class:`~tallymark.client.reading.simple_consumer.SimpleConsumer` is used here."""

    def multifetch(
        self, specs: Sequence[FetchSpec], *, max_bytes: int, max_wait_ms: int, min_bytes: int
    ) -> Sequence[Fetched | KafkaError]: ...

    def get_offsets_before(self, topic: str, partition: int, time: int) -> Sequence[int]: ...

    def each_offset(
        self, places: Collection[TopicPartition], time: int, answered: OffsetAnswered
    ) -> None: ...

    def topics(self) -> Mapping[str, TopicInfo]: ...

    def close(self) -> None: ...


class BrokerLink:
    """Makes the client from ``bootstrap_servers``, or else from the brokers that are registered.

    A cluster whose brokers all came back elsewhere is found again: after a failure the client is
    made anew if the registry has other addresses than it was made with.
    """

    def __init__(
        self,
        make: Callable[[str], FetchClient],
        bootstrap_servers: str = "",
        protocol: str = "PLAINTEXT",
    ) -> None:
        self._make = make
        self.protocol = protocol
        """The security protocol of the listeners that :meth:`learn` takes."""
        self._fixed = bool(bootstrap_servers)
        self._known = bootstrap_servers
        self._used = ""
        self._client: FetchClient | None = None
        self._lock = threading.Lock()
        self._closed = False

    def learn(self, addresses: Sequence[str]) -> None:
        """The brokers that are registered now; an empty registry changes nothing."""
        if addresses and not self._fixed:
            with self._lock:
                self._known = ",".join(sorted(addresses))

    def client(self) -> FetchClient | None:
        """The client; None while no broker is known, and after :meth:`close`."""
        with self._lock:
            if self._closed or not self._known:
                return None
            if self._client is None:
                self._used = self._known
                self._client = self._make(self._used)
            return self._client

    def failed(self) -> None:
        """No broker answered: begin anew where the registry says now."""
        with self._lock:
            if self._client is None or self._used == self._known:
                return
            client, self._client = self._client, None
            LOG.info("the brokers have moved from %s to %s", self._used, self._known)
        client.close()

    def close(self) -> None:
        """Close the client; calls that wait in other threads end. Idempotent."""
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()
