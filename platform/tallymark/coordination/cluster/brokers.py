"""The live brokers and their listeners: ``/brokers/ids/[id]``.

A node holds what Apache Kafka writes there (version 5), so its tools can read it, and ``run``::

    {"version":5, "host":"127.0.0.1", "port":9092,
     "endpoints":["PLAINTEXT://127.0.0.1:9092", "OUTSIDE://broker-7.example:9094"],
     "listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT", "OUTSIDE":"SASL_SSL"},
     "rack":"a", "jmx_port":-1, "timestamp":"1767225600000", "features":{}, "run":"..."}

``host`` and ``port`` are those of the first PLAINTEXT endpoint, null and -1 where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tallymark.coordination import paths
from tallymark.coordination.malformed_nodes import MalformedNodes
from tallymark.coordination.session import documents
from tallymark.coordination.session.client import WatchCallback
from tallymark.coordination.session.ephemeral import EphemeralNode
from tallymark.coordination.session.errors import MalformedNodeError, NodeInUseError
from tallymark.coordination.session.watches import Watch, watch_children
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import TallymarkError, UserError

_PLAINTEXT: Final = "PLAINTEXT"


class ListenerInfo(NamedTuple):
    """One advertised endpoint: the listener's name, its security protocol, and its address."""

    name: str
    protocol: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port``; an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A live broker. ``host`` and ``port`` are for clients that ask for no listener; ``listeners``
    are all endpoints, in order. ``run`` is the id of the broker's data folder: it stays the same
    when the broker restarts, and no other broker has it. By it a restarted broker recognises the
    entry that it made before a crash. ``rack`` is "" for none."""

    id: int
    host: str
    port: int
    run: str = ""
    started_ms: int = 0
    listeners: tuple[ListenerInfo, ...] = ()
    rack: str = ""

    def __post_init__(self) -> None:
        if not self.listeners:
            plain = ListenerInfo(_PLAINTEXT, _PLAINTEXT, self.host, self.port)
            object.__setattr__(self, "listeners", (plain,))

    @property
    def address(self) -> str:
        """``host:port``; an IPv6 host in brackets."""
        return ListenerInfo("", "", self.host, self.port).address

    def address_by(self, protocol: str) -> str | None:
        """``host:port`` of the first endpoint that is secured by ``protocol`` (PLAINTEXT, SSL,
        SASL_PLAINTEXT or SASL_SSL); None where there is none."""
        return next((each.address for each in self.listeners if each.protocol == protocol), None)


class BrokerRegistry:
    """The registry of one cluster's live brokers."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper

    def register(
        self, broker: BrokerInfo, on_failure: Callable[[TallymarkError], None] | None = None
    ) -> EphemeralNode:
        """Register this broker, now and in every later session, until the returned node's
        ``release()`` or the end of the process.

        Waits until an entry that this broker made before a crash has expired. Raises UserError when
        another broker uses the id; a later conflict goes to ``on_failure``.
        """

        def is_ours(content: bytes) -> bool:
            try:
                other = decode(paths.broker(broker.id), content, broker.id)
            except MalformedNodeError:
                return False
            # No other process can listen on our address, so an entry with it is our own from
            # before.
            return other.address == broker.address or bool(broker.run and other.run == broker.run)

        node = EphemeralNode(self._zookeeper, paths.broker(broker.id), encode(broker), is_ours)
        try:
            node.keep(on_failure)
        except NodeInUseError as error:
            raise self._in_use(broker, error) from None
        return node

    def brokers(
        self, watch: WatchCallback | None = None, malformed: MalformedNodes | None = None
    ) -> dict[int, BrokerInfo]:
        """The live brokers by id; ``watch`` fires once when one comes or goes. A node that cannot
        be read is left out and reported to ``malformed``; without ``malformed`` it raises
        MalformedNodeError."""
        found: dict[int, BrokerInfo] = {}
        children = self._zookeeper.children(paths.BROKER_IDS, watch)
        ids = sorted(int(name) for name in children if name.isdecimal() and len(name) <= 10)
        places = [paths.broker(broker_id) for broker_id in ids]
        nodes = self._zookeeper.read_many(places)
        for broker_id, path, node in zip(ids, places, nodes, strict=True):
            if node is None:
                continue
            try:
                found[broker_id] = decode(path, node.data, broker_id)
            except MalformedNodeError as error:
                if malformed is None:
                    raise
                malformed.left_out(path, error)
        return found

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Call back when a broker comes or goes, until the watch is cancelled."""
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
    plain = [listener for listener in broker.listeners if listener.protocol == _PLAINTEXT]
    return documents.dump(
        {
            "version": 5,
            "host": plain[0].host if plain else None,
            "port": plain[0].port if plain else -1,
            "endpoints": [f"{each.name}://{each.address}" for each in broker.listeners],
            "listener_security_protocol_map": {
                each.name: each.protocol for each in broker.listeners
            },
            **({"rack": broker.rack} if broker.rack else {}),
            "jmx_port": -1,
            "timestamp": str(broker.started_ms),
            "features": {},
            "run": broker.run,
        }
    )


def decode(path: str, data: bytes, broker_id: int) -> BrokerInfo:
    """A broker's node as we or Apache Kafka (version 2 and later) write it."""
    document = documents.load(path, data)
    listeners = _listeners(document)
    host, port = document.get("host"), document.get("port")
    if not isinstance(host, str) or not host or type(port) is not int or port < 1:
        if not listeners:
            raise MalformedNodeError(path, "it names no host and port")
        host, port = listeners[0].host, listeners[0].port
    stamp = str(document.get("timestamp", "0"))
    return BrokerInfo(
        id=broker_id,
        host=host,
        port=port,
        run=str(document.get("run", "")),
        started_ms=int(stamp) if stamp.isdecimal() else 0,
        listeners=listeners,
        rack=str(document.get("rack") or ""),
    )


def _listeners(document: Mapping[str, object]) -> tuple[ListenerInfo, ...]:
    """The endpoints that are understood. A listener without a security protocol in the map has the
    one of its name."""
    endpoints, protocols = (
        document.get("endpoints"),
        document.get("listener_security_protocol_map"),
    )
    found: list[ListenerInfo] = []
    for endpoint in endpoints if isinstance(endpoints, list) else []:
        name, _, place = str(endpoint).rpartition("://")
        host, colon, port = place.rpartition(":")
        if colon and host and port.isdecimal():
            protocol = protocols.get(name, name) if isinstance(protocols, dict) else name
            found.append(ListenerInfo(name, str(protocol), host.strip("[]"), int(port)))
    return tuple(found)
