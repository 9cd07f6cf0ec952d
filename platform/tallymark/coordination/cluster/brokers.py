"""The live brokers and their listeners: ``/brokers/ids/[id]``.

A node holds what Apache Kafka writes there (version 5), so its tools can read it, and of ours
``run``, ``epoch`` and ``lowest``::

    {"version":5, "host":"127.0.0.1", "port":9092,
     "endpoints":["PLAINTEXT://127.0.0.1:9092", "OUTSIDE://broker-7.example:9094"],
     "listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT", "OUTSIDE":"SASL_SSL"},
     "rack":"a", "jmx_port":-1, "timestamp":"1767225600000",
     "features":{"replication.version":{"min_version":1,"max_version":1,"lowest":0}},
     "run":"...", "epoch":7}

Releases of Apache Kafka before 3.9 refuse a ``min_version`` of 0: for level 0, which means that a
feature is not in use, they read 1, and we ``lowest``. ``epoch`` is the version that
``/brokers/epochs/[id]`` has while this is the broker's registration. Older releases wrote neither
epoch nor features; they read such nodes, and leave them as they are.
``host`` and ``port`` are those of the first PLAINTEXT endpoint, null and -1 where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from tallymark.coordination import paths
from tallymark.coordination.cluster.broker_node import BrokerNode
from tallymark.coordination.malformed_nodes import MalformedNodes
from tallymark.coordination.session import documents
from tallymark.coordination.session.client import WatchCallback
from tallymark.coordination.session.errors import MalformedNodeError, NodeInUseError
from tallymark.coordination.session.watches import Watch, watch_children
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.errors import TallymarkError, UserError
from tallymark.replication.features import Finalized, Levels, Supported

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
    entry that it made before a crash. ``rack`` is "" for none. ``epoch`` is the broker epoch, -1
    for a release without; ``features`` are the levels that it supports."""

    id: int
    host: str
    port: int
    run: str = ""
    started_ms: int = 0
    listeners: tuple[ListenerInfo, ...] = ()
    rack: str = ""
    epoch: int = -1
    features: Supported = field(default_factory=dict[str, Levels])

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
        self,
        broker: BrokerInfo,
        on_failure: Callable[[TallymarkError], None] | None = None,
        give_up: Callable[[int, Finalized], None] = lambda epoch, features: None,
        registered: Callable[[int], None] = lambda epoch: None,
    ) -> BrokerNode:
        """Register this broker, now and in every later session, until the returned node's
        ``release()`` or the end of the process. Each time it gets a new epoch, ``give_up`` is
        called in between (:mod:`.broker_node`), and ``registered`` afterwards, on the thread that
        registers.

        Waits until an entry that this broker made before a crash has expired. Raises UserError when
        another broker uses the id, or when the cluster uses a feature that this release does not
        support; a later conflict goes to ``on_failure``.
        """

        def is_ours(content: bytes) -> bool:
            try:
                other = decode(paths.broker(broker.id), content, broker.id)
            except MalformedNodeError:
                return False
            # No other process can listen on our address, so an entry with it is our own from
            # before.
            return other.address == broker.address or bool(broker.run and other.run == broker.run)

        node = BrokerNode(
            self._zookeeper,
            broker.id,
            broker.run,
            broker.features,
            lambda epoch: encode(replace(broker, epoch=epoch)),
            is_ours,
            give_up,
            registered,
        )
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
            other = "another process"
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
            "features": {
                name: {
                    "min_version": max(1, levels.lowest),
                    "max_version": levels.highest,
                    "lowest": levels.lowest,
                }
                for name, levels in sorted(broker.features.items())
                if levels.highest > 0
            },
            "run": broker.run,
            **({"epoch": broker.epoch} if broker.epoch >= 0 else {}),
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
        epoch=epoch if type(epoch := document.get("epoch")) is int and epoch >= 0 else -1,
        features=_features(document),
    )


def _features(document: Mapping[str, object]) -> Supported:
    """The levels that are understood; an entry that is not is no support."""
    entries = document.get("features")
    found: dict[str, Levels] = {}
    for name, entry in entries.items() if isinstance(entries, dict) else []:
        if isinstance(entry, dict):
            lowest = entry.get("lowest", entry.get("min_version"))
            highest = entry.get("max_version")
            if type(lowest) is int and type(highest) is int and 0 <= lowest <= highest:
                found[str(name)] = Levels(lowest, highest)
    return found


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
