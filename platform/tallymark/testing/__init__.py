"""Doubles and fixtures that ship with Tallymark, for its tests and for yours.

For applications: :class:`MemoryBroker` (a real broker in a thread, its disk in memory) and
:class:`BrokerThread` (its disk a folder), :class:`ZooKeeperServer` (a real one),
:class:`ScriptedBroker` (answers as a test says: refuses, is late, hangs up), :func:`read_topic`
(what is in a topic), and :mod:`.fixtures` (pytest's). For tests of logs: :class:`MemoryFiles`, a
disk that fails. See docs/clients.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tallymark.testing.broker_thread import BrokerThread
    from tallymark.testing.memory_broker import MemoryBroker
    from tallymark.testing.memory_files import MemoryFiles
    from tallymark.testing.reading import read_topic
    from tallymark.testing.scripted_broker import ScriptedBroker
    from tallymark.testing.zookeeper import ZooKeeperServer

__all__ = [
    "BrokerThread",
    "MemoryBroker",
    "MemoryFiles",
    "ScriptedBroker",
    "ZooKeeperServer",
    "read_topic",
]

_HOMES: Final = {
    "BrokerThread": "broker_thread",
    "MemoryBroker": "memory_broker",
    "MemoryFiles": "memory_files",
    "ScriptedBroker": "scripted_broker",
    "ZooKeeperServer": "zookeeper",
    "read_topic": "reading",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
