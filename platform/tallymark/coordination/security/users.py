"""Configs of users, clients, brokers and groups, in Apache Kafka's layout.

::

    /config/users/[user]        {"version":1,"config":{"SCRAM-SHA-256":"salt=...,stored_key=...,
                                 server_key=...,iterations=4096","producer_byte_rate":"1024"}}
    /config/clients/[client]    the same form
    /config/users/[user]/clients/[client]   the same form: quotas of the two together
    /config/brokers/[id]        the same form: settings that were changed at run time
    /config/groups/[group]      the same form
    /config/users               {"version":1,"config":{"salt_key":"<hex>"}}: of the whole cluster;
                                written again with every change below, so one watch fires for all
    /config/clients, /config/brokers, /config/groups   written again, too

Names are percent-encoded in paths; ``<default>`` stands for all that have no node of their own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence

from tallymark.coordination import paths
from tallymark.coordination.session.errors import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from tallymark.coordination.session.nodes import Create, Delete, SetData, Step
from tallymark.coordination.session.watches import Watch, watch_node
from tallymark.coordination.session.zookeeper import ZooKeeper
from tallymark.coordination.topics import configs

DEFAULT = "<default>"
_SALT_KEY = "salt_key"


class EntityConfigs:
    """``folder`` is :data:`paths.USERS`, :data:`paths.CLIENTS`, :data:`paths.BROKER_CONFIGS` or
    :data:`paths.GROUP_CONFIGS`."""

    def __init__(self, zookeeper: ZooKeeper, folder: str) -> None:
        self._zookeeper = zookeeper
        self._folder = folder

    def read(self) -> dict[str, dict[str, str]]:
        """Name -> configs, of all that have a node."""
        names = self._zookeeper.children(self._folder)
        places = [f"{self._folder}/{name}" for name in names]
        nodes = self._zookeeper.read_many(places)
        return {
            _name(name): configs.decode(path, node.data)
            for name, path, node in zip(names, places, nodes, strict=True)
            if node is not None and node.data
        }

    def alter(self, name: str, change: Mapping[str, str | None]) -> None:
        """Set configs, and remove those whose value is None; a node without configs is deleted."""
        path = f"{self._folder}/{_segment(name)}"
        self._alter((path,), change)

    def read_pairs(self) -> dict[tuple[str, str], dict[str, str]]:
        """(user, client) -> configs, of :data:`paths.USERS`."""
        users = self._zookeeper.children(self._folder)
        folders = [f"{self._folder}/{user}/clients" for user in users]
        there = self._zookeeper.read_many(folders)
        places = [
            (user, client, f"{folder}/{client}")
            for user, folder, node in zip(users, folders, there, strict=True)
            if node is not None
            for client in self._zookeeper.children(folder)
        ]
        nodes = self._zookeeper.read_many([path for _, _, path in places])
        return {
            (_name(user), _name(client)): configs.decode(path, node.data)
            for (user, client, path), node in zip(places, nodes, strict=True)
            if node is not None and node.data
        }

    def alter_pair(self, user: str, client: str, change: Mapping[str, str | None]) -> None:
        """The same as :meth:`alter` for a user with a client id, of :data:`paths.USERS`."""
        of_user = f"{self._folder}/{_segment(user)}"
        clients = f"{of_user}/clients"
        self._alter((of_user, clients, f"{clients}/{_segment(client)}"), change)

    def _alter(self, way: Sequence[str], change: Mapping[str, str | None]) -> None:
        """Change the last node of ``way``; the others are created where they do not exist."""
        path = way[-1]
        while True:
            self._prepare()
            node = self._zookeeper.find(path)
            held = configs.decode(path, node.data) if node and node.data else {}
            wanted = {**held, **{key: value for key, value in change.items() if value is not None}}
            for key in [key for key, value in change.items() if value is None]:
                wanted.pop(key, None)
            if node is None and not wanted:
                return
            steps: list[Step] = []
            if node is None:
                missing = [each for each in way[:-1] if not self._zookeeper.exists(each)]
                steps = [Create(each, configs.encode({})) for each in missing]
                steps.append(Create(path, configs.encode(wanted)))
            elif wanted or self._zookeeper.children(path):
                steps.append(SetData(path, configs.encode(wanted), node.version))
            else:
                steps.append(Delete(path, node.version))
            parent = self._zookeeper.read(self._folder)
            try:
                self._zookeeper.commit([*steps, SetData(self._folder, parent.data)])
                return
            except (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError):
                continue  # it was changed meanwhile: read again

    def _prepare(self) -> None:
        """Make sure that the folder exists."""
        if self._folder in (paths.USERS, paths.CLIENTS):
            self.salt_key()
        else:
            self._zookeeper.ensure(self._folder)

    def salt_key(self) -> str:
        """The cluster's secret for the salts of users that do not exist; created at its first
        use."""
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
        """Call back at every change of any of them until the watch is cancelled."""
        return watch_node(self._zookeeper, self._folder, callback)


def _segment(name: str) -> str:
    return name if name == DEFAULT else paths.encoded(name)


def _name(segment: str) -> str:
    return segment if segment == DEFAULT else paths.decoded(segment)
