"""The cluster itself: its brokers, their API versions, their log directories."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tallymark.client.admin.base import AdminBase
from tallymark.client.admin.results import Results
from tallymark.errors import CODES, KafkaError
from tallymark.net.addresses import Address
from tallymark.protocol import messages
from tallymark.protocol.api import ApiKey

_UNSUPPORTED = CODES["UNSUPPORTED_VERSION"]


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker and the address for clients. ``rack`` is "" for none; a ``fenced`` broker must not
    serve clients."""

    id: int
    host: str
    port: int
    rack: str = ""
    fenced: bool = False

    @property
    def address(self) -> str:
        """``host:port``; an IPv6 host in brackets."""
        return str(Address(self.host, self.port))


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster. ``controller`` is a broker's id, -1 when no broker reports it; ``cluster_id`` may
    be empty."""

    cluster_id: str
    controller: int
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """A partition's files in a log directory: bytes, and how many offsets it lags behind.
    ``future``: a copy from another directory that is not finished yet."""

    topic: str
    partition: int
    size: int
    lag: int
    future: bool = False


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory: ``error`` says why it cannot be used; sizes of its disk in bytes, -1 where
    the broker does not report them (before Kafka 3.4)."""

    path: str
    total_bytes: int = -1
    usable_bytes: int = -1
    replicas: tuple[ReplicaSize, ...] = ()
    error: KafkaError | None = None

    @property
    def size(self) -> int:
        """Bytes of all its partitions."""
        return sum(replica.size for replica in self.replicas)


class ClusterAdmin(AdminBase):
    """The methods of Admin for brokers."""

    def brokers(self) -> dict[int, str]:
        """Broker id -> host:port, from a new request."""
        self._run(self._cluster.refresh([]), "listing brokers")
        return {node: str(address) for node, address in self._cluster.metadata.brokers.items()}

    def cluster_id(self) -> str | None:
        """The id of the cluster; None when its brokers do not report it."""
        self._run(self._cluster.refresh([]), "asking for the cluster id")
        return self._cluster.metadata.cluster_id

    def describe_cluster(self) -> ClusterDescription:
        """Id, controller and brokers, from a new request."""
        return self._run(self._describe_cluster(), "describing the cluster")

    def api_versions(
        self, brokers: Iterable[int] | None = None
    ) -> Results[int, dict[str, tuple[int, int]]]:
        """Broker id -> {API: (lowest, highest version)} that it serves. An API that we do not know
        is named by its number."""

        async def ask(address: Address) -> dict[str, tuple[int, int]]:
            stream = await self._cluster.connections.get(address)
            return {_api_name(key): span for key, span in sorted(stream.served.items())}

        return self._of_brokers(brokers, ask, "asking for API versions")

    def describe_log_dirs(
        self, brokers: Iterable[int] | None = None
    ) -> Results[int, tuple[LogDir, ...]]:
        """Broker id -> its log directories, with the size of every partition in them."""

        async def ask(address: Address) -> tuple[LogDir, ...]:
            response = await self._cluster.ask(
                address, messages.DescribeLogDirsRequest(topics=None)
            )
            if response.error_code:
                raise KafkaError(response.error_code, f"log directories of {address}")
            return tuple(_log_dir(one) for one in response.results)

        return self._of_brokers(brokers, ask, "describing log directories")

    async def _describe_cluster(self) -> ClusterDescription:
        try:
            answer = await self._cluster.ask_any(messages.DescribeClusterRequest())
        except KafkaError as error:
            if error.code != _UNSUPPORTED:
                raise
            return await self._cluster_of_metadata()  # before Kafka 2.8
        if answer.error_code:
            raise KafkaError(answer.error_code, answer.error_message or "the cluster")
        brokers = (
            BrokerDescription(one.broker_id, one.host, one.port, one.rack or "", one.is_fenced)
            for one in sorted(answer.brokers, key=lambda one: one.broker_id)
        )
        return ClusterDescription(answer.cluster_id, answer.controller_id, tuple(brokers))

    async def _cluster_of_metadata(self) -> ClusterDescription:
        await self._cluster.refresh([])
        known = self._cluster.metadata
        brokers = (
            BrokerDescription(node, address.host, address.port)
            for node, address in sorted(known.brokers.items())
        )
        return ClusterDescription(known.cluster_id or "", known.controller, tuple(brokers))


def _api_name(key: int) -> str:
    try:
        return ApiKey(key).name
    except ValueError:
        return f"API_{key}"


def _log_dir(one: messages.DescribeLogDirsResponseResult) -> LogDir:
    error = KafkaError(one.error_code, f"log directory {one.log_dir}") if one.error_code else None
    replicas = (
        ReplicaSize(
            topic.name,
            part.partition_index,
            part.partition_size,
            part.offset_lag,
            part.is_future_key,
        )
        for topic in one.topics
        for part in topic.partitions
    )
    return LogDir(
        one.log_dir, one.total_bytes, one.usable_bytes, tuple(sorted(replicas, key=_place)), error
    )


def _place(replica: ReplicaSize) -> tuple[str, int]:
    return replica.topic, replica.partition
