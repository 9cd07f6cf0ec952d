"""What is kept about users and clients: credentials and quotas, in Apache Kafka's layout.

::

    /config/users/[user]        {"version":1,"config":{"SCRAM-SHA-256":"salt=...,stored_key=...,
                                 server_key=...,iterations=4096","producer_byte_rate":"1024"}}
    /config/clients/[client]    the same form
    /config/users               {"version":1,"config":{"salt_key":"<hex>"}}: of the whole cluster;
                                written again with every change below, so one watch hears of all
    /config/clients             written again, too

Names are percent-encoded in paths; ``<default>`` stands for all that have no node of their own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

from tallymark.coordination import configs, paths
from tallymark.coordination.errors import BadVersionError, NodeExistsError, NoNodeError
from tallymark.coordination.nodes import Create, Delete, SetData, Step
from tallymark.coordination.watches import Watch, watch_node
from tallymark.coordination.zookeeper import ZooKeeper

DEFAULT = "<default>"
_SALT_KEY = "salt_key"


class EntityConfigs:
    """``folder`` is :data:`paths.USERS` or :data:`paths.CLIENTS`."""

    def __init__(self, zookeeper: ZooKeeper, folder: str) -> None:
        self._zookeeper = zookeeper
        self._folder = folder

    def read(self) -> dict[str, dict[str, str]]:
        """Name -> configs, of everyone that has a node."""
        names = self._zookeeper.children(self._folder)
        places = [f"{self._folder}/{name}" for name in names]
        nodes = self._zookeeper.read_many(places)
        return {
            _name(name): configs.decode(path, node.data)
            for name, path, node in zip(names, places, nodes, strict=True)
            if node is not None and node.data
        }

    def alter(self, name: str, change: Mapping[str, str | None]) -> None:
        """Set configs, and remove those whose value is None; a node without configs goes."""
        path = f"{self._folder}/{_segment(name)}"
        while True:
            self.salt_key()
            node = self._zookeeper.find(path)
            held = configs.decode(path, node.data) if node and node.data else {}
            wanted = {**held, **{key: value for key, value in change.items() if value is not None}}
            for key in [key for key, value in change.items() if value is None]:
                wanted.pop(key, None)
            step: Step
            if node is None and not wanted:
                return
            if node is None:
                step = Create(path, configs.encode(wanted))
            elif wanted:
                step = SetData(path, configs.encode(wanted), node.version)
            else:
                step = Delete(path, node.version)
            parent = self._zookeeper.read(self._folder)
            try:
                self._zookeeper.commit([step, SetData(self._folder, parent.data)])
                return
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue  # somebody else changed it: look again

    def salt_key(self) -> str:
        """The cluster's secret for salts of users that there are not; made at its first use."""
        while True:
            node = self._zookeeper.find(self._folder)
            held = configs.decode(self._folder, node.data) if node and node.data else {}
            if _SALT_KEY in held:
                return held[_SALT_KEY]
            content = configs.encode({**held, _SALT_KEY: secrets.token_hex(32)})
            try:
                if node is None:
                    self._zookeeper.create(self._folder, content, parents=True)
                else:
                    self._zookeeper.write(self._folder, content, node.version)
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Hear of every change of any of them until the watch is cancelled."""
        return watch_node(self._zookeeper, self._folder, callback)


def _segment(name: str) -> str:
    return name if name == DEFAULT else paths.encoded(name)


def _name(segment: str) -> str:
    return segment if segment == DEFAULT else paths.decoded(segment)
