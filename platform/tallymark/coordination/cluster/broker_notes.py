"""What brokers say of themselves and of each other, for the controller.

::

    /brokers/leaving/[id]               {"version":1,"epoch":7}
        the broker wants to stop: its leads should move first
    /brokers/suspects/[id]-[reporter]   {"version":1,"epoch":7}
        the reporter was refused a connection by the broker, or lost one

Both are ephemeral: they end with the session of the one that wrote them. ``epoch`` is the broker
epoch of the broker in question: one that has started again since is not meant.

A broker has one report of each other one. Of each suspect :data:`MOST` reports are read, and as
many are removed at a time: whoever floods the folder holds nothing up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from tallymark.coordination import paths
from tallymark.coordination.session import documents
from tallymark.coordination.session.errors import MalformedNodeError, NodeExistsError
from tallymark.coordination.session.watches import Watch, watch_children
from tallymark.coordination.session.zookeeper import ZooKeeper

MOST: Final = 100
_SUSPECT: Final = re.compile(r"(\d{1,10})-\d{1,10}")
_LEAVING: Final = re.compile(r"(\d{1,10})")


class BrokerNotes:
    """Reads and writes these nodes in one cluster."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper

    def leave(self, broker_id: int, epoch: int) -> None:
        """This broker wants to stop. Idempotent within a session."""
        self._note(f"{paths.LEAVING}/{broker_id}", epoch)

    def stay(self, broker_id: int) -> None:
        """It does not want to stop any more."""
        self._zookeeper.delete(f"{paths.LEAVING}/{broker_id}")

    def suspect(self, broker_id: int, epoch: int, reporter: int) -> None:
        """The reporter, this broker, gets no answer from the other one."""
        self._note(f"{paths.SUSPECTS}/{broker_id}-{reporter}", epoch)

    def clear(self, broker_id: int) -> None:
        """The broker has answered, or is gone: all reports of it end."""
        for name in self._names(paths.SUSPECTS, _SUSPECT).get(broker_id, ())[:MOST]:
            self._zookeeper.delete(f"{paths.SUSPECTS}/{name}")

    def leaving(self) -> dict[int, int]:
        """Brokers that want to stop -> the epoch in which they said so."""
        found = self._read(paths.LEAVING, _LEAVING)
        return {broker: epoch for broker, epoch in found.items() if epoch >= 0}

    def suspects(self) -> dict[int, int]:
        """Brokers of which there are reports -> the greatest epoch in them; -1 where none can be
        read."""
        return self._read(paths.SUSPECTS, _SUSPECT)

    def reporters(self, broker_id: int, epoch: int) -> set[int]:
        """Who has reported this registration of a broker."""
        names = self._names(paths.SUSPECTS, _SUSPECT).get(broker_id, ())[:MOST]
        places = [f"{paths.SUSPECTS}/{name}" for name in names]
        nodes = self._zookeeper.read_many(places)
        return {
            int(place.rpartition("-")[2])
            for place, node in zip(places, nodes, strict=True)
            if node is not None and _epoch(place, node.data) == epoch
        }

    def watch(self, callback: Callable[[], None]) -> tuple[Watch, Watch]:
        """Call back when a note comes or goes, until both watches are cancelled."""
        for parent in (paths.LEAVING, paths.SUSPECTS):
            self._zookeeper.ensure(parent)
        return (
            watch_children(self._zookeeper, paths.LEAVING, callback),
            watch_children(self._zookeeper, paths.SUSPECTS, callback),
        )

    def _note(self, path: str, epoch: int) -> None:
        content = documents.dump({"version": 1, "epoch": epoch})
        while True:
            try:
                return self._zookeeper.create(path, content, ephemeral=True, parents=True)
            except NodeExistsError:
                node = self._zookeeper.find(path)
            if node is not None and node.session == self._zookeeper.session:
                self._zookeeper.write(path, content)
                return None
            self._zookeeper.delete(path)  # of an earlier session: it would end with that one

    def _read(self, parent: str, pattern: re.Pattern[str]) -> dict[int, int]:
        """The greatest epoch of each: a note that cannot be read has -1, which no broker has."""
        found: dict[int, int] = {}
        for broker, names in self._names(parent, pattern).items():
            places = [f"{parent}/{name}" for name in names[:MOST]]
            for path, node in zip(places, self._zookeeper.read_many(places), strict=True):
                if node is not None:
                    epoch = _epoch(path, node.data)
                    found[broker] = max(epoch, found.get(broker, epoch))
        return found

    def _names(self, parent: str, pattern: re.Pattern[str]) -> Mapping[int, list[str]]:
        found: dict[int, list[str]] = {}
        for name in self._zookeeper.children(parent):
            if match := pattern.fullmatch(name):
                found.setdefault(int(match[1]), []).append(name)
        return found


def _epoch(path: str, content: bytes) -> int:
    """-1 where it cannot be read."""
    try:
        return documents.field(path, documents.load(path, content), "epoch", int)
    except MalformedNodeError:
        return -1
