"""Topics of a cluster: list, create, delete."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tallymark.client.bootstrap import Bootstrap
from tallymark.client.cluster import Cluster
from tallymark.client.io_thread import IoThread
from tallymark.client.metadata import TopicInfo
from tallymark.client.topic_admin import create_topic, delete_topic
from tallymark.errors import CODES, KafkaError

T = TypeVar("T")
_MARGIN: Final = 5.0


class Admin:
    """Manages the topics of one cluster. Thread-safe; close it, or use ``with``."""

    def __init__(
        self,
        *,
        bootstrap_servers: str | Sequence[str] | None = None,
        zookeeper_connect: str | None = None,
        client_id: str = "tallymark-admin",
        request_timeout_ms: float = 30000,
    ) -> None:
        bootstrap = Bootstrap.of(bootstrap_servers, zookeeper_connect)
        self._timeout = request_timeout_ms / 1000
        self._cluster = Cluster(bootstrap, client_id, request_timeout=self._timeout)
        self._io = IoThread(f"admin {client_id}")

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        if_not_exists: bool = True,
    ) -> bool:
        """Create a topic and wait until brokers tell of it. True when this call made it.

        Raises KafkaError TOPIC_ALREADY_EXISTS unless ``if_not_exists``, and the cluster's other
        refusals (name, number of partitions, configs); TimedOutError, ConnectError.
        """
        work = create_topic(self._cluster, name, partitions, configs or {}, self._timeout)
        made = self._run(work, f"creating topic {name}")
        if not made and not if_not_exists:
            raise KafkaError(CODES["TOPIC_ALREADY_EXISTS"], f"topic {name}")
        return made

    def delete_topic(self, name: str, if_exists: bool = True) -> bool:
        """Delete a topic and its records. True when this call deleted it.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION unless ``if_exists``, and as above.
        """
        work = delete_topic(self._cluster, name, self._timeout)
        gone = self._run(work, f"deleting topic {name}")
        if not gone and not if_exists:
            raise KafkaError(CODES["UNKNOWN_TOPIC_OR_PARTITION"], f"topic {name}")
        return gone

    def topics(self) -> dict[str, TopicInfo]:
        """All topics, asked for now."""
        self._run(self._cluster.refresh(None), "listing topics")
        return self._cluster.metadata.topics()

    def brokers(self) -> dict[int, str]:
        """Broker id -> host:port, asked for now."""
        self._run(self._cluster.refresh([]), "listing brokers")
        return {node: str(address) for node, address in self._cluster.metadata.brokers.items()}

    def leaders(self, topic: str) -> dict[int, tuple[int, int]]:
        """Partition -> (broker id of its leader or -1, leader epoch) as last asked for."""
        metadata = self._cluster.metadata
        info = metadata.topic(topic)
        found = {p: metadata.leader(topic, p) for p in (info.partitions if info else ())}
        return {part: (one.broker, one.epoch) for part, one in found.items() if one is not None}

    def cluster_id(self) -> str | None:
        """The id of the cluster; None when its brokers do not tell."""
        self._run(self._cluster.refresh([]), "asking for the cluster id")
        return self._cluster.metadata.cluster_id

    def close(self) -> None:
        """Close the connections. Twice does nothing."""
        if self._io.stopped:
            return
        try:
            self._io.run(self._cluster.close(), what="close()")
        finally:
            self._io.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T], what: str) -> T:
        return self._io.run(work, 3 * self._timeout + _MARGIN, what)
