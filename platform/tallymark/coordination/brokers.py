"""Which brokers live and where they listen: ``/brokers/ids/[id]``.

A node holds what Apache Kafka writes there (version 5), so its tools can read it, and ``run``::

    {"version":5, "host":"127.0.0.1", "port":9092, "endpoints":["PLAINTEXT://127.0.0.1:9092"],
     "listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"}, "jmx_port":-1,
     "timestamp":"1767225600000", "features":{}, "run":"..."}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tallymark.coordination import documents, paths
from tallymark.coordination.ephemeral import EphemeralNode
from tallymark.coordination.errors import MalformedNodeError, NodeInUseError
from tallymark.coordination.kazoo_client import WatchCallback
from tallymark.coordination.watches import Watch, watch_children
from tallymark.coordination.zookeeper import ZooKeeper
from tallymark.errors import TallymarkError, UserError


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A live broker. ``host`` and ``port`` are what clients are told. ``run`` is what stays the
    same when this broker restarts and differs from every other broker's (the id of its data
    folder): by it a restarted broker knows its own entry of before a crash."""

    id: int
    host: str
    port: int
    run: str = ""
    started_ms: int = 0

    @property
    def address(self) -> str:
        """``host:port``; an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class BrokerRegistry:
    """The registry of one cluster's live brokers."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper

    def register(
        self, broker: BrokerInfo, on_failure: Callable[[TallymarkError], None] | None = None
    ) -> EphemeralNode:
        """Say that this broker lives, now and again in every later session, until the returned
        node's ``release()`` or the end of the process.

        The broker's own entry of before a crash is waited for. Raises UserError when the id is
        in use by another broker; a later conflict goes to ``on_failure``.
        """

        def is_ours(content: bytes) -> bool:
            try:
                other = decode(paths.broker(broker.id), content, broker.id)
            except MalformedNodeError:
                return False
            # Nobody else can listen where we listen, so the same address is an earlier life too.
            return other.address == broker.address or bool(broker.run and other.run == broker.run)

        node = EphemeralNode(self._zookeeper, paths.broker(broker.id), encode(broker), is_ours)
        try:
            node.keep(on_failure)
        except NodeInUseError as error:
            raise self._in_use(broker, error) from None
        return node

    def brokers(self, watch: WatchCallback | None = None) -> dict[int, BrokerInfo]:
        """The live brokers by id; ``watch`` fires once when one comes or goes."""
        found: dict[int, BrokerInfo] = {}
        children = self._zookeeper.children(paths.BROKER_IDS, watch)
        ids = sorted(int(name) for name in children if name.isdecimal())
        places = [paths.broker(broker_id) for broker_id in ids]
        nodes = self._zookeeper.read_many(places)
        for broker_id, path, node in zip(ids, places, nodes, strict=True):
            if node is not None:
                found[broker_id] = decode(path, node.data, broker_id)
        return found

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Hear of brokers that come and go until the watch is cancelled."""
        return watch_children(self._zookeeper, paths.BROKER_IDS, callback)

    def _in_use(self, broker: BrokerInfo, error: NodeInUseError) -> UserError:
        try:
            other = decode(error.path, error.content, broker.id).address
        except MalformedNodeError:
            other = "somebody else"
        where = f"{self._zookeeper.connect}{self._zookeeper.chroot}"
        return UserError(
            f"broker id {broker.id} is in use by {other} in {where}",
            "give this broker another id, or stop the other one",
        )


def encode(broker: BrokerInfo) -> bytes:
    """The content of a broker's node."""
    return documents.dump(
        {
            "version": 5,
            "host": broker.host,
            "port": broker.port,
            "endpoints": [f"PLAINTEXT://{broker.address}"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "jmx_port": -1,
            "timestamp": str(broker.started_ms),
            "features": {},
            "run": broker.run,
        }
    )


def decode(path: str, data: bytes, broker_id: int) -> BrokerInfo:
    """A broker's node as we or Apache Kafka (version 2 and later) write it."""
    document = documents.load(path, data)
    host, port = document.get("host"), document.get("port")
    if not isinstance(host, str) or not host or type(port) is not int or port < 1:
        # Apache Kafka leaves host null when it has no PLAINTEXT listener.
        host, port = _endpoint(path, document.get("endpoints"))
    stamp = str(document.get("timestamp", "0"))
    return BrokerInfo(
        id=broker_id,
        host=host,
        port=port,
        run=str(document.get("run", "")),
        started_ms=int(stamp) if stamp.isdecimal() else 0,
    )


def _endpoint(path: str, endpoints: object) -> tuple[str, int]:
    for endpoint in endpoints if isinstance(endpoints, list) else []:
        host, colon, port = str(endpoint).rpartition("://")[2].rpartition(":")
        if colon and host and port.isdecimal():
            return host.strip("[]"), int(port)
    raise MalformedNodeError(path, "it names no host and port")
