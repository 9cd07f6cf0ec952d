"""A real broker in a thread of the test, its disk in memory: fast, and nothing to clean up."""

from __future__ import annotations

import shutil
import tempfile
import uuid
import weakref
from pathlib import Path
from typing import Any

from tallymark.testing.broker_thread import BrokerThread
from tallymark.testing.memory_files import MemoryFiles


class MemoryBroker(BrokerThread):
    """As :class:`~tallymark.testing.broker_thread.BrokerThread`, without a folder::

        with MemoryBroker(num_partitions=4) as broker:
            Producer(bootstrap_servers=broker.bootstrap_servers)

    Topics are made when they are first used, unless ``auto_create_topics_enable=False``; groups do
    not wait for more members (``group_initial_rebalance_delay_ms``). After
    :meth:`stop` it may be started again with its old data. Compacted topics are not compacted:
    that is done by a process of its own, which does not see this one's memory. Users, quotas and
    ACLs, which are no logs, are in a folder of its own that goes with it.
    """

    def __init__(self, **settings: Any) -> None:
        fixed: dict[str, Any] = {"log_cleaner_enable": False, "group_initial_rebalance_delay_ms": 0}
        folder = Path(tempfile.gettempdir(), f"tallymark-memory-{uuid.uuid4().hex}")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        super().__init__(folder, files=MemoryFiles(), **(fixed | settings))
